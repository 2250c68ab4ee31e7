"""Condense a kernel's traceback: keep the lecture's own frames, reduce library frames to one line each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.safe_text import cut, plain

# IPython's headings: "Cell In[3], line 2, in f(x)", "Input In [3], in <cell line: 2>()", "File ~/a.py:12, in f(x)"; and
# the one of plain Python: '  File "a.py", line 12, in f'.
_CELL: Final = re.compile(
    r"\s*(?:Cell In ?\[|Input In ?\[|<ipython-input-|File <ipython-input-|File .*/ipykernel_\d+/).*"
)
_FILE: Final = re.compile(r"\s*File .*(?::\d+|, line \d+)(?:, in .*|\s*)")
_LIBRARY: Final = re.compile(
    r".*(?:[\\/](?:site|dist)-packages[\\/]|[\\/]lib(?:64)?[\\/]python\d|[\\/]Lib[\\/]|File \"?<).*"
)
_ARROW: Final = re.compile(r"-*> ?\d+ .*")
_NUMBERED: Final = re.compile(r"(?:\s*-*>)?\s*\d+(?: .*)?")
_RULE: Final = re.compile(r"-{20,}")
_BANNER: Final = re.compile(r"\S+\s+Traceback \(most recent call last\)|Traceback \(most recent call last\):")
_CELL_LINE: Final = re.compile(r"(?:Cell In ?|Input In ?)\[(\d{1,6})\], line (\d{1,6})")
_LIBRARY_PREFIX: Final = re.compile(r"File .*[\\/](?:(?:site|dist)-packages|python\d[\d.]*|Lib)[\\/](?=.*:\d)")
_SIGNATURE: Final = re.compile(r"(, in [^(]+)\(.+\)")
_JOINTS: Final = ("The above exception was", "During handling of the above exception")
_CUT_MARK: Final = re.compile(r"\[\.\.\. \d+ lines cut \.\.\.\]")
_FRAMES_AROUND: Final = 2
_MESSAGE_LINES: Final = 16
_TEXT_LINES: Final = 40
_FULL_LINES: Final = 1000
_LINE_CHARS: Final = 2000
# A line of thousands of characters is no frame heading; matching stops here.
_HEADING_CHARS: Final = 1000


@dataclass(slots=True)
class _Block:
    """A heading with the lines below it; the text before the first heading and after the last frame has no heading."""

    kind: str
    lines: list[str]


def condense_traceback(traceback: Sequence[str], lines_by_count: Mapping[int, int] | None = None) -> list[str]:
    """
    Return the traceback as an author needs it: own frames with their failing line, library frames as headings.

    Of many library frames in a row, the first and the last two stay. Chained exceptions keep the sentence that joins
    them. If no frame is recognised (other languages), the traceback is only cut.

    Args:
        traceback: lines or frames of the kernel's traceback.
        lines_by_count: first line of each cell in the lecture's file, by execution count; frames of cells then show
            their line in the file as well.
    """
    rows = _rows(traceback)
    blocks = _blocks(rows)
    if all(block.kind == "text" for block in blocks):
        return _trim(cut("\n".join(row for block in blocks for row in _unbannered(block)), _TEXT_LINES, _LINE_CHARS))
    blocks = _blocks(_without_orphans(rows))
    for block in blocks:
        if block.kind == "cell":
            block.lines[0] = _with_file_line(block.lines[0], lines_by_count or {})
    return _trim("\n".join(_bounded(_condensed_parts(blocks), 3 * _TEXT_LINES)))


def _condensed_parts(blocks: Sequence[_Block]) -> list[_Block]:
    """Return what is shown of each frame; adjacent library frames become one part."""
    result: list[_Block] = []
    position = 0
    while position < len(blocks):
        end = position
        while end < len(blocks) and blocks[end].kind == "library":
            end += 1
        if end > position:
            raised_here = end == len(blocks) or blocks[end].kind == "text"
            result.append(_Block("library", _library_rows(blocks[position:end], raised_here=raised_here)))
            position = end
            continue
        block = blocks[position]
        result.append(_Block(block.kind, _text_rows(block) if block.kind == "text" else _own_rows(block)))
        position += 1
        # Endless recursion. How often the frame repeats is unknown, because the kernel cut its traceback.
        last = position
        while block.kind != "text" and last < len(blocks) and blocks[last] == block:
            last += 1
        if last - position > 1:
            result.append(_Block("library", ["[... the same frame repeats ...]"]))
            position = last
    return result


def _bounded(parts: Sequence[_Block], most: int) -> list[str]:
    """Drop whole parts from the middle of a long traceback: library frames first, the lecture's own frames last."""
    excess = sum(len(part.lines) for part in parts) - most
    dropped: set[int] = set()
    inner = sorted(range(1, len(parts) - 1), key=lambda index: abs(2 * index - len(parts) + 1))
    for kinds in (("library",), ("text",), ("cell", "file")):
        for index in inner:
            # A dropped part may need a line for its mark.
            if excess > 0 and parts[index].kind in kinds and len(parts[index].lines) > 1:
                dropped.add(index)
                excess -= len(parts[index].lines) - 1
    rows: list[str] = []
    for is_dropped, group in groupby(range(len(parts)), key=dropped.__contains__):
        lines = [line for index in group for line in parts[index].lines]
        rows += [f"[... {len(lines)} lines cut ...]"] if is_dropped else lines
    return cut("\n".join(rows), most, _LINE_CHARS).split("\n")


def _without_orphans(rows: Sequence[str]) -> list[str]:
    """Remove source lines that lost their frame's heading when a long traceback was cut in the middle."""
    result: list[str] = []
    is_orphan = False
    for row in rows:
        head = row[:_HEADING_CHARS]
        if _CUT_MARK.fullmatch(head.strip()):
            is_orphan = True
        elif is_orphan and (_kind(head) or (head.strip() and not head[0].isspace() and not _NUMBERED.fullmatch(head))):
            is_orphan = False
        elif is_orphan:
            continue
        result.append(row)
    return result


def whole_traceback(traceback: Sequence[str], lines_by_count: Mapping[int, int] | None = None) -> list[str]:
    """Return the traceback as the kernel sent it, as safe text, with lines as in :func:`condense_traceback`."""
    rows = [_with_file_line(row, lines_by_count or {}) for row in _rows(traceback)]
    return _trim(cut("\n".join(rows), _FULL_LINES, _LINE_CHARS))


def lines_by_count(run: Run) -> dict[int, int]:
    """Return the first line of each cell by execution count; the kernel counts only the cells sent to it."""
    sent = [cell for cell in run.cells if cell.status.has_run]
    return {count: cell.line for count, cell in enumerate(sent, start=1) if cell.line is not None}


def _rows(traceback: Sequence[str]) -> list[str]:
    rows = plain("\n".join(traceback)).split("\n")
    return [row.rstrip() for row in rows if _RULE.fullmatch(row.strip()) is None]


def _trim(text: str) -> list[str]:
    rows = text.split("\n")
    while rows and not rows[0].strip():
        rows = rows[1:]
    while rows and not rows[-1].strip():
        rows = rows[:-1]
    return rows


def _blocks(rows: Sequence[str]) -> list[_Block]:
    """Split at headings; a frame ends at a blank line that no numbered source line follows."""
    blocks = [_Block("text", [])]
    for position, row in enumerate(rows):
        head = row[:_HEADING_CHARS]
        kind = _kind(head)
        if kind:
            blocks.append(_Block(kind, [row]))
        elif blocks[-1].kind != "text" and _ends_frame(head):
            blocks.append(_Block("text", [row]))
        elif blocks[-1].kind == "text" or row.strip() or _numbered_next(rows, position):
            blocks[-1].lines.append(row)
        else:
            blocks.append(_Block("text", []))
    return [block for block in blocks if any(row.strip() for row in block.lines)]


def _ends_frame(row: str) -> bool:
    """Return True if a row below a heading is not one of its source lines, which are numbered or indented."""
    return bool(row.strip()) and not row[0].isspace() and _NUMBERED.fullmatch(row) is None


def _kind(row: str) -> str:
    if _CELL.fullmatch(row):
        return "cell"
    if _FILE.fullmatch(row):
        return "library" if _LIBRARY.fullmatch(row) else "file"
    return ""


def _numbered_next(rows: Sequence[str], position: int) -> bool:
    following = rows[position + 1][:_HEADING_CHARS] if position + 1 < len(rows) else ""
    return _NUMBERED.fullmatch(following) is not None


def _own_rows(block: _Block) -> list[str]:
    """Return the heading and the failing line; a syntax error has no arrow and is kept whole."""
    arrows = _arrows(block)
    return [block.lines[0].strip(), *(arrows or [row for row in block.lines[1:] if row.strip()])]


def _arrows(block: _Block) -> list[str]:
    return ["  " + row.strip() for row in block.lines[1:] if _ARROW.fullmatch(row.strip()[:_HEADING_CHARS])]


def _library_rows(blocks: Sequence[_Block], *, raised_here: bool) -> list[str]:
    headings = [_short_heading(block.lines[0].strip()) for block in blocks]
    hidden = len(headings) - 1 - _FRAMES_AROUND
    if hidden > 1:
        headings[1:-_FRAMES_AROUND] = [f"[... {hidden} more frames in libraries ...]"]
    return headings + (_arrows(blocks[-1]) if raised_here else [])


def _short_heading(heading: str) -> str:
    """Remove the arguments and the folder that all frames of an environment share."""
    if len(heading) > _HEADING_CHARS:
        return heading
    return _SIGNATURE.sub(r"\1(...)", _LIBRARY_PREFIX.sub("File ", heading))


def _text_rows(block: _Block) -> list[str]:
    rows = _unbannered(block)
    if not rows:
        return []
    rows = cut("\n".join(rows), _MESSAGE_LINES, _LINE_CHARS).split("\n")
    return [line for row in rows for line in (("", row, "") if row.startswith(_JOINTS) else (row,))]


def _unbannered(block: _Block) -> list[str]:
    return [row for row in block.lines if row.strip() and _BANNER.fullmatch(row.strip()[:_HEADING_CHARS]) is None]


def _with_file_line(heading: str, lines_by_count: Mapping[int, int]) -> str:
    found = _CELL_LINE.match(heading.strip()[:_HEADING_CHARS])
    first = lines_by_count.get(int(found.group(1))) if found is not None else None
    if found is None or first is None:
        return heading
    return f"{heading} (line {first + int(found.group(2)) - 1} of the file)"
