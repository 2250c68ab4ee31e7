"""
What the HTML report weighs, and how long a browser takes to open it.

``python benchmarks/html_report.py [LECTURES]`` (default 200) makes a session of lectures with whole timelines, and
opens its page and a plain table of the same lectures in one headless Chromium, in turns. Load time is from the
navigation until the page was loaded and laid out; the ratio is the median over neighbouring turns.
"""

from __future__ import annotations

import html
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.html import render_html
from pytest_lecturecheck.report.terminal.summary import cell_text, peak_and_limit
from pytest_lecturecheck.units import format_duration

# The browser's driver and the made-up entries are those of the tests.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.headless import Browser, find_browser
from support.made_entries import MACHINE, failed, over, within
from support.made_html import with_timeline

TURNS = 7
CELLS = 40
POINTS = 2000
SETTLE = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def made_session(count: int) -> list[Entry]:
    """Make ``count`` lectures of 40 cells and 2,000 samples; some failed, some are over their budgets."""
    kinds = [with_timeline(_longer(entry), POINTS, 3000) for entry in (within(), within(), within(), over(), failed())]
    return [
        replace(kind, run=replace(kind.run, lecture=f"lectures/part_{number % 9}/lecture_{number}.md"))
        for number, kind in ((number, kinds[number % len(kinds)]) for number in range(count))
    ]


def _longer(entry: Entry) -> Entry:
    cells = entry.run.cells
    many = tuple(replace(cells[number % len(cells)], number=number + 1, index=number) for number in range(CELLS))
    return replace(entry, run=replace(entry.run, cells=many))


def plain_table(entries: Sequence[Entry]) -> str:
    """Render the same lectures as the least that could be shown: one table."""
    rows = []
    for entry in entries:
        peak, limit = peak_and_limit(entry)
        values = (
            entry.name,
            entry.verdict.kind.value,
            entry.headline,
            peak,
            limit,
            format_duration(entry.wall_seconds),
            cell_text(entry.run.heaviest_cell()),
        )
        rows.append("<tr>" + "".join(f"<td>{html.escape(value)}</td>" for value in values) + "</tr>")
    return f"<!DOCTYPE html><meta charset=utf-8><title>Table</title><table>{''.join(rows)}</table>"


def main() -> None:
    """Print sizes, times and ratios."""
    program = find_browser()
    if program is None:
        sys.exit("no Chromium was found: install the package chromium")
    entries = made_session(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
    started = time.perf_counter()
    page = render_html(entries, platform="linux-x86_64-cpu", machine=MACHINE)
    seconds = time.perf_counter() - started
    table = plain_table(entries)
    print(f"{len(entries)} lectures, {CELLS} cells and {POINTS} samples each: page {len(page.encode()) / 1e6:.2f} MB,")
    print(f"rendered in {seconds:.2f} s; plain table {len(table.encode()) / 1e6:.2f} MB")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "page.html", Path(folder) / "table.html"]
        for path, text in zip(paths, (page, table), strict=True):
            path.write_text(text, encoding="utf-8", newline="\n")
        browser = Browser(program)
        try:
            measure(browser, *(path.as_uri() for path in paths))
        finally:
            browser.close()


def measure(browser: Browser, page: str, table: str) -> None:
    """Open both in turns."""
    browser.show()
    browser.open(page)
    loads: list[tuple[float, float]] = []
    opens = []
    for _ in range(TURNS):
        plain = browser.open(table)
        loads.append((browser.open(page), plain))
        started = time.perf_counter()
        browser.evaluate(f"document.querySelector('details.lecture').open = true; {SETTLE}")
        opens.append(time.perf_counter() - started)
    ratios = [ours / plain for ours, plain in loads]
    ours, plain = (statistics.median(times) for times in zip(*loads, strict=True))
    print(f"open: {ours:.2f} s (plain table {plain:.2f} s), ratio {statistics.median(ratios):.1f}", end=" ")
    print(f"({min(ratios):.1f} to {max(ratios):.1f}); one lecture with its chart: {statistics.median(opens):.2f} s")


if __name__ == "__main__":
    main()
