"""Find the project that a session in a subfolder belongs to."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER


def find_outer_project(rootdir: Path, budget_folder: Path) -> Path | None:
    """
    Return the nearest folder above rootdir that has budgets, if rootdir has none.

    pytest's rootdir depends on where it is called if no configuration file fixes it.

    Args:
        rootdir: pytest's rootdir.
        budget_folder: the folder of the budget files.
    """
    if budget_folder.is_dir() or not budget_folder.is_relative_to(rootdir):
        return None
    below = budget_folder.relative_to(rootdir)
    return next((parent for parent in rootdir.parents if (parent / below).is_dir()), None)


def explain_outer_project(rootdir: Path, outer: Path, *, is_kept: bool) -> list[str]:
    """
    Return lines about the budgets of an outer project.

    Args:
        rootdir: pytest's rootdir.
        outer: the outer project.
        is_kept: whether this session is kept in rootdir.
    """
    shown = os.path.relpath(outer, rootdir)
    lines = [f"rootdir {rootdir} has no budgets, but {shown} has: call pytest from there, or with --rootdir={shown}"]
    if not is_kept:
        lines.append(f"nothing is kept of this session: a folder {OWN_FOLDER} here would hide the history in {shown}")
    return lines
