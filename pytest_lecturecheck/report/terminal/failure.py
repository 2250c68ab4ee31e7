"""Render the failure text of one item: headline, location, source, traceback, cause, measurements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.cell_run import CellError, CellStatus
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.frames import condense_traceback, lines_by_count, whole_traceback
from pytest_lecturecheck.report.measurement_text import focus_text, render_cells
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.terminal.exceeded import remedies, render_exceeded
from pytest_lecturecheck.report.terminal.memory_sections import memory_sections
from pytest_lecturecheck.report.text import display_width, fit_end, fold_between_words, wrap
from pytest_lecturecheck.safe_text import cut, one_line, plain
from pytest_lecturecheck.verdict import VerdictKind

_INDENT: Final = "  "
_CONTEXT_BEFORE: Final = 4
_CONTEXT_AFTER: Final = 2
_UNMARKED_LINES: Final = 10
_EXIT_HINT: Final = re.compile(r"UserWarning: To exit: use 'exit'|^\s*warn\(\"To exit: use 'exit'")
"""What IPython prints at a SystemExit, for people at a prompt."""
_MARKED_PIECES: Final = 4
_OUTPUT_LINES: Final = 6
_OUTPUT_LINES_VERBOSE: Final = 60
_LINE_CHARS: Final = 400
_NOTE_CHARS: Final = 2000
_FINDINGS: Final = 10

# Findings in an earlier cell that can make a later one fail.
_CAUSING: Final = frozenset(
    {
        FindingKind.SHELL,
        FindingKind.MISSING_PROGRAM,
        FindingKind.INSTALL,
        FindingKind.NESTED_CELL,
        FindingKind.NOT_RUN,
        FindingKind.KERNEL,
        FindingKind.BREAKPOINT,
        FindingKind.PROCESS,
        FindingKind.FORMAT,
    }
)


def render_failure(
    entry: Entry,
    *,
    source_lines: Sequence[str] = (),
    loaded_from: str = "",
    colour: bool = False,
    width: int = 80,
    verbosity: int = 0,
) -> str:
    """
    Render the failure text of an item. Its first line is the verdict's headline.

    Args:
        entry: the run with its verdict.
        source_lines: source of the cell in focus (:attr:`Entry.focus`), by lines; if empty, the recorded source
            is shown.
        loaded_from: file that holds the source of that cell, if it is not the lecture's own.
        colour: whether colour codes are written.
        width: columns of the terminal; only headline and location may be longer.
        verbosity: from 1 on, the whole traceback of the kernel and more of the cell's output are shown.
    """
    paint = Paint(colour=colour)
    # Only line feeds count: str.splitlines would also split at form feeds, which number no line.
    rows = source_lines or entry.source.rstrip("\n").split("\n")
    lines = [paint(Tone.HEADLINE, entry.headline), *_location(entry, loaded_from, width, paint)]
    lines += _after_blank(_excerpt(entry, rows, width, paint))
    if any(item.kind is entry.verdict.kind for item in entry.verdict.compared):
        lines += _after_blank(render_exceeded(entry, width=width, paint=paint, indent=_INDENT))
    for title, body in memory_sections(entry, width, indent=_INDENT):
        lines += _after_blank([paint(Tone.TITLE, title), *body])
    for title, body in _sections(entry, width, paint, verbosity):
        lines += _after_blank([paint(Tone.TITLE, title), *body] if body else [])
    return "\n".join(lines)


def _after_blank(lines: Sequence[str]) -> list[str]:
    return ["", *lines] if lines else []


def _location(entry: Entry, loaded_from: str, width: int, paint: Paint) -> list[str]:
    """Return the location that an editor opens, then the cell that it is in."""
    cell = entry.focus
    parts = [f"variant {one_line(entry.run.variant)}"] if entry.run.variant else []
    if cell is not None and not entry.run.is_program:
        parts.append(focus_text(entry))
        if cell.line is None and (inner := entry.failing_line_in_cell) is not None:
            parts.append(f"line {inner} of {one_line(loaded_from) or 'the cell'}")
        elif loaded_from and entry.line == cell.line:
            parts.append(f"loaded from {one_line(loaded_from)}")
    text = ", ".join(parts)
    row = f"{entry.location}: {text}" if text else entry.location
    # Editors cannot open a location that is broken over two lines.
    rows = [row] if display_width(row) <= width else [entry.location, *wrap(text, width, first=_INDENT)]
    return [paint(Tone.LOCATION, row) for row in rows if row.strip()]


def _excerpt(entry: Entry, source_lines: Sequence[str], width: int, paint: Paint) -> list[str]:
    """Return the failing line with its neighbours, or the beginning of the cell if the line is unknown."""
    marked, offset = entry.marked_row, (entry.source_first_line or 1) - 1
    if not any(row.strip() for row in source_lines):
        return []
    if marked is None or not 1 <= marked <= len(source_lines):
        marked, first, last = 0, 1, min(len(source_lines), _UNMARKED_LINES)
    else:
        first, last = max(1, marked - _CONTEXT_BEFORE), min(len(source_lines), marked + _CONTEXT_AFTER)
    digits = max(4, len(str(last + offset)))
    lines = []
    for number in range(first, last + 1):
        text = one_row(source_lines[number - 1])
        room = max(8, width - digits - 5)
        gutter = f"{'>' if number == marked else ' '} {number + offset:>{digits}} |"
        if number == marked:
            pieces = fold_between_words(cut(text, 1, _LINE_CHARS), room)[:_MARKED_PIECES]
            blank = " " * (digits + 2) + " |"
            marked_rows = [f"{blank if index else gutter} {piece}" for index, piece in enumerate(pieces)]
            lines += [paint(Tone.MARK, row.rstrip()) for row in marked_rows]
        else:
            lines.append(f"{gutter} {fit_end(text, room)}".rstrip())
    left_out = max(len(source_lines), entry.verdict.source_line_count) - last
    if not marked and left_out:
        lines.append(f"  {'':>{digits}} | [... {left_out} more lines of the cell ...]")
    return lines


def one_row(text: str) -> str:
    """Return one source line as safe text, with its indentation."""
    return plain(text).replace("\n", " ").rstrip()


def _sections(entry: Entry, width: int, paint: Paint, verbosity: int) -> Iterator[tuple[str, list[str]]]:
    run, cause = entry.run, entry.verdict.cause
    error = _error(entry)
    # IPython sends no frames of a SystemExit, only how to see them.
    if error is not None and error.traceback and (verbosity >= 1 or error.name != "SystemExit"):
        whose = "program" if run.is_program else "kernel"
        title = f"Traceback of the {whose}" + ("" if verbosity >= 1 else " (condensed; whole with -v)")
        yield title, _traceback(entry, error, width, verbosity)
    yield "Possibly related findings", _findings(entry, width)
    if entry.verdict.kind is VerdictKind.NO_BUDGET:
        yield "What to do", _items(remedies(entry), width)
    if cause is not None:
        yield "Evidence", _items(cause.evidence, width)
        yield "What to do", _items(cause.advice, width)
    yield f"Output of the {'program' if run.is_program else 'cell'}", _output(entry, width, verbosity)
    if run.is_program:
        yield "Measured until its end", _measured(run)
    elif run.evidence is not None:
        yield "Cells so far", render_cells(run, entry.focus, width=width, paint=paint, indent=_INDENT)
    yield "Notes", _items(entry.verdict.notes, width)


def _measured(run: Run) -> list[str]:
    if run.evidence is None:
        return []
    found = (run.measured(metric) for metric in (Metric.PEAK_FOOTPRINT, Metric.WALL, Metric.CPU))
    return [f"{_INDENT}{item.metric.label}: {item.text}" for item in found if item is not None]


def _error(entry: Entry) -> CellError | None:
    evidence, cell = entry.run.evidence, entry.focus
    if evidence is not None and evidence.error is not None:
        return evidence.error
    failed = cell is not None and cell.status in {CellStatus.FAILED, CellStatus.TIMED_OUT, CellStatus.DIED}
    return cell.error if cell is not None and failed else None


def _traceback(entry: Entry, error: CellError, width: int, verbosity: int) -> list[str]:
    if verbosity >= 1:
        return [f"{_INDENT}{row}".rstrip() for row in whole_traceback(error.traceback, lines_by_count(entry.run))]
    rows = condense_traceback(error.traceback, lines_by_count(entry.run))
    return [line for row in rows for line in _fitted(cut(row, 1, _LINE_CHARS), width)]


def _fitted(row: str, width: int) -> list[str]:
    """Wrap headings and messages between words, fold source lines; rows that fit keep their spacing."""
    if display_width(row) <= width - len(_INDENT):
        return [f"{_INDENT}{row}".rstrip()]
    if row.startswith(" "):
        return [f"{_INDENT}{piece}".rstrip() for piece in fold_between_words(row, width - len(_INDENT))]
    return wrap(row, width, first=_INDENT, rest=_INDENT * 2)


def _findings(entry: Entry, width: int) -> list[str]:
    found = [item for item in entry.run.findings if _may_explain(entry, item)]
    lines = []
    for item in found[:_FINDINGS]:
        text = f"{item.place_beside}: {item.message}" if item.place_beside else item.message
        lines += wrap(one_line(text), width, first=_INDENT, rest=_INDENT * 2)
    if len(found) > _FINDINGS:
        lines.append(f"{_INDENT}and {len(found) - _FINDINGS} more")
    return lines


def _may_explain(entry: Entry, item: Finding) -> bool:
    # The limit that was met may not be the one on the command line.
    if item.kind is FindingKind.SETTING:
        return True
    # A finding that fails the lecture under strict is in the headline.
    if entry.run.evidence is None:
        return False
    focus = entry.focus
    # Findings of later cells explain nothing; findings about the file itself have no cell.
    in_time = item.cell_number is None or focus is None or item.cell_number <= focus.number
    if item.kind is FindingKind.INSTALL and not _may_install_explain(entry, item):
        return False
    return (item.kind in _CAUSING or item.may_explain) and in_time


def _may_install_explain(entry: Entry, item: Finding) -> bool:
    """Return True for an install line that failed or replaced an imported package, if nothing else explains the end."""
    cause = entry.verdict.cause
    return item.may_explain and (cause is None or not cause.explains)


def _items(items: Sequence[str], width: int) -> list[str]:
    """Wrap messages; source and stderr extracts keep their own line breaks."""
    rows: list[str] = []
    for item in items:
        for position, part in enumerate(cut(plain(item), 3 * _FINDINGS, _NOTE_CHARS).split("\n")):
            first = _INDENT if position == 0 else _INDENT * 2
            rows += wrap(part, width, first=first, rest=_INDENT * 2)
    return rows


def _output(entry: Entry, width: int, verbosity: int) -> list[str]:
    """Return the end of what the failing cell printed, which its author would look at next."""
    cell = entry.focus
    if cell is None or entry.run.evidence is None or not cell.output_extract.strip():
        return []
    error = _error(entry)
    # IPython prints the tracebacks of an exception group instead of sending them.
    is_traceback = error is not None and error.name.endswith("ExceptionGroup") and not error.traceback
    limit = _OUTPUT_LINES_VERBOSE if verbosity >= 1 or is_traceback else _OUTPUT_LINES
    rows = [row for row in plain(cell.output_extract).strip("\n").split("\n") if not _EXIT_HINT.search(row)]
    if not any(row.strip() for row in rows):
        return []
    left_out = len(rows) - limit
    mark = [f"{_INDENT}[... {left_out} lines left out ...]"] if left_out > 0 else []
    room = width - len(_INDENT)
    shown = rows if left_out <= 0 else rows[-limit:]
    # A warning of a library is one long line, which has to stay whole.
    return mark + [
        f"{_INDENT}{piece}".rstrip() for row in shown for piece in fold_between_words(cut(row, 1, _LINE_CHARS), room)
    ]
