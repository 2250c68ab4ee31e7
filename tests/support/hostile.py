"""Text that would break a report, and entries that hold it wherever a lecture could put it."""

from __future__ import annotations

import re
from dataclasses import replace

from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Measurement, Metric
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.terminal.failure import render_failure
from pytest_lecturecheck.report.terminal.progress import ShownProgress, render_header, render_live
from pytest_lecturecheck.report.terminal.summary import render_summary
from pytest_lecturecheck.verdict import VerdictKind
from support.made_entries import (
    MACHINE,
    comparison,
    failed,
    over,
)
from support.made_records import changed

HOSTILE = "\x1b[31m\x9b2J\x1b]0;t\x07\x00]]><script>alert(1)</script>\u202e|`\r\n\ud800" + "long " * 500


UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def hostile_entry(text):
    """An entry that holds ``text`` wherever a lecture, a kernel or a file name could put it."""
    entry = failed(
        lecture=text, source="\n".join([text.replace("\n", " ")] * 4), traceback=(text, f"Cell In[3], {text}")
    )
    run = entry.run
    cells = [replace(item, output_extract=text) for item in run.cells]
    findings = tuple(
        Finding(kind=kind, message=text, cell_number=1, fails_when_strict=True) for kind in (FindingKind.SHELL, "other")
    )
    machine = replace(MACHINE, cpu=text, memory_limit_source=text)
    values = {
        metric: replace(found, source=text) for metric, found in run.readings.items() if isinstance(found, Measurement)
    }
    cause = replace(entry.verdict.cause, headline=text, evidence=(text,), advice=(text,))
    run = changed(
        run,
        variant=text,
        platform=text,
        cells=tuple(cells),
        findings=findings,
        machine=machine,
        readings=values,
        software=replace(over().run.software, packages={text: "1"}),
    )
    items = tuple(
        comparison(run, metric, VerdictKind.FAILED, 1.0, text) for metric in (Metric.PEAK_FOOTPRINT, Metric.PEAK_RSS)
    )
    said = replace(entry.verdict, headline=text, cause=cause, notes=(text,), comparisons=items)
    return Entry(run=run, verdict=said, budget=over().budget, seconds=1.0)


def hostile_outputs(text):
    entry = hostile_entry(text)
    quiet = replace(entry, verdict=replace(entry.verdict, failed=False, kind=VerdictKind.NO_BUDGET))
    progress = ShownProgress(name=text, cell=1, total=2, elapsed_seconds=1.0, now_bytes=1.0, peak_bytes=2.0)
    yield from (render_failure(entry, width=width, verbosity=level) for width in (60, 200) for level in (0, 1))
    yield from (
        "\n".join(render_summary([entry, quiet], width=width, colour=False, replication=True)) for width in (60, 200)
    )
    yield "\n".join(render_header(text, entry.run.machine, "check", text))
    yield render_live(progress, width=80)


MARKUP = (
    "</script></details><img src=x onerror=alert(1)><script>alert(2)</script>{{ 7 * 7 }}<!--\" onload='x'&amp;\u2028"
)
