"""Memory that runs low, and the machine in a line of progress."""

import pytest

from pytest_lecturecheck.probe.memory_state import MemoryRoom, MemoryState
from pytest_lecturecheck.session.machine_watch import LowMemoryWatch, MachineReading, read_machine, render_machine
from pytest_lecturecheck.units import GIB


def reading(machine_gib=None, group_gib=None, load=None):
    """A machine of 16 GiB with a group of 4 GiB, each with so much left."""
    machine = MemoryRoom(free_bytes=round(machine_gib * GIB), total_bytes=16 * GIB) if machine_gib is not None else None
    group = MemoryRoom(free_bytes=round(group_gib * GIB), total_bytes=4 * GIB) if group_gib is not None else None
    return MachineReading(memory=MemoryState(machine=machine, group=group), load=load)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (reading(), ""),
        (reading(9.5), "machine 9.5 GiB free of 16 GiB"),
        (reading(9.5, 2, 1.94), "machine 9.5 GiB free of 16 GiB; memory group 2 GiB free of 4 GiB; load 1.9"),
        (reading(load=0.0), "load 0.0"),
    ],
)
def test_the_machine_as_text(found, text):
    assert render_machine(found) == text


def test_low_memory_is_one_line_until_it_has_recovered():
    watch = LowMemoryWatch()
    lines = [list(watch.check(reading(free))) for free in (4, 1.7, 1.5, 1.0, 2.0, 1.0, 2.5, 1.0)]
    low = ["memory is low: 1.5 GiB of 16 GiB free (9 %), machine"]
    again = ["memory is low: 1 GiB of 16 GiB free (6 %), machine"]
    assert lines == [[], [], low, [], [], [], [], again]


def test_machine_and_group_are_watched_apart():
    watch = LowMemoryWatch()
    assert list(watch.check(reading(8, 0.25))) == ["memory is low: 256 MiB of 4 GiB free (6 %), memory group"]
    assert [line.rpartition(", ")[2] for line in watch.check(reading(1, 0.25))] == ["machine"]


def test_this_machine_can_be_read():
    assert read_machine().rooms
