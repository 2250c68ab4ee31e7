"""Run several kernels at the same moment, from one event loop: a cohort."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import zmq.asyncio

from pytest_lecturecheck.kernel.process.cap import automatic_cap
from pytest_lecturecheck.kernel.run.barrier import Barrier, BarrierSlot
from pytest_lecturecheck.kernel.run.ports import Ports, RunPlan, RunProgress
from pytest_lecturecheck.kernel.run.runner import run_lecture
from pytest_lecturecheck.model.cohort import PeakOfSum
from pytest_lecturecheck.model.probe import Snapshot
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP

WATCH_SECONDS: Final = 0.02
"""How often the kernels' memory is added up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEnd:
    """
    One kernel of a cohort that has ended.

    Attributes:
        run: its record.
        origin_seconds: start of its run, after the start of the cohort: times of the record count from there.
        device_origin_seconds: when the devices' timelines of the record begin, after the start of the cohort.
        first_cell_seconds: when its first cell was sent, after the start of the cohort, or ``None``.
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
        opened_seconds: when all that were to be ready were, after the start of the cohort; ``None`` where none was.
        together: the most memory of the machine that they held together, from samples; ``None`` where there is none.
    """

    members: tuple[MemberEnd, ...]
    opened_seconds: float | None
    together: PeakOfSum | None


async def run_cohort(plans: Sequence[RunPlan], ports: Ports, context: zmq.asyncio.Context, name: str) -> CohortEnd:
    """
    Start a kernel for each plan at once, and their first cells at the same moment; give the records.

    Whatever a kernel does ends in its record and leaves the others alone. Cancelling the task tears all of them down.

    Args:
        plans: one for each kernel.
        ports: what runs need.
        context: sockets.
        name: name of the cohort, for progress.
    """
    began = time.perf_counter()
    barrier = Barrier(len(plans))
    seats = [BarrierSlot(barrier) for _ in plans]
    watch = _Watch(seats, _shared_cap(plans, ports))
    board = _Board(name, len(plans), ports.on_progress)
    runs = [
        _run_member(plan, replace(ports, on_progress=board.listener(place)), context, seat)
        for place, (plan, seat) in enumerate(zip(plans, seats, strict=True))
    ]
    watcher = asyncio.ensure_future(watch.go())
    try:
        records = await _wait_for_all(runs)
    finally:
        watcher.cancel()
    members = tuple(
        MemberEnd(
            run=record,
            origin_seconds=seat.origin - began,
            device_origin_seconds=seat.device_origin - began,
            first_cell_seconds=None if seat.first_cell_at is None else seat.first_cell_at - began,
        )
        for record, seat in zip(records, seats, strict=True)
    )
    opened = None if barrier.opened_at is None else barrier.opened_at - began
    return CohortEnd(members=members, opened_seconds=opened, together=watch.peak(began))


async def _run_member(plan: RunPlan, ports: Ports, context: zmq.asyncio.Context, seat: BarrierSlot) -> Run:
    try:
        return await run_lecture(plan, ports, context, seat)
    finally:
        seat.leave()


async def _wait_for_all(runs: Sequence[Coroutine[Any, Any, Run]]) -> list[Run]:
    """Wait for all, whatever becomes of one; a cancellation goes to each, and waits for each one's cleanup."""
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
    """Give what kernels without a chosen cap may take together: what one of them might take alone."""
    machines = [plan.machine for plan in plans if plan.settings.memory_cap_bytes == AUTOMATIC_CAP]
    return automatic_cap(machines[0].usable_memory_bytes, ports.available_memory()) if machines else None


class _Watch:
    """
    Adds up what the kernels hold, and stops the largest where they exhaust the machine together.

    Args:
        seats: the kernels.
        cap_bytes: what they may hold together, or ``None``.
    """

    def __init__(self, seats: Sequence[BarrierSlot], cap_bytes: int | None) -> None:
        self._seats = seats
        self._cap_bytes = cap_bytes
        self._highest: tuple[int, float, tuple[int, ...]] | None = None

    async def go(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(WATCH_SECONDS)

    def look(self) -> None:
        """Look once."""
        snapshots = [seat.last_snapshot for seat in self._seats]
        if not any(snapshots):
            return
        held = tuple(0 if snapshot is None else snapshot.footprint_bytes for snapshot in snapshots)
        total = sum(held)
        if self._highest is None or total > self._highest[0]:
            self._highest = (total, time.perf_counter(), held)
        if self._cap_bytes is not None and total > self._cap_bytes:
            self._seats[held.index(max(held))].stop()

    def peak(self, began: float) -> PeakOfSum | None:
        """Give the highest sum, in seconds after ``began``."""
        if self._highest is None:
            return None
        total, at, held = self._highest
        return PeakOfSum(total_bytes=total, seconds=round(at - began, 3), parts_bytes=held)


class _Board:
    """
    Makes one progress of those of all kernels: the cell of the one that is furthest behind, and what all hold.

    Args:
        name: name of the cohort.
        count: number of kernels.
        on_progress: is told.
    """

    def __init__(self, name: str, count: int, on_progress: Callable[[RunProgress], None]) -> None:
        self._name = name
        self._last: list[RunProgress | None] = [None] * count
        self._on_progress = on_progress

    def listener(self, place: int) -> Callable[[RunProgress], None]:
        """Give what the kernel at this place tells its progress to."""

        def note(progress: RunProgress) -> None:
            before = self._last[place]
            if before is not None and before.number and not progress.number:
                # Between its last cell and its end a kernel holds nobody up.
                progress = replace(progress, number=progress.total)
            self._last[place] = progress
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
        )


def _sum(snapshots: Sequence[Snapshot]) -> Snapshot:
    return Snapshot(
        footprint_bytes=sum(item.footprint_bytes for item in snapshots),
        peak_footprint_bytes=sum(item.peak_footprint_bytes for item in snapshots),
        age_seconds=max(item.age_seconds for item in snapshots),
        process_count=sum(item.process_count for item in snapshots),
    )
