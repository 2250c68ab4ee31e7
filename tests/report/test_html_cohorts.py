"""Charts of kernels that ran at once: over one clock, with their sum, and no larger than those of one kernel."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import accumulate

from support.made_cohorts import cohort, kernel
from support.made_entries import GIB, MIB, within
from support.made_html import at_once, on_gpu, page_of

from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.report.html.charts import lecture_data, points_for


def values(series):
    """Give the sizes of a line; gaps are at its ends only."""
    known = [delta for delta in series["values"] if delta is not None]
    return [size * series["unit"] for size in accumulate(known)]


def moments(chart):
    return [milliseconds / 1000 for milliseconds in accumulate(chart["time"])]


def staged(*timelines, starts=(0.0, 1.0)):
    """Give a cohort whose kernels hold what is given, in GiB at each second; first cells begin at 0.5 s of each run."""
    entry = cohort(*(kernel(start=start) for start in starts))
    members = tuple(
        replace(
            member,
            cells=tuple(replace(cell, started_seconds=0.5, ended_seconds=2.0) for cell in member.cells),
            timeline=tuple(MemorySample(seconds=float(at), footprint_bytes=size * GIB) for at, size in steps),
        )
        for member, steps in zip(entry.run.members, timelines, strict=True)
    )
    return replace(entry, run=replace(entry.run, members=members))


def test_kernels_share_a_clock_and_a_total():
    (chart,) = lecture_data(staged([(0, 1), (1, 2), (2, 4)], [(0, 1), (2, 3), (3, 8)]))["charts"]
    assert moments(chart) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert [item["name"] for item in chart["series"]] == ["total", "kernel 1", "kernel 2"]
    assert [values(item) for item in chart["series"]] == [
        [1 * GIB, 3 * GIB, 5 * GIB, 3 * GIB, 8 * GIB],
        [1 * GIB, 2 * GIB, 4 * GIB],
        [1 * GIB, 1 * GIB, 3 * GIB, 8 * GIB],
    ]
    assert [item["values"].index(None) if None in item["values"] else None for item in chart["series"]] == [None, 3, 0]
    assert chart["summary"] == (
        "Memory of the 2 kernels of a.md [c=2] over 4 s; sampled, total at most 8 GiB, after 4 s"
    )
    assert (chart["note"], chart["start"], chart["levels"]) == ("", None, [])


def test_bands_are_the_cells_of_the_worst_kernel():
    data = lecture_data(at_once(3, ends=(2,)))
    (chart,) = data["charts"]
    assert [item["name"] for item in chart["series"]] == ["total", "kernel 1", "kernel 2 (died)", "kernel 3"]
    assert chart["note"] == "The bands are the cells of kernel 2."
    assert (chart["start"], round(chart["stop"], 3)) == (0.2, 5.175)
    assert len(data["bands"]) == 3


def test_charts_name_lectures_and_draw_the_largest():
    (chart,) = lecture_data(at_once(14, lectures=("lectures/a.md", "lectures/b.md")))["charts"]
    assert chart["note"] == "2 more kernels have no line of their own; they count in the total."
    assert [item["name"] for item in chart["series"]][:3] == [
        "total",
        "kernel 3: lectures/a.md",
        "kernel 4: lectures/b.md",
    ]
    looks = [(item["paint"], tuple(item["dash"])) for item in chart["series"][1:]]
    assert len(set(looks)) == len(looks) == 12


def test_gpu_memory_per_kernel_has_a_chart():
    first = on_gpu().run
    run = at_once(2).run
    members = tuple(replace(member, devices=first.devices) for member in run.members)
    entry = at_once(2)
    memory, gpu = lecture_data(replace(entry, run=replace(run, members=members, devices=first.devices)))["charts"]
    assert memory["title"] == "Memory over time, each kernel and total"
    assert gpu["title"] == "Memory held on GPU 0 (Tesla T4) over time, each kernel and total"
    assert max(values(gpu["series"][0])) == 4 * GIB
    assert gpu["lines"] == [{"name": "device memory", "key": "cap", "bytes": 15 * GIB}]


def test_kernels_without_cells_are_not_drawn():
    assert lecture_data(cohort(kernel(), kernel(start=None)))["charts"] == []
    assert lecture_data(staged([(0, 1)], []))["charts"] == []


def test_thinning_keeps_the_peak_of_the_total():
    entry = at_once(8, samples=2000)
    (chart,) = lecture_data(entry, 300)["charts"]
    whole = lecture_data(entry, 10**6)["charts"][0]
    assert len(chart["time"]) <= 2 * 300 // 9
    assert abs(max(values(chart["series"][0])) - max(values(whole["series"][0]))) <= MIB


def test_pages_of_200_cohorts_stay_small():
    # Up to 250 lectures each has as many points as it has alone: a quarter of them shows what all would take.
    assert points_for(200) == points_for(1)
    page = page_of([at_once(4, samples=2000)] * 50)
    assert len(page.encode()) < 10 * 10**6 / 4


def test_single_lectures_keep_their_own_charts():
    assert "start" not in json.dumps(lecture_data(within())["charts"])
