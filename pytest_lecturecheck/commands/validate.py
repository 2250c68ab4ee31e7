"""``lecturecheck validate``: check budget files, settings and history of a repository without running anything."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pytest_lecturecheck.commands.arguments import add_root
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.safe_text import one_line

HELP: Final = "check budget files, settings and history; report every fault with its line"
DESCRIPTION: Final = """\
Check what a session reads, without running anything: lecturecheck.toml or [tool.lecturecheck] of pyproject.toml, the
budget files, and the history that the settings name. Every fault is one line, FILE:LINE: what is wrong: a number
without unit, an unknown key, an unresolved merge. Budgets that no lecture has are notes.

  lecturecheck validate                        the repository in this folder
  lecturecheck validate book/lecture-budgets   the budget files of another folder
  lecturecheck validate lectures/*.md          the settings that lectures state for themselves

With pre-commit, this project's hook lecturecheck-validate does the same at each commit.
Exit status: 0; 1 if there are faults; 2 if a named file or folder does not exist."""
_LINE: Final = re.compile(r" line ([0-9]+)(?: and [0-9]+ more)?: ")
_TOML_LINE: Final = re.compile(r" ?\(at line ([0-9]+), column [0-9]+\)")
_MOST_CHARS: Final = 1500
_SETTINGS_NAMES: Final = frozenset({"lecturecheck.toml", "pyproject.toml"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """
    The result for one file or folder.

    Attributes:
        good: lines about what has no fault.
        faults: the faults, one line each.
    """

    good: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="a folder of budget files, a budget file, a settings file, a history, or a lecture (default: all but "
        "lectures)",
    )
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Check the files.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: a named file or folder does not exist.
    """
    from pytest_lecturecheck.commands.session_lookup import root_of  # noqa: PLC0415 - not for help

    root: Path = root_of(options)
    for path in options.paths:
        if not path.exists():
            msg = f"{path}: no such file or folder; expected budget files, a settings file, a history or a lecture"
            raise LectureCheckError(msg)
    results = [_check(path, root) for path in options.paths] if options.paths else list(_check_repository(root))
    # A fault quotes keys and values of the files, which may hold anything, and any amount of it.
    faults = [one_line(fault, _MOST_CHARS) for result in results for fault in result.faults]
    good = [one_line(line, _MOST_CHARS) for result in results for line in result.good]
    if faults:
        count = len(faults)
        return 1, [*faults, f"{count} fault{'' if count == 1 else 's'}"]
    return 0, good or ["nothing to check: no settings, no budget files, no history"]


def _check_repository(root: Path) -> Iterator[Checked]:
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - not for help

    settings = _check_settings(root)
    yield settings
    if settings.faults:
        # Without settings the places of the other files are unknown; their defaults are checked.
        yield _check_budgets(root / "lecture-budgets", root)
        return
    resolved = resolve({}, root, root)
    yield _check_budgets(resolved.budget_folder, root)
    if resolved.history is not None and resolved.history.exists():
        yield _check_history(resolved.history)


def _check(path: Path, root: Path) -> Checked:
    if path.is_dir():
        found = _check_budgets(path, root)
        return found if found.good or found.faults else Checked(good=(f"{path}: no budget files",))
    if path.name in _SETTINGS_NAMES:
        return _check_settings(path.parent)
    if path.suffix == ".toml":
        return _check_budget_file(path, root)
    return _check_history(path) if path.suffix == ".jsonl" else _check_lecture(path, root)


def _check_settings(root: Path) -> Checked:
    from pytest_lecturecheck.config.settings_check import find_settings_faults  # noqa: PLC0415 - not for help

    name, faults = find_settings_faults(root)
    if not name:
        return Checked()
    if not faults:
        return Checked(good=(f"{name}: settings are valid",))
    path = _shown(root / name)
    lines = _lines_of_keys(root / name)
    texts = []
    for fault in faults:
        found = _TOML_LINE.search(fault.text)
        line = int(found.group(1)) if found else lines.get(fault.key, 1)
        texts.append(f"{path}:{line}: {_TOML_LINE.sub('', fault.text)}")
    return Checked(faults=tuple(texts))


def _lines_of_keys(path: Path) -> dict[str, int]:
    """Return the line of each key of the settings, and of each table below them."""
    from pytest_lecturecheck.files import MOST_SETTINGS_BYTES, read_plain_text  # noqa: PLC0415 - only for faults
    from pytest_lecturecheck.store.budget_file.toml_text import Kind, group_blocks, scan_pieces  # noqa: PLC0415 - as above

    prefix = () if path.name == "lecturecheck.toml" else ("tool", "lecturecheck")
    try:
        text = read_plain_text(path, most_bytes=MOST_SETTINGS_BYTES, encoding="utf-8-sig")
    except (OSError, ValueError):
        return {}
    lines: dict[str, int] = {}
    for block in group_blocks(scan_pieces(text))[0]:
        headers = [(block.path, block.header.line)] if block.header is not None else []
        pairs = [((*block.path, *piece.path), piece.line) for piece in block.body if piece.kind is Kind.PAIR]
        for parts, line in headers + pairs:
            if parts[: len(prefix)] == prefix and len(parts) > len(prefix):
                lines.setdefault(parts[len(prefix)], line)
    return lines


def _check_budgets(folder: Path, root: Path) -> Checked:
    results = [
        _check_budget_file(path, root) for path in sorted(folder.glob("*.toml")) if not path.name.startswith(".")
    ]
    return Checked(
        good=tuple(line for result in results for line in result.good),
        faults=tuple(fault for result in results for fault in result.faults),
    )


def _check_budget_file(path: Path, root: Path) -> Checked:
    from pytest_lecturecheck.errors import BudgetFileError  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.store.budget_file.files import load_budgets  # noqa: PLC0415 - as above

    try:
        budgets = load_budgets(path)
    except BudgetFileError as error:
        return Checked(faults=tuple(_located(str(error).split("\n"), path)))
    count = len(budgets.lectures)
    notes = [
        f"note: {_shown(path)} has a budget for {name!r}, and there is no such lecture"
        for name in budgets.unmatched(lambda name: (root / name).is_file())
    ]
    return Checked(good=(f"{budgets.platform}: {count} budget{'' if count == 1 else 's'}", *notes))


def _check_history(path: Path) -> Checked:
    from pytest_lecturecheck.errors import RunFileError  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.store.history import read_history  # noqa: PLC0415 - as above

    try:
        found = read_history(path)
    except RunFileError as error:
        return Checked(faults=(str(error),))
    if found.faults:
        return Checked(faults=tuple(_located(found.faults, path)))
    return Checked(good=(f"{_shown(path)}: {len(found.lines)} lines",))


def _check_lecture(path: Path, root: Path) -> Checked:
    from pytest_lecturecheck.errors import LectureReadError, SettingsError  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.lecture.book.configuration import find_book  # noqa: PLC0415 - as above
    from pytest_lecturecheck.lecture.reading import read_lecture  # noqa: PLC0415 - as above

    whole, top = path.resolve(), root.resolve()
    if not whole.is_relative_to(top):
        msg = f"{path}: outside {root}; name pytest's rootdir with --root"
        raise LectureCheckError(msg)
    try:
        read_lecture(whole, name=whole.relative_to(top).as_posix(), root=top, book=find_book(whole.parent, root=top))
    except LectureReadError as error:
        return Checked(faults=(f"{_shown(path)}:{error.line or 1}: {error.reason}",))
    except SettingsError as error:
        return Checked(faults=(f"{_shown(path)}:1: {error}",))
    return Checked(good=(f"{_shown(path)}: can be read",))


def _located(faults: Iterable[str], path: Path) -> Iterator[str]:
    """Yield faults of a file as ``FILE:LINE: text``, which editors and CI services recognise."""
    shown = _shown(path)
    for fault in faults:
        rest = fault.removeprefix(str(path))
        found = _LINE.match(rest)
        if rest != fault and found is not None:
            yield f"{shown}:{found.group(1)}: {rest[found.end() :]}"
        else:
            yield f"{shown}:1: {rest.removeprefix(': ')}"


def _shown(path: Path) -> str:
    """Return a path as somebody in this folder writes it."""
    whole, here = path.resolve(), Path.cwd()
    return whole.relative_to(here).as_posix() if whole.is_relative_to(here) else str(path)
