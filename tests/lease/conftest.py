from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_lecturecheck.lease.admission import Capacity
from pytest_lecturecheck.lease.ledger import Ledger

# Signals, owners and modes of POSIX; there is no such thing to test on Windows.
collect_ignore_glob = ["test_ledger*.py", "test_lease_folder.py"] if sys.platform == "win32" else []
CLIENT = Path(__file__).parents[1] / "support" / "lease_client.py"


class Client:
    """Another process that uses the ledger."""

    def __init__(self, folder, capacity):
        self.process = subprocess.Popen(
            [sys.executable, str(CLIENT), str(folder), str(capacity.host_bytes), str(capacity.core_count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.hear()["pid"]
        self.children = []

    def tell(self, do, **values):
        self.process.stdin.write(json.dumps({"do": do, **values}) + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        assert line, "the client ended"
        answer = json.loads(line)
        if "child" in answer:
            self.children.append(answer["child"])
        return answer

    def hear_lease(self):
        """Pass over what it says while it waits; give the number of the admission."""
        while (answer := self.hear())["answer"] == "Waits":
            pass
        return answer["number"]

    def ask(self, do, **values):
        self.tell(do, **values)
        return self.hear()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        for pid in self.children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(autouse=True)
def own_runtime_folder(monkeypatch, tmp_path_factory):
    """Keep the ledger of this machine's sessions out of tests that choose no folder."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "leases"


@pytest.fixture
def capacity():
    return Capacity(host_bytes=100, core_count=8, devices={0: 50})


@pytest.fixture
def ledger(folder, capacity):
    return Ledger(folder, capacity)


@pytest.fixture
def start_client(folder, capacity):
    clients = []

    def start():
        clients.append(Client(folder, capacity))
        return clients[-1]

    yield start
    for client in clients:
        # A stopped process cannot be reaped before it goes on.
        with contextlib.suppress(ProcessLookupError):
            os.kill(client.pid, signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            client.close()
