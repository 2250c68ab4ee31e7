"""
Render a session as CSV, one row for each run.

A text that a spreadsheet would take for a formula gets an apostrophe before it: names and headlines come from lectures.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.metric import Metric, Unit
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.exports.series import SessionFacts, number
from pytest_lecturecheck.safe_text import one_line

_FORMULA: Final = ("=", "+", "-", "@")


def render_csv(entries: Sequence[Entry], facts: SessionFacts) -> str:
    """Render a heading and a row for each run. An empty field is a value that is unknown or was not measured."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    rows = [dict(_fields(entry, facts)) for entry in entries]
    heading = list(dict(_fields(None, facts)))
    writer.writerow(heading)
    writer.writerows([row[key] for key in heading] for row in rows)
    return stream.getvalue()


def _fields(entry: Entry | None, facts: SessionFacts) -> Iterator[tuple[str, object]]:
    """Yield column and value; without an entry, the columns."""
    run, verdict = (entry.run, entry.verdict) if entry is not None else (None, None)
    yield "session", facts.session
    yield "ended", facts.ended
    yield "commit", facts.commit
    yield "platform", _text(run.platform if run is not None else "")
    yield "lecture", _text(run.lecture if run is not None else "")
    yield "variant", _text(run.variant if run is not None else "")
    yield "repeat", run.repeat if run is not None else ""
    yield "verdict", verdict.kind.value if verdict is not None else ""
    yield "failed", str(verdict.failed).lower() if verdict is not None else ""
    yield "cause", verdict.cause.kind.value if verdict is not None and verdict.cause is not None else ""
    yield "headline", _text(entry.headline if entry is not None else "")
    yield "cell", entry.focus.number if entry is not None and entry.focus is not None else ""
    yield "line", entry.line if entry is not None and entry.line is not None else ""
    yield "seconds", number(entry.seconds) if entry is not None else ""
    for metric in Metric:
        found = run.measured(metric) if run is not None else None
        yield metric.value, "" if found is None else number(found.value)
        yield f"{metric.key}_method", "" if found is None else found.method.value
        yield f"{metric.key}_limit_{_unit(metric)}", _limit(entry, metric)


def _unit(metric: Metric) -> str:
    return {Unit.BYTES: "bytes", Unit.SECONDS: "seconds", Unit.COUNT: "count"}[metric.unit]


def _limit(entry: Entry | None, metric: Metric) -> object:
    if entry is None:
        return ""
    limits = (item.limit for item in entry.verdict.comparisons if item.metric is metric and item.limit is not None)
    return next((number(limit) for limit in limits), "")


def _text(text: str) -> str:
    line = one_line(text)
    return f"'{line}" if line.startswith(_FORMULA) else line
