"""Several kernels in one loop: the barrier, their joint memory, and the joint cap."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

import pytest
from support.benches import lecture
from support.fakes import FakeProbe, FakeProbes

from pytest_lecturecheck.config.options import DEFAULTS
from pytest_lecturecheck.diagnosis import diagnose
from pytest_lecturecheck.kernel.run.barrier import Barrier, BarrierSlot
from pytest_lecturecheck.kernel.run.cohort_kernels import _JointProgress, _Watch
from pytest_lecturecheck.kernel.run.kernel_probes import KernelProbes
from pytest_lecturecheck.kernel.run.ports import RunProgress
from pytest_lecturecheck.model.cohort import CohortSpec, repeat_lecture
from pytest_lecturecheck.model.probe import Snapshot
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.session.kernel_ports import MachineMemory
from pytest_lecturecheck.session.workbench import KernelJob

MIB = 1024**2


def snapshot(size):
    return Snapshot(footprint_bytes=size, peak_footprint_bytes=size + 1, age_seconds=0.5, process_count=2)


class FakeKernel:
    """A kernel that holds memory until it is stopped."""

    def __init__(self, size):
        self.probes = KernelProbes(memory=FakeProbe(last=snapshot(size)), devices=None, devices_since=7.0)
        self.has_ended = False

    def stop(self, _why):
        self.has_ended = True


def slots_of(*sizes):
    barrier = Barrier(len(sizes))
    slots = [BarrierSlot(barrier) for _ in sizes]
    kernels = [FakeKernel(size) for size in sizes]
    for slot, kernel in zip(slots, kernels, strict=True):
        slot.note_kernel(kernel)
    return slots, kernels


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def test_nobody_goes_on_before_all_are_there():
    async def scene():
        barrier = Barrier(3)
        slots = [BarrierSlot(barrier) for _ in range(3)]
        first, second = (asyncio.ensure_future(slot.wait_for_others(None)) for slot in slots[:2])
        await settle()
        assert (first.done(), second.done(), barrier.opened_at) == (False, False, None)
        await slots[2].wait_for_others(None)
        await asyncio.gather(first, second)
        assert barrier.opened_at is not None

    asyncio.run(scene())


def test_a_kernel_that_leaves_does_not_block_the_barrier():
    async def scene():
        barrier = Barrier(3)
        slots = [BarrierSlot(barrier) for _ in range(3)]
        waiting = asyncio.ensure_future(slots[0].wait_for_others(None))
        slots[1].leave()
        slots[1].leave()
        await settle()
        assert not waiting.done()
        slots[2].leave()
        await waiting

    asyncio.run(scene())


def test_a_kernel_whose_time_is_over_waits_no_longer():
    async def scene():
        barrier = Barrier(2)
        await BarrierSlot(barrier).wait_for_others(0.0)
        assert barrier.opened_at is None

    asyncio.run(scene())


def test_a_slot_records_its_first_cell_and_device_origin():
    (slot,), _ = slots_of(5)
    assert (slot.first_cell_at, slot.device_origin) == (None, 7.0)
    slot.note_sent()
    first = slot.first_cell_at
    slot.note_sent()
    assert slot.first_cell_at == first is not None


def test_joint_memory_is_the_highest_sum():
    (one, two), (first, second) = slots_of(100, 30)
    watch = _Watch([one, two], None)
    assert watch.peak(0.0) is None
    watch.sample()
    first.probes.memory.last, second.probes.memory.last = snapshot(20), snapshot(90)
    watch.sample()
    second.has_ended = True
    first.probes.memory.last = snapshot(120)
    watch.sample()
    one.leave()
    watch.sample()
    found = watch.peak(0.0)
    assert (found.total_bytes, found.parts_bytes) == (130, (100, 30))


def test_the_largest_kernel_above_the_joint_cap_is_stopped():
    slots, kernels = slots_of(100, 300, 200)
    watch = _Watch(slots, 600)
    watch.sample()
    assert [kernel.has_ended for kernel in kernels] == [False, False, False]
    kernels[0].probes.memory.last = snapshot(101)
    watch.sample()
    watch.sample()
    assert [kernel.has_ended for kernel in kernels] == [False, True, False]


def progress(number, size=None, elapsed=1.0):
    last = None if size is None else snapshot(size)
    return RunProgress(lecture="a.md", number=number, total=9, elapsed_seconds=elapsed, snapshot=last)


def test_progress_of_a_cohort_is_that_of_its_slowest_kernel():
    reports = []
    joint = _JointProgress("a.md [c=2]", 2, reports.append)
    first, second = joint.listener(0), joint.listener(1)
    first(progress(4, 100))
    second(progress(2, 50, elapsed=2.0))
    both = Snapshot(footprint_bytes=150, peak_footprint_bytes=152, age_seconds=0.5, process_count=4)
    assert reports[-1] == RunProgress(lecture="a.md [c=2]", number=2, total=9, elapsed_seconds=2.0, snapshot=both)
    # Its last cell is behind it.
    second(progress(0, 50))
    assert reports[-1].number == 4


@pytest.fixture
def run_cohort(bench):
    """Run a cohort of lectures, each a tuple of cells, in real kernels that a stand-in measures."""

    def run(*lectures, **settings):
        workbench = bench._bench
        workbench._ports = replace(bench._real_ports, probes=FakeProbes())
        made = [replace(lecture(bench.folder, *cells), name=f"{place}.md") for place, cells in enumerate(lectures)]
        spec = CohortSpec(name="mix", lectures=tuple(item.name for item in made))
        jobs = [KernelJob(lecture=item, settings=replace(DEFAULTS, **settings)) for item in made]
        return workbench.run_cohort(spec, jobs, name="mix", repeat=1, kernel_count=len(jobs))

    return run


def test_a_lecture_with_nothing_to_run_does_not_block_others(run_cohort):
    meet = """
        import pathlib, time
        pathlib.Path({mine!r}).touch()
        while not pathlib.Path({other!r}).exists():
            time.sleep(0.01)
        """
    run = run_cohort([meet.format(mine="x", other="y")], [" "], [meet.format(mine="y", other="x")])
    ends = [member.outcome for member in run.members]
    assert ends == [Outcome.COMPLETED, Outcome.NOTHING_TO_RUN, Outcome.COMPLETED]
    assert [member.first_cell_seconds is None for member in run.members] == [False, True, False]
    assert (run.lecture, run.variant) == ("0.md", "mix")


def test_the_worst_end_speaks_for_all(run_cohort):
    run = run_cohort(["import time; time.sleep(0.5); 1 / 0"], ["import os; os._exit(3)"], ["x = 1"])
    assert [member.outcome for member in run.members] == [Outcome.FAILED, Outcome.DIED, Outcome.COMPLETED]
    assert run.outcome is Outcome.DIED
    assert run.speaker is run.members[1]
    assert (run.evidence.exit.exit_code, run.evidence.lecture) == (3, "1.md")


def test_every_kernel_knows_its_place_among_its_like(bench):
    bench._bench._ports = replace(bench._real_ports, probes=FakeProbes())
    made = lecture(bench.folder, "import os\nprint(os.environ['LECTURECHECK_LECTURE'])")
    jobs = [KernelJob(lecture=made, settings=DEFAULTS)] * 2
    run = bench._bench.run_cohort(repeat_lecture(made.name, 2), jobs, name="c", repeat=1, kernel_count=2)
    said = [member.cells[0].output_extract for member in run.members]
    assert said == ["kernel 1 of 2 of lecture.md\n", "kernel 2 of 2 of lecture.md\n"]
    assert run.cell_run_count == 2


# The small one holds its memory until the large one, which comes second, is gone.
TAKE_LITTLE = """
import pathlib, time
x = b'1' * (100 * 1024**2)
pathlib.Path("small").touch()
while not pathlib.Path("large").exists():
    time.sleep(0.01)
while pathlib.Path("/proc", pathlib.Path("large").read_text()).exists():
    time.sleep(0.01)
"""
TAKE_MUCH = """
import os, pathlib, time
while not pathlib.Path("small").exists():
    time.sleep(0.01)
pathlib.Path("new").write_text(str(os.getpid()))
pathlib.Path("new").rename("large")
x = b'1' * (340 * 1024**2)
time.sleep(60)
"""


class RoomyHost(MachineMemory):
    """A machine on which each of two kernels alone has room enough."""

    def __init__(self, available_bytes):
        super().__init__(core_count=None)
        self.available = available_bytes

    def available_bytes(self):
        return self.available


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_larger_of_two_exhausting_kernels_is_stopped(bench):
    workbench, machine = bench._bench, bench._bench._machine
    reserve = max(256 * MIB, round(machine.usable_memory_bytes * 0.05))
    workbench._ports = replace(bench._real_ports, host=RoomyHost(reserve + 450 * MIB))
    made = [
        replace(lecture(bench.folder, "x = 1", take), name=f"{name}.md")
        for name, take in (("small", TAKE_LITTLE), ("large", TAKE_MUCH))
    ]
    spec = CohortSpec(name="mix", lectures=tuple(item.name for item in made))
    jobs = [KernelJob(lecture=item, settings=DEFAULTS) for item in made]
    run = workbench.run_cohort(spec, jobs, name="mix", repeat=1, kernel_count=2)
    assert [member.outcome for member in run.members] == [Outcome.COMPLETED, Outcome.DIED]
    assert run.evidence.memory.stopped_at_cap
    cause = diagnose(run.evidence)
    assert cause.headline.startswith("stopped before the machine ran out of memory in code cell 2: ")
    assert "run fewer lectures at once" in cause.advice[0]
