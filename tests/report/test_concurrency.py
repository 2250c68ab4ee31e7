"""Kernels at once in every report: times beside those one by one, memory each and together, and what is safe."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.made_cohorts import aborted, cohort, entry_of, kernel
from support.made_entries import GIB, MIB, cell, run_of, within
from support.made_records import changed

from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.html import render_html
from pytest_lecturecheck.report.json_report import totals
from pytest_lecturecheck.report.junit_properties import properties
from pytest_lecturecheck.report.markdown_report import render_markdown
from pytest_lecturecheck.report.terminal.concurrency import concurrency_groups, concurrency_tables
from pytest_lecturecheck.report.terminal.remarks import remark_groups
from pytest_lecturecheck.report.terminal.replication import replication_line, subjects_text
from pytest_lecturecheck.report.terminal.summary import render_summary
from pytest_lecturecheck.verdict import SHARED_MACHINE


def alone(lecture="a.md", **more):
    return entry_of(run_of(lecture, [cell(1, 10, 500, 400, 8.0)], **more))


ALONE = alone()
TWO = cohort(kernel(), kernel(start=0.012))
THREE = cohort(kernel(), aborted(), kernel(), together=1400, wall=12.0)


def test_sessions_without_cohorts_have_no_section():
    assert not any("oncurren" in line for line in render_summary([within()], width=120, colour=False))
    assert concurrency_tables([ALONE]) == []


def test_terminal_section_lists_each_number_of_kernels():
    lines = render_summary([ALONE, TWO, THREE], width=120, colour=False)
    start = lines.index("Concurrency")
    assert lines[start : start + 7] == [
        "Concurrency",
        "  a.md",
        "    kernels   time  in sequence  peak of one            total peak  start skew  not completed",
        "          1    8 s          8 s      500 MiB               500 MiB           -           none",
        "          2  9.5 s         16 s      500 MiB   800 MiB to 1000 MiB     0.012 s           none",
        "          3   12 s         24 s      500 MiB  1.37 GiB to 1.46 GiB         0 s         1 of 3",
        "    safe concurrency on this platform: 2 (with 3, one of 3 kernels aborted: native crash)",
    ]


@pytest.mark.parametrize(
    ("entries", "conclusion"),
    [
        ([ALONE, TWO], "safe concurrency on this platform: 2 or more (no higher number was tried)"),
        (
            [THREE],
            "safe concurrency on this platform: none of those tried (with 3, one of 3 kernels aborted: native crash)",
        ),
        (
            [ALONE, cohort(aborted(), aborted())],
            "safe concurrency on this platform: 1 (with 2, two of 2 kernels aborted: native crash)",
        ),
        (
            [
                TWO,
                cohort(
                    kernel(),
                    kernel(outcome=Outcome.FAILED, evidence=Evidence(error=CellError(name="Bad", value=""))),
                    kernel(),
                ),
            ],
            "safe concurrency on this platform: 2 (with 3, one of 3 kernels failed: Bad)",
        ),
        (
            [TWO, cohort(kernel(), kernel(), kernel(outcome=Outcome.NOT_STARTED))],
            "safe concurrency on this platform: 2 (with 3, one of 3 kernels did not start)",
        ),
        ([cohort(kernel(), kernel("b.md"), name="mix")], "all 2 kernels completed"),
        ([cohort(kernel(), aborted("b.md"), name="mix")], "one of 2 kernels aborted: native crash"),
        ([cohort(kernel(), name="solo")], "its kernel completed"),
    ],
)
def test_safe_concurrency_follows_from_the_numbers_tried(entries, conclusion):
    (table,) = concurrency_tables(entries)
    assert table.conclusion == conclusion


def test_repeated_runs_show_highest_values_and_all_failures():
    worse = cohort(kernel(peak=600), aborted(), wall=11.0, together=900, repeat=2)
    (table,) = concurrency_tables([TWO, worse])
    assert table.rows == (("2", "11 s", "-", "600 MiB", "900 MiB to 1.07 GiB", "0.012 s", "1 of 4"),)


def test_mixed_cohorts_are_compared_with_their_lectures_in_sequence():
    mix = cohort(kernel(), kernel("b.md"), name="gpu-three")
    assert concurrency_tables([alone(), mix])[0].rows[0][2] == "-"
    (table,) = concurrency_tables([alone(), alone("b.md"), mix])
    assert (table.name, table.rows[0][2]) == ("a.md, b.md [gpu-three]", "16 s")


@pytest.mark.parametrize("spoilt", [{"company": ("b.md",)}, {"outcome": Outcome.FAILED}])
def test_shared_or_failed_runs_give_no_time_alone(spoilt):
    (table,) = concurrency_tables([alone(**spoilt), TWO])
    assert table.rows[-1][2] == "-"


def test_gpu_column_appears_with_measurements():
    live = Measurement(metric=Metric.GPU_LIVE, value=2 * GIB, method=Method.AGENT)
    kernels = [replace(item, readings={**item.readings, Metric.GPU_LIVE: live}) for item in (kernel(), kernel())]
    (table,) = concurrency_tables([cohort(*kernels)])
    assert dict(zip(table.titles, table.rows[0], strict=True))["total GPU"] == "2 GiB to 4 GiB live"


def test_markdown_and_page_show_the_section_without_markup():
    hostile = cohort(kernel("<b>|x"), kernel("<b>|x"))
    text = render_markdown([ALONE, TWO, hostile])
    assert "### Concurrency" in text
    assert "| 2 | 9.5 s | 16 s | 500 MiB | 800 MiB to 1000 MiB | 0.012 s | none |" in text
    assert "safe concurrency on this platform: 2 or more (no higher number was tried)" in text
    assert "<b>" not in text
    page = render_html([ALONE, TWO, hostile], platform="linux-x86_64-cpu", machine=None)
    assert "safe concurrency on this platform: 2 or more (no higher number was tried)" in page
    assert "<b>|x" not in page


def test_remarks_have_one_line_per_number_of_kernels():
    assert concurrency_groups([ALONE, TWO])[1] == (
        (
            "kernels 2, time 9.5 s, in sequence 16 s, peak of one 500 MiB, total peak 800 MiB to 1000 MiB, start skew "
            "0.012 s, not completed none"
        ),
        ["a.md"],
    )


def test_properties_name_every_kernel():
    found = {name: value for name, value in properties(THREE) if "kernel" in name or "skew" in name}
    assert found == {
        "lecturecheck.kernels": "3",
        "lecturecheck.start_skew_seconds": "0",
        **{f"lecturecheck.kernel.{number}.lecture": "a.md" for number in (1, 2, 3)},
        "lecturecheck.kernel.1.outcome": "completed",
        "lecturecheck.kernel.2.outcome": "died",
        "lecturecheck.kernel.3.outcome": "completed",
        **{f"lecturecheck.kernel.{number}.peak_footprint_bytes": str(500 * MIB) for number in (1, 2, 3)},
        **{f"lecturecheck.kernel.{number}.wall_seconds": "8" for number in (1, 2, 3)},
    }
    assert not any("kernel" in name for name, _ in properties(ALONE))


def test_replication_line_leaves_cohorts_out():
    assert totals([ALONE, THREE])["cells_run"] == 4
    assert replication_line([ALONE, THREE]).startswith("peak footprint 500 MiB in a.md, exact")
    assert replication_line([THREE]).startswith("peak footprint 1.37 GiB to 1.46 GiB in a.md [c=3]")


def test_location_names_the_lecture_that_failed():
    mix = cohort(kernel(), aborted("b.md"), name="mix")
    assert (mix.name, mix.location) == ("a.md [mix]", "b.md:10")


def test_lectures_and_cohorts_are_counted_separately():
    alone = within("a.md")
    twice = [replace(alone, run=replace(alone.run, repeat=repeat)) for repeat in (1, 2)]
    member = changed(alone.run, company=())
    both = replace(alone, run=replace(alone.run, variant="c=2", members=(member, member)))
    mix = replace(alone, run=replace(alone.run, variant="mix", members=(member, replace(member, lecture="b.md"))))
    lost = replace(alone, run=replace(alone.run, variant="c=3", outcome=Outcome.NOT_STARTED))
    assert subjects_text([alone]) == "1 lecture"
    assert subjects_text([alone, within("b.md")]) == "2 lectures"
    assert subjects_text(twice) == "1 lecture in 2 runs"
    assert subjects_text([alone, both]) == "1 lecture and 1 cohort"
    assert subjects_text([*twice, both, mix, lost]) == "1 lecture and 3 cohorts in 5 runs"
    assert subjects_text([both, both]) == "1 cohort in 2 runs"
    assert totals([*twice, both])["lectures"] == 1
    assert totals([*twice, both])["runs"] == 3


def test_notes_on_concurrent_lectures_are_joined():
    notes = [f"{SHARED_MACHINE}: b.md", f"{SHARED_MACHINE}: a.md, c.md and 2 more"]
    entries = [
        replace(item, verdict=replace(item.verdict, notes=(note,)))
        for item, note in zip((within("a.md"), within("b.md")), notes, strict=True)
    ]
    assert ("Notes", [(SHARED_MACHINE, ["a.md, with b.md", "b.md, with a.md, c.md and 2 more"])]) in remark_groups(
        entries
    )
