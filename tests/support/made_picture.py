"""A made-up session of an economics book, and its picture for the README. Run as a script to take that picture anew."""

from __future__ import annotations

import math
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from pytest_lecturecheck.diagnosis import Cause, CauseKind
from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.verdict import VerdictKind
from support.headless import Browser, find_browser
from support.made_entries import MIB, budget_of, cell, comparison, run_of, verdict
from support.made_html import page_of
from support.made_records import changed, made_evidence

WIDTH, HEIGHT = 1120, 1240
_SAMPLES_PER_SECOND = 20


def samples_of(cells):
    """Samples that rise to each cell's peak, fall a little after it, and then stay."""
    samples, before = [], 58.0
    for item in cells:
        start, end = item.started_seconds, item.ended_seconds
        peak = item.measured(Metric.PEAK_FOOTPRINT).value / MIB
        count = max(2, round((end - start) * _SAMPLES_PER_SECOND))
        for number in range(count):
            share = number / count
            rise = min(1.0, share / 0.7)
            level = before + (peak - before) * (rise**1.4 if share < 0.85 else 0.86 + 0.02 * math.sin(40 * share))
            samples.append(
                MemorySample(seconds=round(start + share * (end - start), 3), footprint_bytes=int(level * MIB))
            )
        before = before + (peak - before) * 0.86
    return tuple(samples)


def timed(cells):
    """Cells one after the other, with 0.05 s between them."""
    start, result = 0.0, []
    for item in cells:
        end = start + item.measured(Metric.WALL).value
        result.append(replace(item, started_seconds=start, ended_seconds=end))
        start = end + 0.05
    return result


def lecture(name, cells, limit, *, wall=30.0, outcome=Outcome.COMPLETED, **rest):
    cells = timed(cells)
    run = changed(run_of(name, cells, outcome, **rest), timeline=samples_of(cells))
    return run, budget_of(name, limit, (limit * 0.86, limit * 0.87, limit * 0.87), wall)


def within(name, cells, limit):
    run, budget = lecture(name, cells, limit)
    items = (
        comparison(run, Metric.PEAK_FOOTPRINT, VerdictKind.WITHIN, limit * MIB),
        comparison(run, Metric.WALL, VerdictKind.WITHIN, 30.0),
    )
    peak = run.measured(Metric.PEAK_FOOTPRINT).text
    said = verdict(VerdictKind.WITHIN, f"peak footprint {peak}, limit {limit} MiB", comparisons=items)
    return Entry(run=run, verdict=said, budget=budget, seconds=run.measured(Metric.WALL).value + 1.2)


def over(name):
    cells = [cell(1, 12, 65, 7, 0.9), cell(2, 26, 798, 733, 3.4), cell(3, 41, 712, 18, 1.2)]
    run, budget = lecture(name, cells, 496)
    items = (
        comparison(run, Metric.PEAK_FOOTPRINT, VerdictKind.OVER, 496 * MIB),
        comparison(run, Metric.WALL, VerdictKind.WITHIN, 30.0),
    )
    headline = (
        "peak footprint 798 MiB, limit 496 MiB: 302 MiB over (+61 %), in code cell 2, line 26; recorded: 431 MiB to "
        "432 MiB (3 runs)"
    )
    source = "shocks = rng.normal(size=(years, households))\npaths = np.cumsum(0.02 + 0.1 * shocks, axis=0)"
    said = verdict(VerdictKind.OVER, headline, failed=True, comparisons=items, source_extract=source)
    return Entry(run=run, verdict=said, budget=budget, seconds=7.4)


def stuck(name):
    cells = [cell(1, 9, 61, 4, 0.6), cell(2, 33, 240, 179, 12.0, CellStatus.TIMED_OUT)]
    evidence = made_evidence(cell_number=2, line=33, source="while error > tol:\n    v = bellman(v)")
    cause = Cause(kind=CauseKind.TIMED_OUT_COMPUTING, headline="code cell 2, line 33, timed out after 12 s")
    run, _ = lecture(name, cells, 400, outcome=Outcome.TIMED_OUT, evidence=evidence)
    return Entry(
        run=run, verdict=verdict(VerdictKind.TIMED_OUT, cause.headline, failed=True, cause=cause), seconds=14.1
    )


def book():
    """Two lectures that fail, and five that do not."""
    return [
        over("lectures/growth.md"),
        stuck("lectures/income_fluctuations.md"),
        within("lectures/solow.md", [cell(1, 8, 66, 8, 0.8), cell(2, 30, 144, 78, 2.3)], 230),
        within("lectures/kesten.md", [cell(1, 11, 70, 12, 1.1), cell(2, 47, 508, 438, 6.9)], 640),
        within("lectures/mccall.md", [cell(1, 8, 64, 6, 0.7), cell(2, 55, 188, 124, 8.8)], 265),
        within("lectures/kalman.ipynb", [cell(1, None, 92, 34, 1.9), cell(2, None, 301, 209, 4.6)], 420),
        within("lectures/markov.md", [cell(1, 10, 63, 5, 0.5), cell(2, 21, 97, 34, 1.4)], 170),
    ]


def main() -> None:
    """Write the picture: ``made_picture.py docs/images/report.png``."""
    program = find_browser()
    if program is None:
        sys.exit("no Chromium was found: install the package chromium")
    browser = Browser(program)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(page_of(book()), encoding="utf-8")
        browser.show(width=WIDTH, height=HEIGHT)
        browser.open(page.as_uri())
        browser.evaluate("document.getElementById('lecture-1').open = true")
        browser.evaluate("new Promise(done => setTimeout(done, 300))")
        browser.picture(Path(sys.argv[1]))
        browser.close()


if __name__ == "__main__":
    main()
