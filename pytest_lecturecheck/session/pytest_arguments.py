"""
Command-line arguments that name lectures which pytest cannot find by itself.

pytest splits an argument at ``::`` and at ``[``, so a file with either in its name cannot be named. Such an argument is
replaced by the nearest folder that pytest can name, and everything else in that folder is deselected again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_lecturecheck.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One argument: its path and the names after it (``lecture``, or ``TestIt`` and ``test_a``), if any."""

    path: Path
    names: tuple[str, ...] = ()

    def holds(self, path: Path, names: Sequence[str]) -> bool:
        """Return True if this argument selects an item, by pytest's rules."""
        if path != self.path:
            return self.path in path.parents
        if len(names) < len(self.names):
            return False
        pairs = zip(self.names, names, strict=False)
        # A test's name selects all its parametrised forms.
        return all(found == asked or found.startswith(f"{asked}[") for asked, found in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """
    The arguments as pytest gets them and as the user meant them.

    Attributes:
        args: arguments for pytest.
        named: files that were named explicitly, odd or plain.
        odd: targets that pytest could not name.
        plain: all other arguments; empty if all were odd.
    """

    args: tuple[str, ...]
    named: frozenset[Path]
    odd: tuple[Target, ...] = ()
    plain: tuple[Target, ...] = ()

    def wants(self, path: Path) -> bool:
        """Return True if ``path`` was selected; only folders that replace odd names hold anything else."""
        if not self.odd:
            return True
        asked = [target.path for target in self.odd]
        if any(path == target or path in target.parents for target in asked):
            return True
        plain = [target.path for target in self.plain]
        return any(path == arg or arg in path.parents or path in arg.parents for arg in plain)

    def deselects(self, path: Path, names: Sequence[str]) -> bool:
        """
        Return True if an item was not selected; only folders that replace odd names bring in such items.

        Args:
            path: the item's file.
            names: names of the item's nodes below its file, the item's own last.
        """
        return bool(self.odd) and not any(target.holds(path, names) for target in (*self.odd, *self.plain))


def read_arguments(args: Sequence[str], invocation_dir: Path) -> Arguments:
    """Return which files the arguments name, with arguments that pytest can resolve."""
    passed: list[str] = []
    named: set[Path] = set()
    odd: list[Target] = []
    plain: list[Target] = []
    for arg in args:
        target = _find_file(arg, invocation_dir)
        if target is None:
            passed.append(arg)
            path, *names = arg.split("::")
            plain.append(Target(path=_absolute(path, invocation_dir), names=tuple(names)))
            continue
        named.add(target.path)
        if not _is_odd(_file_part(arg, target)):
            passed.append(arg)
            plain.append(target)
            continue
        odd.append(target)
        folder = _nameable_folder(_file_part(arg, target))
        if folder not in passed:
            passed.append(folder)
    return Arguments(args=tuple(passed), named=frozenset(named), odd=tuple(odd), plain=tuple(plain))


def _find_file(arg: str, invocation_dir: Path) -> Target | None:
    parts = arg.split("::")
    for count in range(len(parts), 0, -1):
        candidate = _absolute("::".join(parts[:count]), invocation_dir)
        try:
            is_file = candidate.is_file()
        except (OSError, ValueError):  # a parametrised id can be no path at all
            continue
        if is_file:
            return Target(path=candidate, names=tuple(parts[count:]))
    return None


def _absolute(text: str, invocation_dir: Path) -> Path:
    # As pytest does: dots are folded, links are kept.
    joined = invocation_dir / text
    folded: list[str] = []
    for part in joined.parts:
        if part == ".." and len(folded) > 1:
            folded.pop()
        elif part != "..":
            folded.append(part)
    return Path(*folded)


def _file_part(arg: str, target: Target) -> str:
    suffix = "".join(f"::{name}" for name in target.names)
    return arg.removesuffix(suffix) if suffix else arg


def _is_odd(text: str) -> bool:
    return "::" in text or "[" in text


def _nameable_folder(text: str) -> str:
    folder = Path(text).parent
    while _is_odd(str(folder)):
        folder = folder.parent
    return str(folder)
