"""
Budget files, which people review: ``lecture-budgets/<platform>.toml``.

The format is described in ``docs/reference/budget-files.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pytest_lecturecheck.budget.limits import PlatformBudgets
from pytest_lecturecheck.errors import BudgetFileError, SettingsError
from pytest_lecturecheck.files import MOST_SETTINGS_BYTES, read_plain_bytes
from pytest_lecturecheck.model.platform import parse_platform_label
from pytest_lecturecheck.store.atomic import write_text_atomically
from pytest_lecturecheck.store.budget_file.budget_reader import BudgetText, parse_budget_text

FOLDER_NAME: Final = "lecture-budgets"
"""The folder of budget files under pytest's rootdir."""


def budget_path(folder: Path, platform: str) -> Path:
    """
    Return the path of the budget file of a platform.

    Raises:
        SettingsError: the label cannot be a file name.
    """
    return folder / f"{parse_platform_label(platform)}.toml"


def load_budgets(path: Path) -> PlatformBudgets:
    """
    Read a budget file; a missing file has no budgets.

    Raises:
        BudgetFileError: the file cannot be read or has faults; all of them are listed, one line each.
    """
    text = _read(path)
    platform = _platform_of(path)
    return PlatformBudgets(platform=platform) if text is None else _parse(path, text).budgets


def load_folder(folder: Path) -> dict[str, PlatformBudgets]:
    """
    Read the budget files of all platforms; a missing folder has none.

    Raises:
        BudgetFileError: files that cannot be read or have faults; all faults of all files are listed, one line each.
    """
    budgets, faults = {}, []
    for path in sorted(folder.glob("*.toml")):
        if path.name.startswith("."):
            continue
        try:
            budgets[path.stem] = load_budgets(path)
        except BudgetFileError as error:
            faults.append(str(error))
    if faults:
        raise BudgetFileError("\n".join(faults))
    return budgets


def save_budgets(path: Path, budgets: PlatformBudgets) -> bool:
    """
    Update a budget file to ``budgets``; only tables that differ are rewritten.

    Derived limits are computed by the rules of ``budgets`` from the values as printed. A file that needs no change is
    not touched.

    Args:
        path: the file, ``<platform>.toml``; folders are made as needed.
        budgets: the complete content; entries that are not in it are removed.

    Returns:
        Whether the file was written.

    Raises:
        BudgetFileError: the present file has faults (and is not overwritten), belongs to another platform, or
            cannot be written.
    """
    new_text = updated_text(path, budgets)
    if new_text is None:
        return False
    try:
        write_text_atomically(path, new_text)
    except OSError as error:
        msg = f"{path}: cannot be written: {error.strerror or error}"
        raise BudgetFileError(msg) from error
    return True


def updated_text(path: Path, budgets: PlatformBudgets) -> str | None:
    """
    Return the text that a budget file has after an update to ``budgets``, or ``None`` if nothing changes.

    Raises:
        BudgetFileError: the present file has faults, or belongs to another platform.
    """
    platform = _platform_of(path)
    if platform != budgets.platform:
        msg = f"{path}: budgets of {budgets.platform} belong in another file; expected {budgets.platform}.toml"
        raise BudgetFileError(msg)
    text = _read(path)
    # Only a session that records needs the writer.
    from pytest_lecturecheck.store.budget_file import budget_writer as writing  # noqa: PLC0415 - see above

    old = _parse(path, writing.head_text(platform, budgets.tolerance) if text is None else text)
    new_text = writing.update_text(old, budgets)
    if new_text == text:
        return None
    _check_faithful(path, new_text, budgets)
    return new_text


def parse_budgets(path: Path, data: bytes) -> PlatformBudgets:
    """
    Return the budgets of the content of a budget file.

    Args:
        path: what the file is called; the last part names the platform.
        data: its content.

    Raises:
        BudgetFileError: it has faults; all of them are listed, one line each.
    """
    return _parse(path, _decode(path, data)).budgets


def _read(path: Path) -> str | None:
    """Return the text with LF line ends, or ``None`` if there is no file."""
    try:
        return _decode(path, read_plain_bytes(path, most_bytes=MOST_SETTINGS_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror or error}"
        raise BudgetFileError(msg) from error


def _decode(path: Path, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        msg = f"{path} line {line}: byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise BudgetFileError(msg) from error
    text = text.replace("\r\n", "\n")
    return text if not text or text.endswith("\n") else f"{text}\n"


def _parse(path: Path, text: str) -> BudgetText:
    return parse_budget_text(text, str(path), _platform_of(path))


def _platform_of(path: Path) -> str:
    try:
        return parse_platform_label(path.stem)
    except SettingsError as error:
        msg = f"{path}: the file must be named after its platform: {error}"
        raise BudgetFileError(msg) from error


def _check_faithful(path: Path, text: str, budgets: PlatformBudgets) -> None:
    """Parse the new text before it replaces the file, and refuse it if a budget does not survive."""
    from pytest_lecturecheck.store.budget_file import budget_writer as writing  # noqa: PLC0415 - as in save_budgets

    wanted = writing.with_normal_keys(budgets)
    found = _parse(path, text).budgets
    lost = [key for key in wanted.lectures if key not in found.lectures] + [
        key
        for key, entry in found.lectures.items()
        if key not in wanted.lectures
        or writing.describe_entry(entry, found.tolerance)
        != writing.describe_entry(wanted.lectures[key], wanted.tolerance)
    ]
    if lost or found.tolerance != wanted.tolerance:
        names = ", ".join(repr(lecture) for lecture, _ in lost) or "the rules"
        msg = f"{path}: not written, because it would not read back unchanged: {names}"
        raise BudgetFileError(msg)
