"""Write a document down: Markdown, a page of HTML, and a CSV file for each table and picture. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Final

from pytest_lecturecheck.findings.document import Document, Picture, Section, Table
from pytest_lecturecheck.findings.svg_picture import draw_svg
from pytest_lecturecheck.safe_text import one_line

MARKDOWN_FILE: Final = "findings.md"
HTML_FILE: Final = "findings.html"
_TITLE: Final = "Findings"
_STYLE: Final = (
    "body{font:15px/1.5 sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#111}"
    "table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto}"
    "td,th{border:1px solid #999;padding:.2em .5em;text-align:left}svg{max-width:100%;height:auto}"
    ".basis{color:#444}"
)
_MARKS: Final = re.compile(r"([\\`*_\[\]<>|#~])")
# A spreadsheet would take such a text for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def files_of(document: Document) -> Mapping[str, str]:
    """Return the text of each file of the findings, by its name within one folder."""
    files = {MARKDOWN_FILE: render_markdown(document), HTML_FILE: render_html(document)}
    for section in document.sections:
        for table in section.tables:
            files[f"{table.name}.csv"] = render_csv(table)
        for picture in section.pictures:
            files[f"{picture.name}.svg"] = draw_svg(picture)
            files[f"{picture.name}-picture.csv"] = _picture_csv(picture)
    return files


# -- CSV --------------------------------------------------------------------------------------------------------------


def render_csv(table: Table) -> str:
    """Return a table as CSV, with full precision where it has numbers."""
    return _csv([], table.numbers or (table.columns, *table.rows))


def _picture_csv(picture: Picture) -> str:
    rows = [
        (series.label, point.x, point.y, point.low, point.high) for series in picture.series for point in series.points
    ]
    return _csv([["curve", picture.x_label, picture.y_label, "low", "high"]], rows)


def _csv(head: Iterable[Iterable[object]], rows: Iterable[Iterable[object]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in (*head, *rows):
        writer.writerow([_cell(value) for value in row])
    return stream.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str):
        text = one_line(value)
        return f"'{text}" if text.startswith(_FORMULA) and text != "-" else text
    return value


# -- Markdown ---------------------------------------------------------------------------------------------------------


def render_markdown(document: Document) -> str:
    """Return the findings as Markdown; pictures are files beside it."""
    lines = [f"# {_TITLE}", ""]
    lines += [f"- {_marked(machine)}" for machine in document.machines]
    for section in document.sections:
        lines += ["", f"## {_marked(section.title)}", "", _marked(section.answer)]
        if section.basis:
            lines += ["", f"Rests on {_marked(section.basis)}."]
        for picture in section.pictures:
            lines += ["", f"![{_marked(picture.title)}]({picture.name}.svg)"]
        for table in section.tables:
            lines += ["", *_markdown_table(table)]
        lines += [part for note in section.notes for part in ("", _marked(note))]
    return "\n".join([*lines, ""])


def _marked(text: str) -> str:
    return _MARKS.sub(r"\\\1", one_line(text))


def _markdown_table(table: Table) -> Iterator[str]:
    yield f"**{_marked(table.title)}** ([CSV]({table.name}.csv))"
    yield ""
    yield "| " + " | ".join(map(_marked, table.columns)) + " |"
    yield "|" + "---|" * len(table.columns)
    for row in table.rows:
        yield "| " + " | ".join(map(_marked, row)) + " |"


# -- HTML -------------------------------------------------------------------------------------------------------------


def render_html(document: Document) -> str:
    """Return the findings as one page without scripts, with its pictures inside."""
    body = [f"<h1>{_TITLE}</h1>", "<ul>", *(f"<li>{_escaped(line)}</li>" for line in document.machines), "</ul>"]
    for section in document.sections:
        body += _html_section(section)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_TITLE}</title><style>{_STYLE}</style>'
        "</head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _html_section(section: Section) -> Iterator[str]:
    yield f"<h2>{_escaped(section.title)}</h2>"
    yield f"<p>{_escaped(section.answer)}</p>"
    if section.basis:
        yield f'<p class="basis">Rests on {_escaped(section.basis)}.</p>'
    yield from (draw_svg(picture) for picture in section.pictures)
    for table in section.tables:
        yield f'<p><b>{_escaped(table.title)}</b> (<a href="{escape(table.name)}.csv">CSV</a>)</p>'
        head = "".join(f"<th>{_escaped(title)}</th>" for title in table.columns)
        rows = ["".join(f"<td>{_escaped(text)}</td>" for text in row) for row in table.rows]
        yield "<table><tr>" + "</tr>\n<tr>".join([head, *rows]) + "</tr></table>"
    yield from (f"<p>{_escaped(note)}</p>" for note in section.notes)


def _escaped(text: str) -> str:
    return escape(one_line(text))
