"""What is in the memory of a cell, as text and in the page."""

import json
from dataclasses import replace

from support.made_records import made_run

from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.device import LiveBuffers
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.memory_profile import (
    DeviceProfile,
    GrownType,
    LevelPart,
    MemoryLevels,
    PartKind,
    PeakLine,
    PeakProfile,
)
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.explanation import render_explanation
from pytest_lecturecheck.report.html.page import render_html
from pytest_lecturecheck.report.memory_text import level_lines, memory_groups, part_name
from pytest_lecturecheck.report.terminal.failure import render_failure
from pytest_lecturecheck.verdict import Comparison, Verdict, VerdictKind

MIB = 1 << 20
PROFILE = PeakProfile(
    peak_bytes=480 * MIB,
    lines=(
        PeakLine(place="code cell 2, line 15", size_bytes=320 * MIB, source="growth = np.diff(<b>paths)"),
        PeakLine(
            place="planted.py:2 in make",
            size_bytes=160 * MIB,
            inner="numpy/_core/numeric.py:232 in ones",
            caller="code cell 2, line 12",
        ),
    ),
    process_count=2,
    flame_graph=".lecturecheck/memory/a-1/cell-2/flamegraph.html",
    cell_seconds=1.4,
    footprint_bytes=557 * MIB,
)
READINGS = {
    Metric.WALL: Measurement(metric=Metric.WALL, value=0.5, method=Method.EXACT),
    Metric.PEAK_FOOTPRINT: Measurement(metric=Metric.PEAK_FOOTPRINT, value=548 * MIB, method=Method.EXACT),
}
PATHS = LevelPart(kind=PartKind.ARRAY, name="paths", size_bytes=400 * MIB, grown_bytes=400 * MIB)
KEPT = LevelPart(kind=PartKind.HISTORY, name="Out[2]", size_bytes=8 * MIB, grown_bytes=8 * MIB, is_estimated=True)
LEVELS = MemoryLevels(parts=(PATHS, KEPT), level_bytes=900 * MIB, stayed_bytes=620 * MIB)


def cell(**more):
    values = {"number": 2, "index": 1, "line": 11, "status": CellStatus.OK, "readings": READINGS, **more}
    return CellRun(**values)


def entry_of(item, kind=VerdictKind.OVER):
    run = made_run(lecture="a.md", platform="here", outcome=Outcome.COMPLETED, cells=(item,))
    compared = Comparison(metric=Metric.PEAK_FOOTPRINT, kind=kind, limit=1, measured=None, message="", cell=item)
    verdict = Verdict(kind=kind, failed=kind is VerdictKind.OVER, headline="over", comparisons=(compared,))
    return Entry(run=run, verdict=verdict, seconds=2.0)


def lines_of(levels, **more):
    return list(level_lines(cell(memory_levels=levels, **more)))


def test_the_failure_shows_the_lines_at_the_peak():
    text = render_failure(entry_of(cell(memory_profile=PROFILE, memory_levels=LEVELS)), width=200)
    expected = """
Memory at the peak of code cell 2
     320 MiB  67 %  code cell 2, line 15
                      growth = np.diff(<b>paths)
     160 MiB  33 %  planted.py:2 in make
                      called by code cell 2, line 12, allocated in numpy/_core/numeric.py:232 in ones
"""
    assert expected in text
    joined = " ".join(text.split())
    assert (
        "of 480 MiB that code cell 2 had allocated at its peak, the peaks of 2 processes together, by memray; what "
        "earlier cells left is not part of it; recorded in a second run, in which the cell took 1.4 s instead of "
        "0.5 s and had a peak of 557 MiB instead of 548 MiB; flame graph: "
        ".lecturecheck/memory/a-1/cell-2/flamegraph.html"
    ) in joined
    assert (
        "620 MiB stayed after code cell 2: `paths` 400 MiB, `Out[2]` (kept by the output history only) about 8 MiB"[:60]
        in joined
    )


def test_the_failure_points_at_the_largest_line():
    first = replace(PROFILE.lines[0], cell_line=5)
    entry = entry_of(cell(memory_profile=replace(PROFILE, lines=(first, *PROFILE.lines[1:]))))
    assert (entry.location, entry.failing_line_in_cell) == ("a.md:15", 5)
    # A line of another file has no place in the lecture, and a passing lecture has no failing line.
    assert entry_of(cell(memory_profile=PROFILE)).location == "a.md:11"
    assert entry_of(cell(memory_profile=entry.focus.memory_profile), VerdictKind.WITHIN).failing_line_in_cell is None


def test_an_explanation_for_programs_says_what_is_in_memory():
    (failure,) = json.loads(render_explanation([entry_of(cell(memory_levels=LEVELS))], session="s", platform="p"))[
        "failures"
    ]
    assert failure["evidence"] == [
        "620 MiB stayed after code cell 2: `paths` 400 MiB, `Out[2]` (kept by the output history only) about 8 MiB"
    ]


def test_the_failing_cell_is_not_repeated_in_the_summary():
    item = cell(memory_profile=PROFILE)
    assert memory_groups([entry_of(item)]) == []
    (first, where), *_ = memory_groups([entry_of(item, VerdictKind.WITHIN)])
    assert (first, where) == (
        "320 MiB, 67 %: code cell 2, line 15: growth = np.diff(<b>paths)",
        ["a.md: code cell 2, line 11"],
    )


def test_the_page_escapes_lines_and_links_the_flame_graph():
    page = render_html([entry_of(cell(memory_profile=PROFILE, memory_levels=LEVELS))])
    assert "growth = np.diff(&lt;b&gt;paths)" in page
    assert 'href="./.lecturecheck/memory/a-1/cell-2/flamegraph.html"' in page
    hostile = replace(PROFILE, flame_graph="javascript:alert(1)")
    assert 'href="./javascript%3Aalert%281%29"' in render_html([entry_of(cell(memory_profile=hostile))])


def test_arrays_on_devices_are_shown_by_line_with_their_record():
    device = DeviceProfile(peak_bytes=480 * MIB, lines=PROFILE.lines, devices=("cuda:0",), record="a/b.pb.gz")
    entry = entry_of(cell(device_profile=device))
    text = render_failure(entry, width=200)
    assert "Memory of the devices at the peak of code cell 2\n     320 MiB  67 %  code cell 2, line 15\n" in text
    assert (
        "of 480 MiB of JAX arrays that were live on cuda:0 at the highest level seen in code cell 2, those of earlier "
        "cells included, by jax.profiler.device_memory_profile; temporary memory of a program that runs is not part of "
        "it; record for pprof: a/b.pb.gz"
    ) in " ".join(text.split())
    assert 'href="./a/b.pb.gz"' in render_html([entry])


def test_arrays_alive_without_memory_are_listed_by_shape():
    alive = LiveBuffers(
        shape="8x9", dtype="float32", device="cuda:0", count=3, size_bytes=6 * MIB, names=("params[...]", "<b>")
    )
    entry = entry_of(cell())
    entry = replace(entry, run=replace(entry.run, evidence=Evidence(live_buffers=(alive,))))
    shown = "6 MiB: 3 arrays 8x9 of float32 on cuda:0 (params[...], <b>)"
    assert f"JAX arrays that were alive\n  {shown}\n" in render_failure(entry, width=200)
    assert shown.replace("<b>", "&lt;b&gt;") in render_html([entry])


def test_a_cell_after_which_little_stayed_has_no_line():
    assert lines_of(MemoryLevels(level_bytes=MIB, stayed_bytes=1000)) == []


def test_objects_are_named_where_no_name_holds_what_stayed():
    types = (GrownType(name="dict", count=20, grown_count=10),)
    assert lines_of(MemoryLevels(types=types, level_bytes=9 * MIB, stayed_bytes=8 * MIB)) == [
        "8 MiB stayed after code cell 2; no name of the lecture holds it (imported modules, for example)",
        "objects that code cell 2 added: 10 dict",
    ]


def test_unknown_levels_say_why():
    assert lines_of(MemoryLevels(reason="the kernel has ended")) == [
        "what stayed in memory after code cell 2 is not known: the kernel has ended"
    ]


def test_a_level_taken_alone_says_what_is_no_longer_there():
    alone = MemoryLevels(parts=(PATHS,), level_bytes=500 * MIB, is_alone=True)
    assert lines_of(alone) == [
        "500 MiB was in memory after code cell 2: `paths` 400 MiB",
        "48 MiB of its peak had been freed by then",
    ]
    # Next to a record there is nothing to ask for.
    assert lines_of(alone, memory_profile=PROFILE) == lines_of(alone)[:1]
    assert lines_of(replace(alone, level_bytes=540 * MIB))[1:] == []


def test_parts_without_a_name_are_described():
    threads = LevelPart(kind=PartKind.THREAD_STACKS, name="12 threads", size_bytes=1)
    assert part_name(threads) == "stacks of threads (12 threads)"


def test_what_was_in_use_before_and_is_free_now_has_not_stayed():
    free = LevelPart(kind=PartKind.ALLOCATOR, name="", size_bytes=9 * MIB, grown_bytes=2 * MIB)
    assert (
        list(level_lines(cell(memory_levels=MemoryLevels(parts=(free,), level_bytes=60 * MIB, stayed_bytes=40960))))
        == []
    )
    stayed = MemoryLevels(parts=(free,), level_bytes=60 * MIB, stayed_bytes=3 * MIB)
    assert list(level_lines(cell(memory_levels=stayed))) == [
        "3 MiB stayed after code cell 2: free memory that the allocator keeps 2 MiB"
    ]


def test_new_memory_in_place_of_freed_memory_has_not_all_stayed():
    levels = MemoryLevels(parts=(PATHS,), level_bytes=900 * MIB, stayed_bytes=4096)
    assert list(level_lines(cell(memory_levels=levels))) == [
        "4 KiB more memory after code cell 2 than before it, as other memory was freed; new: `paths` 400 MiB"
    ]
