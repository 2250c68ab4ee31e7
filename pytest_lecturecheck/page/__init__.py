"""
What a book shows of budgets on its pages: the directive ``{lecture-budget}``.

This module is a Sphinx extension (``extensions = ["pytest_lecturecheck.page"]``). The plugin for mystmd is
:mod:`~pytest_lecturecheck.page.budget_page`: one file of the standard library. It reads budgets for the extension, too.
"""

from __future__ import annotations

from typing import Any


def setup(app: Any) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    from pytest_lecturecheck.page.sphinx_directive import register  # noqa: PLC0415 - Sphinx is there only in a build

    return register(app)
