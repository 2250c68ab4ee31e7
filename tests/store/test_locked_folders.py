"""A folder that another process has locked is waited for, and not for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_lecturecheck.store import atomic

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders are not locked there")

HOLD = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        yield process
        process.stdin.close()


def test_a_lock_that_is_never_given_up_is_an_error(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(atomic, "LOCK_SECONDS", 0.2)
    with pytest.raises(atomic.LockTimeoutError) as raised, atomic.locked(tmp_path):
        pass
    who = f"process {holder.pid}" if Path("/proc/locks").exists() else "another process"
    assert str(raised.value) == (
        f"{tmp_path} was locked by {who} for more than 0.2 s; expected the lock to be free after a moment. "
        "End that process if it hangs"
    )


def test_a_lock_that_is_given_up_is_taken(tmp_path, holder):
    holder.stdin.close()
    with atomic.locked(tmp_path):
        assert tmp_path.is_dir()
