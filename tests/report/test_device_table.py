"""GPUs, allocators and the compiler in the summary: where a run had to do with them, and no reservation as a need."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.made_entries import GIB, MIB, cell, run_of, verdict, within

from pytest_lecturecheck.model.device import (
    AllocatorUsage,
    CompileTimes,
    Device,
    DeviceHolder,
    DeviceUse,
    HolderKind,
)
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.report.device_table import device_lines, gpu_text
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.markdown_report import render_markdown
from pytest_lecturecheck.report.terminal.summary import render_summary
from pytest_lecturecheck.verdict import VerdictKind

T4 = Device(index=0, name="Tesla T4", uuid="GPU-1", total_bytes=15 * GIB)


def measured(metric, value, method=Method.AGENT, **more):
    return Measurement(metric=metric, value=value, method=method, **more)


def used(value=11 * GIB):
    return measured(Metric.GPU_USED, value, Method.SAMPLED, interval_seconds=0.1, source="NVML")


def entry_of(*, repeat=1, readings=None, cells=None, lecture="gpu.md", **run):
    made = run_of(lecture, cells or [cell(1, 10, 500, 400, 8.0)], repeat=repeat, **run)
    made = replace(made, readings={**made.readings, **(readings or {})})
    return Entry(run=made, verdict=verdict(VerdictKind.WITHIN, "within"), seconds=9.0)


def summary(*entries, width=120):
    return render_summary(entries, width=width, colour=False)


def test_sessions_without_gpus_and_compilers_mention_neither():
    text = "\n".join(summary(within()))
    assert not any(word in text for word in ("GPU", "compile", "Compiler"))


def test_short_compile_times_get_no_column():
    quick = entry_of(readings={Metric.COMPILE: measured(Metric.COMPILE, 0.4)})
    assert not any("compil" in line.lower() for line in summary(quick))


def test_one_lecture_with_values_adds_the_columns():
    heavy = entry_of(
        readings={
            Metric.COMPILE: measured(Metric.COMPILE, 6.25),
            Metric.GPU_LIVE: measured(Metric.GPU_LIVE, 3 * GIB),
            Metric.GPU_USED: used(),
        }
    )
    lines = summary(within(), heavy)
    assert lines[:3] == [
        "lecture                verdict      peak     limit  time  compile         GPU  heaviest cell",
        "lectures/jax_intro.md  within   1.21 GiB  1.39 GiB  10 s        -           -  3 (line 41)",
        "gpu.md                 within    500 MiB         -   8 s   6.25 s  3 GiB live  1 (line 10)",
    ]
    table = render_markdown([within(), heavy]).split("### Lectures\n\n")[1].split("\n\n")[0].split("\n")
    assert table[0] == "| lecture | verdict | peak | limit | time | compile | GPU | heaviest cell |"
    assert table[1] == "|---|---|--:|--:|--:|--:|--:|---|"
    assert {row.count("|") for row in table} == {9}


@pytest.mark.parametrize(
    ("readings", "is_reserved", "text"),
    [
        ({}, False, "-"),
        ({Metric.GPU_USED: Unavailable(metric=Metric.GPU_USED, reason="no driver")}, False, "-"),
        ({Metric.GPU_USED: used()}, False, ">= 11 GiB held"),
        ({Metric.GPU_USED: used()}, True, ">= 11 GiB reserved"),
        ({Metric.GPU_USED: used(), Metric.GPU_LIVE: measured(Metric.GPU_LIVE, 2 * GIB)}, True, "2 GiB live"),
    ],
)
def test_live_memory_is_preferred_to_held_memory(readings, is_reserved, text):
    use = DeviceUse(device=T4, used=used(), is_reserved=is_reserved)
    assert gpu_text(entry_of(readings=readings, devices=(use,)).run) == text


def test_shared_gpus_name_the_other_holders():
    use = DeviceUse(
        device=T4,
        used=used(),
        before_bytes=3 * GIB,
        after_bytes=3 * GIB + 200 * MIB,
        others_peak_bytes=4 * GIB,
        is_shared=True,
        is_reserved=True,
        peak_utilisation_fraction=0.97,
        holders=(
            DeviceHolder(
                pid=41,
                used_bytes=3 * GIB,
                kind=HolderKind.RUNNING_LECTURE,
                lecture="first\x1b[31m.md",
                was_there_first=True,
            ),
            DeviceHolder(pid=77),
        ),
    )
    allocator = AllocatorUsage(
        library="JAX",
        device="cuda:0",
        live_bytes=GIB,
        peak_live_bytes=2 * GIB,
        pool_bytes=11 * GIB,
        limit_bytes=11 * GIB,
    )
    run = entry_of(devices=(use,), cells=[replace(cell(1, 10, 500), allocators=(allocator,))]).run
    assert device_lines(run) == [
        (
            "GPU 0 (Tesla T4): >= 11 GiB of 15 GiB used by this run, reserved by preallocation (this says nothing "
            "about need); 3 GiB in use before it started; shared with other processes, which held up to 4 GiB; "
            "busy up to 97 %"
        ),
        "pid 41, running lecture first.md: held 3 GiB, already before this run",
        "pid 77, foreign: held an unknown amount",
        "JAX on cuda:0: live 1 GiB, peak live 2 GiB, pool held 11 GiB, limit 11 GiB",
    ]


def test_dead_kernels_show_their_last_allocator_reading():
    last = AllocatorUsage(library="CuPy", device="cuda:1", live_bytes=GIB, largest_free_block_bytes=64 * MIB)
    run = entry_of(evidence=Evidence(cell_number=1, allocators=(last,))).run
    assert device_lines(run) == ["CuPy on cuda:1: live 1 GiB, largest free block 64 MiB"]


def test_cold_and_warm_compile_times_are_separate():
    def run(repeat, seconds, hits, misses):
        figures = CompileTimes(seconds=seconds, count=12, cache_hits=hits, cache_misses=misses)
        return entry_of(
            repeat=repeat,
            readings={Metric.COMPILE: measured(Metric.COMPILE, seconds)},
            cells=[replace(cell(1, 10, 500, 400, 8.0), compilation=figures)],
        )

    lines = summary(run(1, 6.0, 0, 12), run(2, 0.5, 12, 0), run(3, 0.75, 12, 0), width=240)
    start = lines.index("Compiler")
    assert lines[start + 1] == (
        "  compiling took 6 s of 8 s (75 %) for 12 programs, 0 read from the persistent cache and 12 written to it in "
        "the first run; 0.5 s to 0.75 s in the 2 later ones, with 24 read from the persistent cache"
    )


def test_persistent_caches_always_get_a_line():
    quick = entry_of(
        readings={Metric.COMPILE: measured(Metric.COMPILE, 0.25)},
        cells=[replace(cell(1, 10, 500, 400, 8.0), compilation=CompileTimes(seconds=0.25, count=2))],
        environment={"JAX_COMPILATION_CACHE_DIR": "./.lecturecheck/jax-cache"},
    )
    lines = summary(quick, width=160)
    assert "compile" not in lines[0]
    assert lines[lines.index("Compiler") + 1] == (
        "  compiling took 0.25 s of 8 s (3 %) for 2 programs, 0 read from the persistent cache "
        "(./.lecturecheck/jax-cache) and 0 written to it"
    )
