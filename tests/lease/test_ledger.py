from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import threading

import pytest

from pytest_lecturecheck.errors import LeaseError
from pytest_lecturecheck.lease import ledger_files as ledger_files_module
from pytest_lecturecheck.lease.admission import (
    PATIENCE,
    Capacity,
    Demand,
    DeviceNeed,
    Holding,
    NeverFits,
    Scarce,
    Waits,
)
from pytest_lecturecheck.lease.ledger import Lease, Ledger
from pytest_lecturecheck.lease.ledger_files import open_ledger_files
from pytest_lecturecheck.lease.records import UNREADABLE, QueueEntry

ALL = Demand(label="all.md", host_bytes=100)
HALF = Demand(label="half.md", host_bytes=50)
SMALL = Demand(label="small.md", host_bytes=10)


def labels(holdings):
    return [item.demand.label for item in holdings]


def files(folder, kind):
    return sorted(path.name for path in folder.glob(f"{kind}-*.json"))


def test_a_fitting_lease_is_granted_until_its_release(ledger, folder):
    lease = ledger.try_acquire(HALF)
    assert labels(ledger.running()) == ["half.md"]
    lease.release()
    lease.release()
    assert lease.is_released
    assert ledger.running() == ()
    assert sorted(path.name for path in folder.iterdir()) == ["bell", "journal.jsonl", "lock"]


def test_a_lease_names_the_device(ledger):
    with ledger.try_acquire(Demand(devices=(DeviceNeed(),))) as lease:
        assert lease.demand.devices == (DeviceNeed(index=0),)
        assert ledger.try_acquire(Demand(devices=(DeviceNeed(size_bytes=1),))) == Waits(
            reason="waits for 1 B on a GPU, 1 running", scarce=Scarce.DEVICES, running_count=1
        )


def test_what_is_written_names_no_user_and_no_machine(ledger, folder):
    with ledger.try_acquire(SMALL) as lease:
        (name,) = files(folder, "lease")
        values = json.loads((folder / name).read_text(encoding="utf-8"))
        journal = json.loads((folder / "journal.jsonl").read_text(encoding="utf-8"))
        modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    demand = {"label": "small.md", "host_bytes": 10, "devices": [], "core_count": 1, "is_exclusive": False}
    assert values == {"schema": 1, "pid": os.getpid(), "started": lease.holding.started, "demand": demand}
    assert journal == {**values, "number": 1, "lease": lease.name, "beside": []}
    assert modes == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_only_chosen_children_inherit_the_descriptor(ledger):
    with ledger.try_acquire(HALF) as lease:
        assert not os.get_inheritable(lease.fileno())
    with pytest.raises(ValueError, match=r"the lease of 'half\.md' was released; its descriptor cannot be passed on"):
        lease.fileno()


@pytest.mark.parametrize("ask", [Ledger.try_acquire, Ledger.acquire])
def test_a_demand_that_never_fits_is_reported_at_once(ledger, folder, ask):
    assert ask(ledger, Demand(core_count=9)) == NeverFits(reason="needs 9 cores, and all runs together may use 8 cores")
    assert files(folder, "ticket") == []


def test_each_session_judges_by_its_own_capacity(ledger, folder):
    roomy = Ledger(folder, Capacity(host_bytes=200, core_count=8))
    with ledger.try_acquire(ALL), roomy.try_acquire(ALL):
        assert isinstance(ledger.try_acquire(SMALL), Waits)
        assert isinstance(roomy.try_acquire(SMALL), Waits)
        assert len(roomy.running()) == 2


def test_a_waiter_gets_a_reason_and_then_a_lease(ledger):
    first = ledger.try_acquire(HALF)
    reported = []

    def note(waits):
        reported.append(waits.reason)
        first.release()

    lease = ledger.acquire(ALL, on_wait=note)
    assert isinstance(lease, Lease)
    assert reported == ["waits for 100 B, 1 running"]
    assert labels(ledger.running()) == ["all.md"]
    lease.release()


def test_a_waiter_that_stops_leaves_the_queue(ledger, folder):
    reported = []
    with ledger.try_acquire(ALL):
        assert ledger.acquire(SMALL, on_wait=reported.append, should_stop=lambda: bool(reported)) is None
        assert files(folder, "ticket") == []
        assert ledger.acquire(SMALL, should_stop=lambda: True) is None


def test_an_interrupted_waiter_leaves_the_queue(ledger, folder):
    def interrupt(_):
        assert len(files(folder, "ticket")) == 1
        raise KeyboardInterrupt

    with ledger.try_acquire(ALL), pytest.raises(KeyboardInterrupt):
        ledger.acquire(SMALL, on_wait=interrupt)
    assert files(folder, "ticket") == []


def test_a_large_demand_is_admitted_under_many_small_ones(folder, capacity):
    has_ended, arrivals = threading.Event(), []

    def stream():
        ledger = Ledger(folder, capacity)
        while not has_ended.is_set():
            lease = ledger.acquire(Demand(host_bytes=40), should_stop=has_ended.is_set)
            if lease is not None:
                ledger.running()
                lease.release()

    def note(_):
        if not arrivals:
            (name,) = [name for name in files(folder, "ticket") if '"all.md"' in (folder / name).read_text()]
            arrivals.append(json.loads((folder / name).read_text())["arrival"])

    blocker = Ledger(folder, capacity).try_acquire(SMALL)
    threads = [threading.Thread(target=stream) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        # With this one held the large one has to wait; it goes as soon as the large one is in the queue.
        lease = Ledger(folder, capacity).acquire(ALL, on_wait=lambda waits: (note(waits), blocker.release()))
        assert lease.number <= arrivals[0] + PATIENCE + 1
        lease.release()
    finally:
        has_ended.set()
        for thread in threads:
            thread.join()


def test_concurrent_lectures_are_known_at_the_end(ledger):
    before = ledger.try_acquire(Demand(label="before.md", host_bytes=10))
    lease = ledger.try_acquire(Demand(label="this.md", host_bytes=10))
    before.release()
    ledger.try_acquire(Demand(label="short.md", host_bytes=10)).release()
    with ledger.try_acquire(Demand(label="lasting.md", host_bytes=10)):
        assert labels(ledger.concurrent_holdings(lease)) == ["before.md", "short.md", "lasting.md"]
        lease.release()
        assert labels(ledger.concurrent_holdings(lease)) == ["before.md", "short.md", "lasting.md"]


def test_own_leases_survive_a_removed_folder(ledger, folder, capacity):
    held = ledger.try_acquire(ALL)
    shutil.rmtree(folder)
    assert isinstance(ledger.try_acquire(SMALL), Waits)
    assert labels(ledger.running()) == ["all.md"]
    # Nobody else can know of it.
    Ledger(folder, capacity).try_acquire(SMALL).release()
    held.release()
    assert ledger.running() == ()


def test_a_waiter_keeps_its_position_if_the_folder_is_removed(ledger, folder):
    held = ledger.try_acquire(ALL)
    seen = []

    def remove_once():
        if not seen and files(folder, "ticket"):
            seen.extend(files(folder, "ticket"))
            shutil.rmtree(folder)
        elif seen and folder.exists() and files(folder, "ticket"):
            assert files(folder, "ticket") != seen
            held.release()
        return False

    lease = ledger.acquire(HALF, should_stop=remove_once)
    assert held.is_released
    assert labels(ledger.running()) == ["half.md"]
    lease.release()


def test_an_unreadable_live_lease_blocks_everything(ledger, folder):
    ledger.try_acquire(SMALL).release()
    path = folder / "lease-0123456789abcdef.json"
    path.write_text('{"schema": 1, "pid": 3, "dem', encoding="utf-8")
    with path.open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert ledger.try_acquire(SMALL) == Waits(
            reason="waits for '(a lease that cannot be read)', which runs alone",
            scarce=Scarce.EXCLUSIVITY,
            running_count=1,
        )
    ledger.try_acquire(SMALL).release()
    assert not path.exists()


def test_an_unreadable_queue_entry_delays_nobody(ledger, folder):
    ledger.try_acquire(SMALL).release()
    path = folder / "ticket-0123456789abcdef.json"
    path.write_text("[]", encoding="utf-8")
    with path.open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        ledger.try_acquire(ALL).release()
        assert path.exists()


def test_a_huge_lease_is_not_read_whole(ledger, folder):
    with ledger.try_acquire(SMALL) as lease, open_ledger_files(folder, {}) as files:
        os.truncate(lease.fileno(), 1 << 40)
        (found,) = files.leases().values()
    assert found == UNREADABLE


def test_a_pipe_in_place_of_the_journal_is_refused(ledger, folder):
    with ledger.try_acquire(SMALL) as lease:
        (folder / "journal.jsonl").unlink()
        os.mkfifo(folder / "journal.jsonl")
        with pytest.raises(LeaseError, match=r"ledger of leases cannot be used \(Illegal seek\)"):
            ledger.concurrent_holdings(lease)


def test_other_files_in_the_folder_are_ignored(ledger, folder):
    ledger.try_acquire(SMALL).release()
    for name in ("lease-1.json", "lease-0123456789abcdef.json.txt", "notes"):
        (folder / name).write_text("", encoding="utf-8")
    ledger.try_acquire(ALL).release()
    assert {path.name for path in folder.iterdir()} >= {"lease-1.json", "lease-0123456789abcdef.json.txt", "notes"}


@pytest.mark.parametrize("tail", ['{"schema": 1, "numb', '{"schema": 1, "numb\n', "\n\n", "\xff\n"])
def test_numbers_continue_after_a_truncated_line(ledger, folder, tail):
    ledger.try_acquire(SMALL).release()
    with (folder / "journal.jsonl").open("a", encoding="latin-1") as stream:
        stream.write(tail)
    with ledger.try_acquire(SMALL) as lease, ledger.try_acquire(HALF):
        assert lease.number == 2
        assert labels(ledger.concurrent_holdings(lease)) == ["half.md"]


def test_the_journal_stays_small(ledger, folder, monkeypatch):
    monkeypatch.setattr(ledger_files_module, "_JOURNAL_BYTES", 2000)
    for number in range(1, 60):
        with ledger.try_acquire(SMALL) as lease:
            assert lease.number == number
        assert (folder / "journal.jsonl").stat().st_size < 2500
    with open_ledger_files(folder, {}) as ledger_files:
        numbers = [item.number for item in ledger_files.admissions()]
    assert numbers == list(range(numbers[0], 60))
    assert len(numbers) >= 5


def test_a_waiter_is_firm_if_the_journal_was_lost(ledger, folder):
    with ledger.try_acquire(SMALL), open_ledger_files(folder, {}) as files:
        _, descriptor = files.add_queue_entry(QueueEntry(demand=ALL, position=1, arrival=1000))
    held = ledger.try_acquire(SMALL)
    try:
        assert isinstance(held, Waits)
        assert held.scarce is Scarce.TURN
    finally:
        os.close(descriptor)


def test_files_that_are_links_are_not_followed(ledger, folder, tmp_path):
    ledger.try_acquire(SMALL).release()
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    (folder / "lock").unlink()
    (folder / "lock").symlink_to(victim)
    with pytest.raises(LeaseError) as caught:
        ledger.try_acquire(SMALL)
    assert str(caught.value) == (
        f"{folder}: the ledger of leases cannot be used (Too many levels of symbolic links). Free space on its "
        "disk, set XDG_RUNTIME_DIR or TMPDIR to another local folder, or run with --lecture-no-leases"
    )
    assert victim.read_text(encoding="utf-8") == "precious"


def test_the_lease_of_a_dead_process_is_removed(ledger, folder):
    with open_ledger_files(folder, {}) as ledger_files:
        _, descriptor, _ = ledger_files.add_lease(Holding(demand=ALL, pid=os.getpid()), ())
    assert labels(ledger.running()) == ["all.md"]
    os.close(descriptor)
    assert ledger.running() == ()
    assert files(folder, "lease") == []
