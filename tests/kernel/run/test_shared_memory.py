from pytest_lecturecheck.kernel.run.shared_memory import SharedMemoryWatch
from pytest_lecturecheck.model.probe import SharedSegment
from pytest_lecturecheck.units import MIB

KERNEL, STRANGER = 100, 900


class FakeMachine:
    """Segments by name, each with the process that maps it, or ``None``."""

    is_own_users = False

    def __init__(self, **segments):
        self.segments = segments

    def find_marked(self, token):
        raise NotImplementedError

    def list_shared_memory(self):
        return {
            name: SharedSegment(size_bytes=5 * MIB, taken_bytes=MIB, is_own_users=self.is_own_users)
            for name in self.segments
        }

    def find_mapped(self, names, pids):
        asked = {KERNEL, STRANGER} if pids is None else set(pids)
        return {name for name in names if self.segments.get(name) in asked}

    def remove_shared_memory(self, name):
        return self.segments.pop(name, None) is None


def watch(machine):
    return SharedMemoryWatch(machine, lambda: [KERNEL])


def end(machine):
    """End the kernel, whose mappings go with it."""
    machine.segments = {name: pid if pid == STRANGER else None for name, pid in machine.segments.items()}


def test_a_segment_of_the_lecture_is_removed_and_reported():
    machine = FakeMachine()
    found = watch(machine)
    machine.segments["psm_ours"] = KERNEL
    found.look(2)
    end(machine)
    (finding,) = found.report()
    assert finding.message == "left 5 MiB in /dev/shm ('psm_ours', 1 MiB of it written); it was removed"
    assert finding.cell_number == 2
    assert machine.segments == {}


def test_a_finding_names_the_kind_of_shared_memory():
    machine = FakeMachine()
    machine.list_shared_memory = lambda: {
        name: SharedSegment(size_bytes=5 * MIB, taken_bytes=MIB, place="System V shared memory")
        for name in machine.segments
    }
    found = watch(machine)
    machine.segments["shmid 7"] = KERNEL
    found.look(2)
    end(machine)
    (finding,) = found.report()
    assert finding.message == "left 5 MiB in System V shared memory ('shmid 7', 1 MiB of it written); it was removed"


def test_segments_of_other_users_are_no_findings():
    """Other programs create segments while a lecture runs, and may not map them at that moment."""
    machine = FakeMachine(before=None)
    found = watch(machine)
    machine.segments |= {"mapped": STRANGER, "unmapped": None}
    found.look(1)
    end(machine)
    assert list(found.report()) == []
    assert machine.segments.keys() == {"before", "mapped", "unmapped"}


def test_a_large_segment_that_nobody_uses_is_reported_and_stays():
    """A lecture that closes a segment and forgets to unlink it does not map it at the end of the cell."""
    machine = FakeMachine()
    machine.is_own_users = True
    found = watch(machine)
    machine.segments |= {"closed": None, "mapped": STRANGER}
    found.look(3)
    end(machine)
    (finding,) = found.report()
    assert finding.message == (
        "left 5 MiB in /dev/shm ('closed', 1 MiB of it written; by it, or by what ran beside it); "
        "it stays allocated until it is removed"
    )
    assert finding.cell_number == 3
    assert machine.segments.keys() == {"closed", "mapped"}


def test_a_segment_that_a_stranger_took_over_stays():
    machine = FakeMachine()
    found = watch(machine)
    machine.segments["shared"] = KERNEL
    found.look(1)
    machine.segments["shared"] = STRANGER
    assert list(found.report()) == []
    assert machine.segments == {"shared": STRANGER}
