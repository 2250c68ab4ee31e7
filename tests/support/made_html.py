"""Entries with timelines, and their page without its style and scripts. Run as a script to rewrite the golden page."""

from __future__ import annotations

import re
from dataclasses import replace

from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.cohort import CohortSpec
from pytest_lecturecheck.model.cohort_record import join_runs
from pytest_lecturecheck.model.device import AllocatorUsage, Device, DeviceSample, DeviceUse
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.html import render_html
from pytest_lecturecheck.verdict import VerdictKind
from support.made_entries import GIB, GOLDEN, MACHINE, MIB, died, failed, over, over_by_time, verdict, within
from support.made_records import changed, made_evidence

_SAME_ON_EVERY_PAGE = (
    (re.compile(r"<style>.*?</style>", re.DOTALL), "<style></style>"),
    (re.compile(r"<script>.*?</script>", re.DOTALL), "<script></script>"),
    (re.compile(r"sha256-[A-Za-z0-9+/=]*"), "sha256-"),
)


def timeline(count, peak=900):
    """``count`` samples that climb to ``peak`` MiB, with a wave on the way."""
    return tuple(
        MemorySample(
            seconds=round(number * 0.025, 3),
            footprint_bytes=(50 + peak * number // count + 97 * number % 40) * MIB,
            rss_bytes=(50 + peak * number // count) * MIB,
            swap_bytes=(number % 7) * MIB,
        )
        for number in range(count)
    )


def with_timeline(entry, count=400, peak=900, **rest):
    """Return an entry whose cells share the time of its timeline."""
    samples = timeline(count, peak)
    span = samples[-1].seconds / max(1, len(entry.run.cells))
    cells = tuple(
        replace(cell, started_seconds=position * span, ended_seconds=(position + 0.9) * span)
        for position, cell in enumerate(entry.run.cells)
    )
    return replace(entry, run=changed(entry.run, timeline=samples, cells=cells, cap_bytes=2 * GIB, **rest))


def on_gpu():
    """A lecture that ran on one GPU, with what JAX's allocator said at the end of each cell."""
    entry = with_timeline(within("lectures/gpu.md"), 40)
    cells = tuple(
        replace(
            cell,
            allocators=(AllocatorUsage(library="JAX", device="cuda:0", live_bytes=number * GIB, pool_bytes=3 * GIB),),
            readings={
                **cell.readings,
                Metric.COMPILE: Measurement(metric=Metric.COMPILE, value=0.5, method=Method.AGENT),
            },
        )
        for number, cell in enumerate(entry.run.cells)
    )
    device = DeviceUse(
        device=Device(index=0, name="Tesla T4", total_bytes=15 * GIB),
        used=Measurement(metric=Metric.GPU_USED, value=4 * GIB, method=Method.SAMPLED),
        timeline=tuple(
            DeviceSample(seconds=number * 0.1, used_bytes=(number % 5) * GIB, run_bytes=(number % 4) * GIB)
            for number in range(10)
        ),
    )
    return replace(entry, run=replace(entry.run, cells=cells, devices=(device,)))


def at_once(count=3, *, ends=(), lectures=("lectures/nuts.md",), samples=240):
    """Return a cohort: kernels that start 0.2 s apart, each with its timeline; those in ``ends`` die."""
    kernels = []
    for number in range(1, count + 1):
        entry = with_timeline(within(lectures[(number - 1) % len(lectures)]), samples - 20 * number % 60, 300 * number)
        run = changed(entry.run, first_cell_seconds=0.2 * (number - 1), cap_bytes=None)
        if number in ends:
            cell = run.cells[-1]
            evidence = made_evidence(cell_number=cell.number, line=cell.line, source="x = 1", signal=6)
            dead = replace(cell, status=CellStatus.DIED, ended_seconds=None)
            run = replace(run, outcome=Outcome.DIED, evidence=evidence, cells=(*run.cells[:-1], dead))
        kernels.append(run)
    run = join_runs(
        CohortSpec(name=f"c={count}", lectures=tuple(item.lecture for item in kernels)),
        kernels,
        wall_seconds=6.5,
        together=None,
        interval_seconds=0.025,
        device_starts_seconds=[0.0] * count,
    )
    said = (
        verdict(VerdictKind.DIED, "2 of 3 kernels died", failed=True) if ends else verdict(VerdictKind.WITHIN, "fine")
    )
    return Entry(run=run, verdict=said, seconds=8.0)


def pictured():
    """A death, a failure, lectures over their limits, one within and one on a GPU, nearly all with timelines."""
    return [*(with_timeline(entry, 60) for entry in (over(), failed(), died(), within())), on_gpu(), over_by_time()]


def page_of(entries):
    return render_html(entries, platform="linux-x86_64-cpu", machine=MACHINE)


def structure_of(entries):
    """Return a page without style, scripts and their hashes."""
    text = page_of(entries)
    for pattern, left in _SAME_ON_EVERY_PAGE:
        text = pattern.sub(left, text)
    return text


if __name__ == "__main__":
    (GOLDEN / "page.html").write_text(structure_of(pictured()), encoding="utf-8")
