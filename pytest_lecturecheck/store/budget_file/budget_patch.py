"""Changes of a budget file as a patch that ``git apply`` and ``patch -p1`` take."""

from __future__ import annotations

import difflib
from pathlib import Path

from pytest_lecturecheck.budget.limits import PlatformBudgets
from pytest_lecturecheck.files import MOST_SETTINGS_BYTES, read_plain_bytes
from pytest_lecturecheck.store.budget_file.files import updated_text

_NOTHING = "/dev/null"


def budget_patch(path: Path, budgets: PlatformBudgets) -> str:
    """
    Return the change from a budget file to ``budgets`` as a unified diff; empty if there is none.

    Its paths start at the top of the git repository, or at the working folder where there is none.

    Raises:
        BudgetFileError: the present file has faults.
    """
    new = updated_text(path, budgets)
    if new is None:
        return ""
    # As the file is, with its own line ends.
    old = read_plain_bytes(path, most_bytes=MOST_SETTINGS_BYTES).decode("utf-8") if path.exists() else None
    name = _name(path)
    lines = difflib.unified_diff(
        [] if old is None else old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        _NOTHING if old is None else f"a/{name}",
        f"b/{name}",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _name(path: Path) -> str:
    whole = path.resolve()
    top = next((folder for folder in whole.parents if (folder / ".git").exists()), Path.cwd())
    name = whole.relative_to(top).as_posix() if whole.is_relative_to(top) else whole.name
    # A tab ends a name that has blanks.
    return f"{name}\t" if " " in name else name
