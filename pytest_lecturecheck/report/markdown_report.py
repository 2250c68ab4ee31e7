"""Render the session as Markdown for a pull request's comment or a job summary: failures, table, details."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.terminal.concurrency import concurrency_tables
from pytest_lecturecheck.report.terminal.failure import render_failure
from pytest_lecturecheck.report.terminal.remarks import remark_groups
from pytest_lecturecheck.report.terminal.replication import (
    count_text,
    has_declared,
    package_comparisons,
    replication_line,
)
from pytest_lecturecheck.report.terminal.summary import cell_text, extra_columns, peak_and_limit, time_and_limit
from pytest_lecturecheck.safe_text import cut, one_line

_WIDTH: Final = 100
_DETAIL_LINES: Final = 200
_DETAIL_CHARS: Final = 500
_LOCATIONS: Final = 10

# Every character that Markdown or HTML could act on. Entities work in text, in table cells and inside HTML, where a
# backslash does not; the zero-width space keeps "@name" and "#12" from becoming mentions and references.
_ESCAPES: Final = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "@": "@&#8203;",
    "#": "&#35;&#8203;",
    "|": "&#124;",
    "`": "&#96;",
    "\\": "&#92;",
    "*": "&#42;",
    "~": "&#126;",
    "[": "&#91;",
    "]": "&#93;",
    "!": "&#33;",
    "$": "&#36;",
}
# In addition: the colon and the dot that turn bare addresses into links, and whatever would begin a list or a rule.
ACTIVE: Final = re.compile(
    "[" + re.escape("".join(_ESCAPES)) + "]"
    r"|(?i:(?<=http)|(?<=https)|(?<=ftp)):(?=//)|(?i:(?<=www))\."
    r"|^(?:[-+=](?=[-+=\s]|$)|\d{1,9}[.)](?=\s|$))"
    # An underscore inside a word is no emphasis and stays readable in the raw text.
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """
    How much is rendered if space is limited.

    Attributes:
        details: number of failures with details, or ``None`` for all.
        rows: number of lectures in lists and tables, or ``None`` for all; a number also drops the remarks.
    """

    details: int | None = None
    rows: int | None = None


def render_markdown(
    entries: Sequence[Entry],
    *,
    title: str = "Lecture check",
    platform: str = "",
    machine: Machine | None = None,
    verbosity: int = 0,
    extent: Extent | None = None,
) -> str:
    """
    Render the session's entries as GitHub-flavoured Markdown; text from lectures cannot become markup.

    Args:
        entries: the session's entries.
        title: heading of the document.
        platform: platform label.
        machine: the machine, or ``None`` if it is unknown.
        verbosity: as for the failure text.
        extent: how much is rendered; ``None`` for everything.
    """
    most_rows, most_details = (None, None) if extent is None else (extent.rows, extent.details)
    failed = [entry for entry in entries if entry.verdict.failed]
    blocks = [f"## {escape(title)}", f"**{escape(count_text(entries))}**" if entries else "No lecture was run."]
    if platform or machine is not None:
        blocks.append(
            escape(", ".join(part for part in (platform, machine.text if machine is not None else "") if part))
        )
    if failed:
        rows = [f"- **{code(entry.location)}** {escape(entry.kind_and_headline)}" for entry in failed[:most_rows]]
        rows += _left_out(len(failed), most_rows)
        blocks += ["### Failures", "\n".join(rows)]
    if entries:
        ordered = [*failed, *(item for item in entries if not item.verdict.failed)]
        blocks += ["### Lectures", _table(ordered[:most_rows]), *_left_out(len(ordered), most_rows)]
    blocks += _concurrency(entries) if most_rows is None else []
    package = [f"- **{escape(item.kind)}**: {escape(item.message)}" for item in package_comparisons(entries)]
    blocks += ["### Package compared with what is declared", "\n".join(package)] if package else []
    if has_declared(entries):
        blocks += ["### For a replication report", escape(replication_line(entries))]
    for heading, groups in remark_groups(entries) if most_rows is None else ():
        rows = [_remark(message, locations) for message, locations in groups]
        blocks += [f"### {heading}", "\n".join(rows)]
    if failed and most_details != 0:
        details = (_details(entry, verbosity) for entry in failed[:most_details])
        blocks += ["### Details", *details, *_left_out(len(failed), most_details)]
    return "\n\n".join(blocks) + "\n"


def _left_out(count: int, most: int | None) -> list[str]:
    return [f"- and {count - most} more"] if most is not None and count > most else []


def escape(text: str) -> str:
    """Return one line of text that no Markdown or HTML reader acts on."""
    return ACTIVE.sub(_escape_match, one_line(text))


def _escape_match(found: re.Match[str]) -> str:
    text = found.group()
    return _ESCAPES.get(text) or f"{text[:-1]}&#{ord(text[-1])};"


def code(text: str) -> str:
    """Return a code span that its text cannot leave, also in tables."""
    return f"<code>{escape(text)}</code>"


def fence(text: str) -> str:
    """Return a fenced block that its text cannot leave: the fence is longer than any row of backticks in it."""
    longest = max((len(found.group()) for found in re.finditer(r"`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}text\n{text}\n{marks}"


def _table(entries: Sequence[Entry]) -> str:
    more = extra_columns(entries)
    titles = "".join(f" {title} |" for title, _ in more)
    rows = [
        f"| lecture | verdict | peak | limit | time |{titles} heaviest cell |",
        f"|---|---|--:|--:|--:|{'--:|' * len(more)}---|",
    ]
    for entry in entries:
        peak, limit = peak_and_limit(entry)
        time, time_limit = time_and_limit(entry)
        heaviest = cell_text(entry.run.heaviest_cell(Metric.PEAK_FOOTPRINT))
        word = escape(entry.verdict.kind)
        fields = (
            code(entry.name),
            f"**{word}**" if entry.verdict.failed else word,
            _strong(peak) if Metric.PEAK_FOOTPRINT in entry.exceeded else escape(peak),
            escape(limit),
            f"{_strong(time)}, limit {escape(time_limit)}" if time_limit else escape(time),
            *(escape(text) for text in (*(render(entry.run) for _, render in more), heaviest)),
        )
        rows.append(f"| {' | '.join(fields)} |")
    return "\n".join(rows)


def _strong(text: str) -> str:
    return f"**{escape(text)}**"


def _concurrency(entries: Sequence[Entry]) -> list[str]:
    tables = concurrency_tables(entries)
    blocks = ["### Concurrency"] if tables else []
    for table in tables:
        rows = [f"| {' | '.join(escape(text) for text in row)} |" for row in (table.titles, *table.rows)]
        rows.insert(1, f"|{'--:|' * len(table.titles)}")
        blocks += [code(table.name), "\n".join(rows), escape(table.conclusion)]
    return blocks


def _remark(message: str, locations: Sequence[str]) -> str:
    shown = ", ".join(code(location) for location in locations[:_LOCATIONS])
    more = len(locations) - _LOCATIONS
    return f"- {escape(message)}: {shown}" + (f" and {more} more" if more > 0 else "")


def _details(entry: Entry, verbosity: int) -> str:
    text = cut(render_failure(entry, width=_WIDTH, verbosity=verbosity), _DETAIL_LINES, _DETAIL_CHARS)
    summary = f"<summary>{code(entry.name)}: {escape(entry.verdict.kind)}</summary>"
    return f"<details>{summary}\n\n{fence(text)}\n\n</details>"
