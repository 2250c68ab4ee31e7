"""Run a cohort: several kernels at the same moment, in one event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

import zmq.asyncio

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.process.cap import automatic_cap
from pytest_lecturecheck.kernel.run.barrier import Barrier, BarrierSlot
from pytest_lecturecheck.kernel.run.ports import Ports, RunPlan, RunProgress
from pytest_lecturecheck.kernel.run.runner import run_lecture
from pytest_lecturecheck.model.cohort import PeakOfSum
from pytest_lecturecheck.model.evidence import WatchdogReason, WatchdogStop
from pytest_lecturecheck.model.probe import Snapshot
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP

WATCH_SECONDS: Final = 0.02
"""Interval at which the kernels' memory is added up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEnd:
    """
    One kernel of a cohort that has ended. Times count from the start of the cohort.

    Attributes:
        run: its record.
        origin_seconds: start of its run, from which the times of the record count.
        device_origin_seconds: when the GPUs' timelines of the record begin.
        first_cell_seconds: when its first cell was sent, or ``None``.
    """

    run: Run
    origin_seconds: float
    device_origin_seconds: float
    first_cell_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortEnd:
    """
    A cohort that has ended.

    Attributes:
        members: its kernels, in the order of their plans.
        opened_seconds: when all kernels were ready, after the start of the cohort; ``None`` if none was.
        together: sampled peak of the memory that they used together; ``None`` if there is no sample.
    """

    members: tuple[MemberEnd, ...]
    opened_seconds: float | None
    together: PeakOfSum | None


async def run_cohort(plans: Sequence[RunPlan], ports: Ports, context: zmq.asyncio.Context, name: str) -> CohortEnd:
    """
    Start a kernel for each plan at once, and their first cells at the same moment; return the records.

    Whatever a kernel does ends in its record and does not affect the others. Cancelling the task tears all of them
    down.

    Args:
        plans: one for each kernel.
        ports: access to the machine.
        context: zmq context of the sockets.
        name: name of the cohort, for progress.
    """
    began = time.perf_counter()
    barrier = Barrier(len(plans))
    slots = [BarrierSlot(barrier) for _ in plans]
    watch = _Watch(slots, _shared_cap(plans, ports))
    progress = _JointProgress(name, len(plans), ports.on_progress)
    # What a member has measured says nothing without the others.
    ports = replace(ports, on_stopped=lambda _run: None)
    runs = [
        _run_member(plan, replace(ports, on_progress=progress.listener(position)), context, slot)
        for position, (plan, slot) in enumerate(zip(plans, slots, strict=True))
    ]
    watcher = asyncio.ensure_future(watch.run())
    try:
        records = await _wait_for_all(runs)
    finally:
        watcher.cancel()
    members = tuple(
        MemberEnd(
            run=record,
            origin_seconds=slot.origin - began,
            device_origin_seconds=slot.device_origin - began,
            first_cell_seconds=None if slot.first_cell_at is None else slot.first_cell_at - began,
        )
        for record, slot in zip(records, slots, strict=True)
    )
    opened = None if barrier.opened_at is None else barrier.opened_at - began
    return CohortEnd(members=members, opened_seconds=opened, together=watch.peak(began))


async def _run_member(plan: RunPlan, ports: Ports, context: zmq.asyncio.Context, slot: BarrierSlot) -> Run:
    try:
        return await run_lecture(plan, ports, context, slot)
    finally:
        slot.leave()


async def _wait_for_all(runs: Sequence[Coroutine[Any, Any, Run]]) -> list[Run]:
    """Wait for all runs; pass a cancellation on to each and wait for its cleanup."""
    tasks = [asyncio.ensure_future(run) for run in runs]
    try:
        await asyncio.wait(tasks)
    finally:
        left = [task for task in tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
    return [task.result() for task in tasks]


def _shared_cap(plans: Sequence[RunPlan], ports: Ports) -> int | None:
    """Return the joint limit of kernels with the automatic cap: the limit of one kernel alone."""
    machines = [plan.machine for plan in plans if plan.settings.memory_cap_bytes == AUTOMATIC_CAP]
    return automatic_cap(machines[0].usable_memory_bytes, ports.host.available_bytes()) if machines else None


class _Watch:
    """
    Adds up the kernels' memory, and stops the largest kernel if they exceed their joint limit.

    Args:
        slots: the kernels.
        cap_bytes: the joint limit, or ``None``.
    """

    def __init__(self, slots: Sequence[BarrierSlot], cap_bytes: int | None) -> None:
        self._slots = slots
        self._cap_bytes = cap_bytes
        self._highest: tuple[int, float, tuple[int, ...]] | None = None

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            self.sample()
            await asyncio.sleep(WATCH_SECONDS)

    def sample(self) -> None:
        """Take one sample."""
        snapshots = [slot.last_snapshot for slot in self._slots]
        if not any(snapshots):
            return
        held = tuple(0 if snapshot is None else snapshot.footprint_bytes for snapshot in snapshots)
        total = sum(held)
        if self._highest is None or total > self._highest[0]:
            self._highest = (total, time.perf_counter(), held)
        if self._cap_bytes is not None and total > self._cap_bytes:
            most = max(held)
            self._slots[held.index(most)].stop(WatchdogStop(reason=WatchdogReason.MACHINE, footprint_bytes=most))

    def peak(self, began: float) -> PeakOfSum | None:
        """Return the highest sum, with its time after ``began``."""
        if self._highest is None:
            return None
        total, at, held = self._highest
        return PeakOfSum(total_bytes=total, seconds=round(at - began, 3), parts_bytes=held)


class _JointProgress:
    """
    Merges the progress of all kernels: the cell of the slowest one, and the memory of all.

    Args:
        name: name of the cohort.
        count: number of kernels.
        on_progress: called with the merged progress.
    """

    def __init__(self, name: str, count: int, on_progress: Callable[[RunProgress], None]) -> None:
        self._name = name
        self._last: list[RunProgress | None] = [None] * count
        self._on_progress = on_progress

    def listener(self, position: int) -> Callable[[RunProgress], None]:
        """Return the listener for the kernel at this position."""

        def note(progress: RunProgress) -> None:
            before = self._last[position]
            if before is not None and before.number and not progress.number:
                # After its last cell a kernel must not count as the slowest one.
                progress = replace(progress, number=progress.total)
            self._last[position] = progress
            self._on_progress(self._joined())

        return note

    def _joined(self) -> RunProgress:
        known = [progress for progress in self._last if progress is not None]
        snapshots = [progress.snapshot for progress in known if progress.snapshot is not None]
        waiting = [progress for progress in known if progress.waits_for]
        return RunProgress(
            lecture=self._name,
            number=min(progress.number for progress in known),
            total=max(progress.total for progress in known),
            elapsed_seconds=max(progress.elapsed_seconds for progress in waiting or known),
            waits_for=waiting[0].waits_for if waiting else "",
            snapshot=_sum(snapshots) if snapshots else None,
            warning=next((progress.warning for progress in known if progress.warning), ""),
        )


def _sum(snapshots: Sequence[Snapshot]) -> Snapshot:
    return Snapshot(
        footprint_bytes=sum(item.footprint_bytes for item in snapshots),
        peak_footprint_bytes=sum(item.peak_footprint_bytes for item in snapshots),
        age_seconds=max(item.age_seconds for item in snapshots),
        process_count=sum(item.process_count for item in snapshots),
    )
