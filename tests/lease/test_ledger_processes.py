"""Leases between real processes, some of which are killed or stopped."""

from __future__ import annotations

import os
import signal

import pytest

from pytest_lecturecheck.errors import LeaseError
from pytest_lecturecheck.lease.admission import PATIENCE, Demand, Scarce, Waits
from pytest_lecturecheck.lease.ledger import Lease, Ledger
from pytest_lecturecheck.lease.ledger_files import open_ledger_files


def held_bytes(ledger):
    return [item.demand.host_bytes for item in ledger.running()]


def end(pid):
    os.kill(pid, signal.SIGKILL)


def test_a_killed_workers_lease_lasts_as_long_as_its_child(ledger, start_client):
    client = start_client()
    assert client.ask("try", label="l.md", host_bytes=100)["answer"] == "Lease"
    child = client.ask("child")["child"]
    client.kill()
    assert held_bytes(ledger) == [100]
    assert isinstance(ledger.try_acquire(Demand(host_bytes=1)), Waits)
    lease = ledger.acquire(Demand(host_bytes=1), on_wait=lambda _: end(child))
    assert held_bytes(ledger) == [1]
    lease.release()


def test_a_lease_of_a_killed_worker_without_children_ends(ledger, start_client):
    client = start_client()
    client.ask("try", host_bytes=100)
    client.ask("stranger")
    assert held_bytes(ledger) == [100]
    client.kill()
    assert held_bytes(ledger) == []


def test_a_released_lease_stays_with_the_child(ledger, start_client):
    client = start_client()
    client.ask("try", host_bytes=60)
    child = client.ask("child")["child"]
    assert client.ask("release") == {"answer": "released"}
    assert held_bytes(ledger) == [60]
    lease = ledger.acquire(Demand(host_bytes=100), on_wait=lambda _: end(child))
    assert isinstance(lease, Lease)
    lease.release()


def test_a_waiter_notices_a_killed_holder(ledger, start_client):
    holder, waiter = start_client(), start_client()
    holder.ask("try", host_bytes=100)
    assert waiter.ask("acquire", host_bytes=50) == {"answer": "Waits", "reason": "waits for 50 B, 1 running"}
    holder.kill()
    assert waiter.hear_lease() == 2
    assert held_bytes(ledger) == [50]


def test_waiters_of_several_processes_are_served_in_order(ledger, start_client):
    held = ledger.try_acquire(Demand(host_bytes=100))
    waiters = [start_client() for _ in range(3)]
    for waiter in waiters:
        waiter.ask("acquire", host_bytes=80)
    held.release()
    for number, waiter in enumerate(waiters, start=2):
        assert waiter.hear_lease() == number
        waiter.kill()


def test_a_queue_entry_ends_with_its_waiter(ledger, folder, start_client):
    with ledger.try_acquire(Demand(host_bytes=60)):
        waiter = start_client()
        waiter.ask("acquire", host_bytes=100)
        for _ in range(PATIENCE):
            ledger.try_acquire(Demand(host_bytes=1)).release()
        assert ledger.try_acquire(Demand(host_bytes=1)).scarce is Scarce.TURN
        waiter.kill()
        ledger.try_acquire(Demand(host_bytes=1)).release()
        with open_ledger_files(folder, {}) as files:
            assert files.queue() == {}


def test_a_suspended_waiter_delays_nobody_and_keeps_its_position(folder, capacity, start_client):
    ledger = Ledger(folder, capacity, stale_seconds=0.5)
    held = ledger.try_acquire(Demand(host_bytes=60))
    waiter = start_client()
    waiter.ask("acquire", host_bytes=100)
    for _ in range(PATIENCE):
        ledger.try_acquire(Demand(host_bytes=1)).release()
    # Not inside the critical section, where it would hold up all.
    with open_ledger_files(folder, {}):
        os.kill(waiter.pid, signal.SIGSTOP)
        os.waitpid(waiter.pid, os.WUNTRACED)
    assert Ledger(folder, capacity).try_acquire(Demand(host_bytes=1)).scarce is Scarce.TURN
    with ledger.acquire(Demand(host_bytes=1)) as lease:
        assert lease.number == PATIENCE + 2
    os.kill(waiter.pid, signal.SIGCONT)
    held.release()
    assert waiter.hear_lease() == PATIENCE + 3


def test_a_death_inside_the_critical_section_frees_the_lock(ledger, folder, capacity, start_client):
    client = start_client()
    assert client.ask("stick") == {"answer": "stuck"}
    with pytest.raises(LeaseError) as caught:
        Ledger(folder, capacity, lock_seconds=0.05).running()
    assert str(caught.value) == (
        f"{folder / 'lock'}: another process has held this lock for 0.05 s; expected milliseconds. Continue or "
        "end a session that was suspended (Ctrl-Z), or run with --lecture-no-leases"
    )
    client.kill()
    assert held_bytes(ledger) == []
    ledger.try_acquire(Demand(host_bytes=100)).release()


def test_a_full_disk_is_reported_and_leaves_no_lease(ledger, folder, start_client):
    client = start_client()
    assert client.ask("fill") == {
        "answer": (
            f"{folder}: the ledger of leases cannot be used (File too large). Free space on its disk, set "
            "XDG_RUNTIME_DIR or TMPDIR to another local folder, or run with --lecture-no-leases"
        )
    }
    assert held_bytes(ledger) == []
    assert sorted(path.name for path in folder.iterdir()) == ["bell", "lock"]
    assert client.ask("try", host_bytes=100)["answer"] == "Lease"


def test_many_processes_never_exceed_the_capacity(ledger, folder, capacity, start_client):
    clients = [start_client() for _ in range(4)]
    for client in clients:
        client.tell("crowd", thread_count=16, turn_count=1)
    answers = [client.hear() for client in clients]
    assert sum(answer["turns"] for answer in answers) == 64
    assert max(answer["host_bytes"] for answer in answers) <= capacity.host_bytes
    assert max(answer["core_count"] for answer in answers) <= capacity.core_count
    with open_ledger_files(folder, {}) as files:
        admissions = files.admissions()
    demands = {item.lease: item.holding.demand for item in admissions}
    for item in admissions:
        held = [demands[name] for name in (item.lease, *item.beside)]
        assert sum(demand.host_bytes for demand in held) <= capacity.host_bytes
        assert sum(demand.core_count for demand in held) <= capacity.core_count
    assert [item.number for item in admissions] == list(range(1, 65))
    assert held_bytes(ledger) == []
    assert sorted(path.name for path in folder.iterdir()) == ["bell", "journal.jsonl", "lock"]
