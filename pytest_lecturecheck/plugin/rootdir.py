"""
Notice that the value of an option has moved pytest's rootdir.

pytest looks for its rootdir before it knows the options of plugins: a value that stands apart from its option
(``--lecture-report out/report.html``) is then a path like those of tests, if there is such a file. With another rootdir
budgets are looked for, and written, somewhere else.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

_CONFIGURATION: Final = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
    "setup.py",
)


def explain_moved_rootdir(
    words: Sequence[str], *, flags: Sequence[str], tests: Sequence[str], invocation_dir: Path, rootdir: Path
) -> str:
    """
    Say what has moved pytest's rootdir and how to write it, or give an empty string.

    Args:
        words: the command line as it was written.
        flags: our options that take a value.
        tests: the paths to test that pytest has made out.
        invocation_dir: where pytest was called.
        rootdir: the rootdir that pytest has chosen.
    """
    paths = [invocation_dir / text.split("::")[0] for text in tests]
    folders = [path if path.is_dir() else path.parent for path in paths if path.exists()] or [invocation_dir]
    start = Path(os.path.commonpath(folders))
    for flag, value in pairwise(words):
        path = invocation_dir / value
        if flag not in flags or not path.exists() or path.is_relative_to(start):
            continue
        expected = _expected_rootdir(start)
        if rootdir != expected:
            return (
                f"{flag} {value}: pytest takes a value that stands apart from its option for a path to test, and has "
                f"made {rootdir} its rootdir instead of {expected}; write {flag}={value}"
            )
    return ""


def _expected_rootdir(start: Path) -> Path:
    """Give the nearest folder with a configuration, or where the tests are."""
    for folder in (start, *start.parents):
        if any((folder / name).is_file() for name in _CONFIGURATION):
            return folder
    return start
