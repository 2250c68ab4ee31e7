"""What traces say, in the summary and in Markdown."""

from dataclasses import replace

import pytest

from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.device import CompileTimes
from pytest_lecturecheck.model.profile import Bound, DeviceProfile, ProfiledOp, ProfileSummary
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.markdown_report import render_markdown
from pytest_lecturecheck.report.profiles import device_text, profile_lines
from pytest_lecturecheck.report.terminal.summary import render_summary
from pytest_lecturecheck.verdict import Verdict, VerdictKind

DEVICE = DeviceProfile(
    device="GPU 0",
    kernel_seconds=0.38,
    gap_seconds=1.72,
    launch_count=128_100,
    op_count=128_102,
    copy_count=2,
    median_op_seconds=4.1e-6,
    stream_count=2,
    bound=Bound.LAUNCH,
    top_ops=(
        ProfiledOp(name="loop_add_fusion", seconds=0.3, count=64_000),
        ProfiledOp(name="ampere_sgemm_128x64_nn", seconds=0.07, count=12),
    ),
)
TRACE = ".lecturecheck/traces/a.md-0123abcd/cell-3/perfetto.json.gz"
FIGURES = ProfileSummary(devices=(DEVICE,), cell_seconds=2.2, trace=TRACE)
LAUNCH_LINE = (
    "GPU 0 probably launch bound: 61,000 launches/s, operations of median 4.1 us, device busy 18 % of 2.1 s "
    "(kernels 0.38 s, gaps 1.72 s; 128,102 operations, 2 of them copies)"
)
OPS = "most time in loop_add_fusion 0.3 s in 64,000, ampere_sgemm_128x64_nn 70 ms in 12"


def cell(profile=FIGURES, **more):
    return CellRun(number=3, index=5, line=41, status=CellStatus.OK, profile=profile, **more)


def entry(*cells):
    run = Run(lecture="a.md", platform="here", outcome=Outcome.COMPLETED, cells=cells)
    return Entry(run=run, verdict=Verdict(kind=VerdictKind.PROFILED, failed=False, headline="traced"))


def test_launch_bound_comes_with_numbers():
    assert device_text(DEVICE) == LAUNCH_LINE


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"device": "CPU", "bound": Bound.COMPUTE, "copy_count": 0, "op_count": 1, "launch_count": 1},
            (
                "CPU compute bound: 1 execution, operations of median 4.1 us, device busy 18 % of 2.1 s "
                "(kernels 0.38 s, gaps 1.72 s; 1 operation)"
            ),
        ),
        (
            {"bound": Bound.HOST, "gap_seconds": 0.0, "kernel_seconds": 0.0, "median_op_seconds": 0.0},
            (
                "GPU 0 probably host bound: 128,100 launches, operations of median 0 s, device busy 100 % of 0 s "
                "(kernels 0 s, gaps 0 s; 128,102 operations, 2 of them copies)"
            ),
        ),
        (
            {"bound": Bound.MIXED, "kernel_seconds": 0.012, "gap_seconds": 0.0005, "median_op_seconds": 3.2e-8},
            (
                "GPU 0 neither launch bound nor compute bound: 10,000,000 launches/s, operations of median 0.032 us, "
                "device busy 96 % of 12 ms (kernels 12 ms, gaps 500 us; 128,102 operations, 2 of them copies)"
            ),
        ),
    ],
)
def test_each_kind_of_bound_has_a_text(changes, text):
    assert device_text(replace(DEVICE, **changes)) == text


def test_traced_cells_have_one_line_with_their_trace():
    assert list(profile_lines(cell(), FIGURES)) == [f"{LAUNCH_LINE}; {OPS}; trace: {TRACE}"]


def test_rest_of_the_cell_time_is_explained():
    figures = replace(FIGURES, cell_seconds=6.0)
    (line,) = profile_lines(cell(compilation=CompileTimes(seconds=3.5)), figures)
    assert line == f"{LAUNCH_LINE}; the whole cell took 6 s; compiling took 3.5 s; {OPS}; trace: {TRACE}"


def test_each_device_has_a_line():
    figures = replace(FIGURES, devices=(DEVICE, replace(DEVICE, device="GPU 1")), is_cut=True)
    first, second = profile_lines(cell(), figures)
    assert first == f"{LAUNCH_LINE}; {OPS}"
    assert second == (
        f"GPU 1{LAUNCH_LINE[5:]}; {OPS}; the trace is incomplete, because its writer keeps a limited number of events; "
        f"trace: {TRACE}"
    )


@pytest.mark.parametrize(("seconds", "text"), [(None, ""), (0.25, " in 0.25 s")])
def test_cells_without_operations_say_so(seconds, text):
    figures = ProfileSummary(cell_seconds=seconds, trace=TRACE)
    assert list(profile_lines(cell(), figures)) == [f"no operation of JAX ran on any device{text}; trace: {TRACE}"]


def test_summary_has_a_section():
    lines = render_summary([entry(cell(None), cell())], width=400, colour=False)
    start = lines.index("Traced cells")
    assert lines[start : start + 4] == [
        "Traced cells",
        f"  {LAUNCH_LINE}; {OPS}; trace: {TRACE}",
        "      a.md: code cell 3, line 41",
        "",
    ]
    assert "Traced cells" not in render_summary([entry(cell(None))], width=400, colour=False)


def test_markdown_has_the_section_with_safe_names():
    hostile = replace(DEVICE, top_ops=(ProfiledOp(name="\x1b[31m<b>|`x`\n" + "y" * 300, seconds=1.0, count=1),))
    text = render_markdown([entry(cell(replace(FIGURES, devices=(hostile,))))])
    (line,) = [line for line in text.split("\n") if "probably launch bound" in line]
    assert "### Traced cells" in text
    assert "<b>" not in line
    assert "\x1b" not in text
    assert "&lt;b&gt;&#124;&#96;x&#96; " in line
    assert len(line) < 700
