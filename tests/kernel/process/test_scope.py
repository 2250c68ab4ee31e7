"""Scopes of the user's service manager, with a fake bus that writes to a recorded tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_lecturecheck.kernel.process.scope import start_scope
from pytest_lecturecheck.units import GIB

PID = 4711
NAME = "a1b2c3"
USER_SLICE = "user.slice/user-1000.slice/user@1000.service/app.slice"


class Manager:
    """Answers the one call; ``limit`` is what it writes as the group's limit, ``None`` for no memory controller."""

    def __init__(self, root: Path, *, answers: bool = True, moves: bool = True, limit: str | None = "asked") -> None:
        self.root, self.answers, self.moves, self.limit = root, answers, moves, limit
        self.calls: list[list[str]] = []
        (root / "proc" / str(PID)).mkdir(parents=True)
        (root / "cgroup").mkdir()
        (root / "cgroup" / "cgroup.controllers").write_text("cpu memory\n")
        self._place("/user.slice/user-1000.slice/session-2.scope")

    def _place(self, path: str) -> None:
        (self.root / "proc" / str(PID) / "cgroup").write_text(f"0::{path}\n")

    def __call__(self, arguments: list[str]) -> bool:
        self.calls.append(list(arguments))
        if not self.answers:
            return False
        unit = arguments[arguments.index("fail") - 1]
        folder = self.root / "cgroup" / USER_SLICE / unit
        folder.mkdir(parents=True)
        if self.limit is not None:
            asked = arguments[arguments.index("MemoryMax") + 2]
            (folder / "memory.max").write_text(f"{asked if self.limit == 'asked' else self.limit}\n")
        (folder / "cgroup.procs").write_text(f"{PID}\n")
        if self.moves:
            self._place(f"/{USER_SLICE}/{unit}")
        return True


def scope(manager: Manager):
    root = manager.root
    return start_scope(NAME, PID, 2 * GIB, call_bus=manager, proc_root=root / "proc", sys_root=root / "cgroup")


def test_the_scope_is_requested_with_process_and_limit(tmp_path):
    manager = Manager(tmp_path)
    group = scope(manager)
    assert manager.calls == [
        [
            *("--user", "--quiet", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1"),
            *("org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))"),
            *("lecturecheck-a1b2c3.scope", "fail", "4"),
            *("PIDs", "au", "1", "4711"),
            *("MemoryMax", "t", "2147483648"),
            *("MemorySwapMax", "t", "0"),
            *("CollectMode", "s", "inactive-or-failed"),
            "0",
        ]
    ]
    assert group is not None
    assert (group.version, group.limit_bytes, group.pids()) == (2, 2 * GIB, [PID])
    assert group.folder == tmp_path / "cgroup" / USER_SLICE / "lecturecheck-a1b2c3.scope"


@pytest.mark.parametrize(
    "behaviour",
    [{"answers": False}, {"moves": False}, {"limit": None}, {"limit": "max"}, {"limit": str(3 * GIB)}],
    ids=["refuses", "does not move", "no memory controller", "sets no limit", "sets a higher limit"],
)
def test_a_scope_without_a_limit_is_no_group(tmp_path, behaviour):
    assert scope(Manager(tmp_path, **behaviour)) is None


def test_without_a_bus_there_is_no_scope(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert start_scope(NAME, PID, GIB, proc_root=tmp_path, sys_root=tmp_path) is None
