"""A process that asks the ledger of a folder, as it is told on stdin: one JSON object a line, one answer a line."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

from pytest_lecturecheck.errors import LeaseError
from pytest_lecturecheck.lease.admission import Capacity, Demand, Holding, NeverFits, Waits
from pytest_lecturecheck.lease.ledger import Ledger
from pytest_lecturecheck.lease.ledger_files import open_ledger_files


def say(**values):
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def tell(answer):
    if isinstance(answer, Waits | NeverFits):
        say(answer=type(answer).__name__, reason=answer.reason)
    else:
        say(answer="Lease", number=answer.number)


def take_turns(ledger, highest, turn_count):
    for _ in range(turn_count):
        demand = Demand(host_bytes=random.choice([5, 10, 30, 60, 100]), core_count=random.choice([1, 1, 2, 4]))
        with ledger.acquire(demand):
            held = [item.demand for item in ledger.running()]
            highest.append((sum(item.host_bytes for item in held), sum(item.core_count for item in held)))


class Client:
    """What may be asked of the process."""

    def __init__(self, folder, capacity):
        self.folder = folder
        self.capacity = capacity
        self.ledger = Ledger(folder, capacity)
        self.lease = None

    def do_try(self, **demand):
        self.lease = self.ledger.try_acquire(Demand(**demand))
        tell(self.lease)

    def do_acquire(self, **demand):
        self.lease = self.ledger.acquire(Demand(**demand), on_wait=tell)
        tell(self.lease)

    def do_child(self):
        child = subprocess.Popen(["sleep", "600"], pass_fds=[self.lease.fileno()], start_new_session=True)
        say(child=child.pid)

    def do_stranger(self):
        say(child=subprocess.Popen(["sleep", "600"], start_new_session=True).pid)

    def do_release(self):
        self.lease.release()
        say(answer="released")

    def do_stick(self):
        """Stay inside the critical section with half a lease written."""
        with open_ledger_files(self.folder, {}) as files:
            files.add_lease(Holding(demand=Demand(host_bytes=self.capacity.host_bytes)), ())
            say(answer="stuck")
            time.sleep(600)

    def do_fill(self):
        """Ask while nothing can be written."""
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
        try:
            self.ledger.try_acquire(Demand(host_bytes=1))
        except LeaseError as error:
            message = str(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        say(answer=message)

    def do_crowd(self, thread_count, turn_count):
        """Take and give back in many threads; tell of the most that was held at once."""
        highest = []
        threads = [
            threading.Thread(target=take_turns, args=(Ledger(self.folder, self.capacity), highest, turn_count))
            for _ in range(thread_count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        host_bytes, core_count = (max(column) for column in zip(*highest, strict=True))
        say(host_bytes=host_bytes, core_count=core_count, turns=len(highest))


def main():
    folder, host_bytes, core_count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    client = Client(folder, Capacity(host_bytes=host_bytes, core_count=core_count))
    say(pid=os.getpid())
    for line in sys.stdin:
        order = json.loads(line)
        getattr(client, f"do_{order.pop('do')}")(**order)


if __name__ == "__main__":
    main()
