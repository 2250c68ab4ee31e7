"""The compiler's plan beside what a cell took, in a failure and in the page."""

from dataclasses import replace

from support.made_records import made_run

from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.device import CompileTimes, MemoryPlan
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.html.page import render_html
from pytest_lecturecheck.report.terminal.failure import render_failure
from pytest_lecturecheck.report.terminal.progress import ShownProgress, render_live
from pytest_lecturecheck.units import GIB, MIB
from pytest_lecturecheck.verdict import Comparison, Verdict, VerdictKind

PLAN = MemoryPlan(program="jit_<b>f", platform="gpu", argument_bytes=GIB, temporary_bytes=9 * GIB)
LIVE = Measurement(metric=Metric.GPU_LIVE, value=5 * GIB, method=Method.AGENT)


def entry_of(plan=PLAN, **readings):
    cell = CellRun(
        number=2,
        index=1,
        line=11,
        status=CellStatus.OK,
        readings={item.metric: item for item in readings.values()},
        compilation=CompileTimes(seconds=1.0, plan=plan),
        start_footprint_bytes=100 * MIB,
    )
    run = made_run(lecture="a.md", platform="here", outcome=Outcome.COMPLETED, cells=(cell,))
    compared = Comparison(metric=Metric.GPU_LIVE, kind=VerdictKind.OVER, limit=1, measured=LIVE, message="", cell=cell)
    verdict = Verdict(kind=VerdictKind.OVER, failed=True, headline="over", comparisons=(compared,))
    return Entry(run=run, verdict=verdict, seconds=2.0)


def test_a_failure_shows_the_plan_and_the_live_peak():
    text = " ".join(render_failure(entry_of(live=LIVE)).split())
    assert (
        "What the compiler planned the compiled program jit_<b>f asks for 10 GiB (1 GiB of arguments, 9 GiB of "
        "temporaries); GPU memory live at its peak 5 GiB"
    ) in text


def test_without_a_live_peak_the_footprint_stands_beside_the_plan():
    footprint = Measurement(metric=Metric.PEAK_FOOTPRINT, value=600 * MIB, method=Method.EXACT)
    text = " ".join(render_failure(entry_of(footprint=footprint)).split())
    assert "temporaries); footprint raised by 500 MiB" in text


def test_small_programs_are_left_out():
    small = replace(PLAN, argument_bytes=0, temporary_bytes=MIB)
    assert "What the compiler planned" not in render_failure(entry_of(small, live=LIVE))
    assert "what the cells took" not in render_html([entry_of(small)], title="t")


def test_the_page_has_a_row_for_each_plan():
    page = render_html([entry_of(live=LIVE)], title="t")
    row = page[page.index("what the cells took") :].partition("<tbody>")[2].partition("</tbody>")[0]
    fields = ("2", "jit_&lt;b&gt;f", "1 GiB", "0 B", "9 GiB", "0 B", "10 GiB", "GPU memory live at its peak 5 GiB")
    assert [field for field in fields if field not in row] == []


def test_a_live_line_shows_what_cannot_end_well():
    progress = ShownProgress(name="a.md", cell=2, total=3, elapsed_seconds=1.0, warning="code cell 2: asks for 40 GiB")
    assert render_live(progress, width=80) == "a.md: code cell 2: asks for 40 GiB"
    assert len(render_live(progress, width=20)) <= 19
