"""
Detect that the value of an option has moved pytest's rootdir.

pytest determines its rootdir before it knows the options of plugins. A value after a space (``--lecture-report
out/report.html``) then counts as a path to test, if there is such a file. With another rootdir, budgets are read from,
and written to, another folder.
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
    arguments: Sequence[str], *, flags: Sequence[str], tests: Sequence[str], invocation_dir: Path, rootdir: Path
) -> str:
    """
    Explain what has moved pytest's rootdir and what to write instead, or return an empty string.

    Args:
        arguments: the command line as it was written.
        flags: our options that take a value.
        tests: the paths to test, as pytest parsed them.
        invocation_dir: where pytest was called.
        rootdir: the rootdir that pytest chose.
    """
    paths = [invocation_dir / text.split("::")[0] for text in tests]
    folders = [path if path.is_dir() else path.parent for path in paths if path.exists()] or [invocation_dir]
    start = Path(os.path.commonpath(folders))
    for flag, value in pairwise(arguments):
        path = invocation_dir / value
        if flag not in flags or not path.exists() or path.is_relative_to(start):
            continue
        expected = _expected_rootdir(start)
        if rootdir != expected:
            return (
                f"{flag} {value}: pytest takes a value after a space for a path to test, and made {rootdir} its "
                f"rootdir instead of {expected}; write {flag}={value}"
            )
    return ""


def _expected_rootdir(start: Path) -> Path:
    """Return the nearest folder with a configuration file, or the folder of the tests."""
    for folder in (start, *start.parents):
        if any((folder / name).is_file() for name in _CONFIGURATION):
            return folder
    return start
