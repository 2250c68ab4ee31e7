"""Cells that are run again in their kernel: leaks of known size are found, and the lecture's run stays what it was."""

from dataclasses import replace

import pytest
from support.benches import lecture, statuses

from pytest_lecturecheck.config.options import DEFAULTS
from pytest_lecturecheck.kernel.run.cell_repeater import growth_message, summarise
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.memory_profile import GrownType, LevelPart, MemoryLevels, PartKind
from pytest_lecturecheck.model.repetition import RepeatRequest
from pytest_lecturecheck.model.run import Outcome

MIB = 1 << 20
SOURCES = (
    "import os\nkept, count = [], 0",
    "kept.append(bytearray(b'1') * (1 << 20))\nprint('Traceback: once')",
    "os.hidden = [*getattr(os, 'hidden', []), bytearray(b'1') * (1 << 20)]",
    "cache = bytearray(b'1') * (20 << 20); once = [1]",
    "del once",
    "count += 1\nassert count < 3, 'no\\nmore'",
    "print(len(kept), len(In), len(Out))",
)


def repeat(bench, *sources, count=5, **settings):
    request = RepeatRequest(count=count)
    bench._bench._ports = bench._real_ports
    layer = replace(DEFAULTS, **{"timeout_seconds": 60.0, **settings})
    return bench._bench.run(lecture(bench.folder, *sources), layer, 1, repeats=request)


def messages(record):
    return [(item.cell_number, item.message) for item in record.findings if item.kind is FindingKind.LEAK]


def test_a_leak_of_a_mebibyte_is_found_and_named(bench):
    record = repeat(bench, *SOURCES)
    assert (record.outcome, set(statuses(record)), record.is_profiled) == (Outcome.COMPLETED, {"ok"}, False)
    found = [cell.repetitions for cell in record.cells]
    # Cells before it have run again: what a later one took over has its own value.
    assert [item.count for item in found] == [5, 5, 5, 5, 1, 2, 5]
    assert [item.growth_bytes is None for item in found] == [False] * 4 + [True] * 2 + [False]
    growth = [item.growth_bytes for item in found if item.growth_bytes is not None]
    assert growth == [0, pytest.approx(MIB, rel=0.1), pytest.approx(MIB, rel=0.1), 0, 0]
    ((part,), hidden) = found[1].parts, found[2]
    assert (part.kind, part.name, part.growth_bytes) == (PartKind.OBJECT, "kept", pytest.approx(MIB, rel=0.001))
    assert hidden.native_growth_bytes == pytest.approx(MIB, rel=0.02)
    named, nameless, undone, raised = messages(record)
    assert "more memory stays each time code cell 2 is run again (5 repetitions): 'kept' (object) 1 MiB" in named[1]
    assert nameless[1].endswith(" that the C library has handed out, and no name of the lecture holds")
    assert undone == (5, "was left at repetition 2 of 5: it raised NameError: name 'once' is not defined")
    assert raised == (6, "was left at repetition 3 of 5: it raised AssertionError: no more")
    # The lecture itself is as it was: its outputs, its history, its findings.
    assert record.cells[6].output_extract == "1 8 0\n"
    assert [item.kind for item in record.findings if item.kind is not FindingKind.LEAK] == []
    assert record.software is not None


@pytest.mark.parametrize(
    ("again", "reason", "has_software", "rest"),
    [
        (
            *("os.kill(os.getpid(), 9)", "the kernel died", False),
            [(4, "code cell 4 did not run again, because the kernel was lost before")],
        ),
        ("import time; time.sleep(60)", "it did not end within 2 s", True, []),
    ],
)
def test_a_kernel_that_is_lost_again_does_not_fail_the_lecture(bench, again, reason, has_software, rest):
    source = f"if has_run: {again}\nhas_run = True"
    record = repeat(bench, "import os; has_run = False", "pass", source, "pass", count=5, timeout_seconds=2.0)
    assert record.outcome is Outcome.COMPLETED
    assert messages(record) == [(3, f"was left at repetition 2 of 5: {reason}"), *rest]
    assert (record.software is not None) is has_software


def test_what_jax_drops_when_asked_is_told_as_its_programs(bench):
    # As if it were compiled: eight mebibytes for each repetition, which only clear_caches() frees.
    loads = "import jax\njax.held = []\njax.clear_caches = jax.held.clear"
    record = repeat(bench, loads, "jax.held.append(bytearray(b'1') * (8 << 20))")
    ((number, message),) = messages(record)
    assert number == 2
    assert "(5 repetitions): programs that JAX compiles each time and keeps; jax.clear_caches() freed " in message
    assert record.cells[1].repetitions.growth_bytes == pytest.approx(8 * MIB, rel=0.05)


def level(resident_mib, *parts, allocated_mib=0, types=()):
    return MemoryLevels(
        level_bytes=round(resident_mib * MIB), allocated_bytes=allocated_mib * MIB, parts=parts, types=types
    )


def test_what_no_name_holds_is_described_by_its_classes():
    types = (GrownType(name="dict", count=9000, grown_count=1000),)
    found = summarise([level(100 + step, types=types) for step in range(5)])
    assert (found.types, found.native_growth_bytes) == (types, 0)
    assert growth_message(7, found) == (
        "1 MiB more memory stays each time code cell 7 is run again (5 repetitions): objects that no name of the "
        "lecture holds; new objects in the last repetition: 1,000 dict"
    )


def test_figures_and_arrays_that_grow_are_named_by_kind():
    sizes = [
        (
            LevelPart(kind=PartKind.ARRAY, name="paths", size_bytes=MIB * (1 + 2 * step)),
            # As matplotlib's figures are counted.
            LevelPart(kind=PartKind.FIGURES, name=f"{1 + step} figures", size_bytes=MIB * (1 + step)),
            LevelPart(kind=PartKind.OBJECT, name="same", size_bytes=9 * MIB),
        )
        for step in range(5)
    ]
    found = summarise([level(100 + 3 * step, *parts) for step, parts in enumerate(sizes)])
    assert growth_message(7, found) == (
        "3 MiB more memory stays each time code cell 7 is run again (5 repetitions): 'paths' (array) 2 MiB, figures "
        "not closed 1 MiB"
    )


def test_programs_that_jax_compiles_each_time_are_no_leak():
    found = replace(
        summarise([level(100 + 50 * step) for step in range(5)]), cleared_level_bytes=(180 * MIB, 180 * MIB, 181 * MIB)
    )
    assert growth_message(7, found) == (
        "50 MiB more memory stays each time code cell 7 is run again (5 repetitions): programs that JAX compiles each "
        "time and keeps; jax.clear_caches() freed 120 MiB"
    )
