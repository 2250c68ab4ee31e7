"""Read the files that a MyST page loads or includes; none outside of the lectures' folders is read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from markdown_it.token import Token

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.lecture.formats import peek as _peek
from pytest_lecturecheck.lecture.formats.markdown_source import FENCE_TYPES, Fence, nested_code_cells, parse_blocks
from pytest_lecturecheck.lecture.formats.myst_dialect import MystDialect
from pytest_lecturecheck.lecture.formats.parsed import SourceLocation
from pytest_lecturecheck.lecture.source_text import decode
from pytest_lecturecheck.model.finding import Finding, FindingKind

_MAX_INCLUDED_BYTES: Final = 4 * 1024 * 1024
_MAX_INCLUDES: Final = 12
_VERBATIM: Final = re.compile(
    r"^[ \t]*:(?:literal|code|lang(?:uage)?)\b|^[ \t]*(?:literal|code|lang(?:uage)?)[ \t]*:", re.MULTILINE
)
_PART: Final = re.compile(r"^[ \t]*:?(?:start|end)-(?:line|at|after|before)[ \t]*:|^[ \t]*:?lines[ \t]*:", re.MULTILINE)
"""Options that include only a part of a file."""


def load_source(target: object, fence: Fence, *, path: Path, name: str, root: Path) -> tuple[str, SourceLocation]:
    """
    Read the file that a code-cell's option ``:load:`` names.

    Args:
        target: the value of the option.
        fence: the code-cell.
        path: the page, to which the file is relative.
        name: the page as the user knows it.
        root: the folder that the file must be in.

    Raises:
        LectureReadError: no such file, or not one that may be read.
    """
    loaded = _resolve_load(target, fence, path=path, name=name, root=root)
    try:
        data = read_plain_bytes(loaded)
    except OSError as exc:
        msg = f":load: {target!r} cannot be read: {exc.strerror or exc}"
        raise LectureReadError(name, fence.line, msg) from exc
    try:
        source = decode(data, name=name) if data else ""
    except LectureReadError as exc:
        msg = f":load: {target!r} {exc.reason}"
        raise LectureReadError(name, fence.line, msg) from exc
    return source, SourceLocation(line=None, opening_line=fence.line, source_path=Path(str(target)).as_posix())


def _resolve_load(target: object, fence: Fence, *, path: Path, name: str, root: Path) -> Path:
    if not isinstance(target, str) or not target.strip() or "\0" in target:
        msg = f":load: is {target!r}; expected a file beside the lecture"
        raise LectureReadError(name, fence.line, msg)
    try:
        loaded = (path.parent / target).resolve()
        is_file = loaded.is_file()
    except (OSError, RuntimeError) as exc:
        msg = f":load: {target!r} cannot be read: {exc}"
        raise LectureReadError(name, fence.line, msg) from exc
    if not any(loaded.is_relative_to(folder.resolve()) for folder in (root, path.parent)):
        msg = f":load: {target!r} leaves the lectures' folder; expected a file inside it"
        raise LectureReadError(name, fence.line, msg)
    if not is_file:
        msg = f":load: {target!r} is not a file; expected one relative to the lecture"
        raise LectureReadError(name, fence.line, msg)
    return loaded


def read_included_cells(
    fence: Fence, folder: Path, root: Path, *, seen: tuple[Path, ...] = ()
) -> Iterator[tuple[Fence, Path]]:
    """
    Yield the code-cells of an included file and of the files that it includes in turn.

    Args:
        fence: the include directive.
        folder: the folder that its target is relative to.
        root: the folder that the file must be in.
        seen: the files that lead to this one.

    Yields:
        The fence of the cell, and the file that holds it.
    """
    path = _resolve(folder, _target(fence), root)
    if path is None or path in seen or len(seen) >= _MAX_INCLUDES or _includes_text(fence) or _includes_part(fence):
        return
    text = _read(path)
    front = _peek.split_front_matter(text)
    body = text if front is None else "\n".join(text.split("\n")[front[1] :])
    for token in parse_blocks(body):
        if token.type not in FENCE_TYPES or token.map is None:
            continue
        block = Fence.of(token)
        for inner in (block, *nested_code_cells(block, includes=True)):
            if inner.directive == "code-cell":
                yield inner, path
            elif inner.directive == "include":
                yield from read_included_cells(inner, path.parent, root, seen=(*seen, path))


def find_included(tokens: Iterable[Token], folder: Path, root: Path, dialect: MystDialect) -> Iterator[Finding]:
    """
    Yield a finding for each included file whose code-cells are not executed.

    Args:
        tokens: the blocks of the page.
        folder: the page's folder.
        root: the folder that an included file must be in to be read.
        dialect: whose rules apply; mystmd executes included files, unless only a part is included.
    """
    for token in tokens:
        if token.type not in FENCE_TYPES or token.map is None:
            continue
        fence = Fence.of(token)
        if fence.directive != "include" or _includes_text(fence):
            continue
        why = "as in the book build"
        if dialect is MystDialect.MYSTMD:
            if not _includes_part(fence):
                continue
            why = "although mystmd may execute them: only a part of the file is included"
        path = _resolve(folder, _target(fence), root)
        count = sum(1 for _line in _peek.find_code_cells(_read(path))) if path is not None else 0
        if count:
            cells, verb = ("1 code-cell", "is") if count == 1 else (f"{count} code-cells", "are")
            message = f"{cells} in the included file {_target(fence)!r} {verb} not executed, {why}"
            yield Finding(kind=FindingKind.NOT_RUN, message=message, line=fence.line)


def _target(fence: Fence) -> str:
    return fence.info.partition("}")[2].strip()


def _includes_text(fence: Fence) -> bool:
    """Return True if the file is shown verbatim."""
    return _VERBATIM.search(fence.content) is not None


def _includes_part(fence: Fence) -> bool:
    return _PART.search(fence.content) is not None


def _resolve(folder: Path, target: str, root: Path) -> Path | None:
    try:
        path = (folder / target).resolve()
        is_inside = any(path.is_relative_to(allowed.resolve()) for allowed in (root, folder))
        is_readable = target and is_inside and path.is_file() and path.stat().st_size <= _MAX_INCLUDED_BYTES
    except (OSError, RuntimeError, ValueError):
        return None
    return path if is_readable else None


def _read(path: Path) -> str:
    try:
        return read_plain_bytes(path, most_bytes=_MAX_INCLUDED_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError:
        return ""
