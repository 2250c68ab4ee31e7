"""
End the kernels of a session that was killed before it could do so itself.

The reaper is a process of its own, started once per session with the first kernel. It reads from a pipe which runs are
under way. The pipe ends when pytest does, however that happens; the reaper then kills what is left of these runs and
removes their folders. After a session that ended properly nothing is left, and the reaper exits.

Run as ``python -m pytest_lecturecheck.session.reaper``; the standard library and the probe's finder only.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.probe.marked_processes import find_marked

_ROUNDS: Final = 100
_ROUND_SECONDS: Final = 0.02
_SWEEP_SECONDS: Final = 0.2
_CLOSE_SECONDS: Final = 5.0
_KILL_SECONDS: Final = 10.0
"""A killed process needs a core before it is gone, and a busy machine takes its time to give it one."""
_FOLDER_PREFIXES: Final = ("lc-", "lc-run-", "lecturecheck-")


class Reaper:
    """The session's end of the pipe to the reaper process."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._process: subprocess.Popen[bytes] | None = None
        self._runs: dict[str, dict[str, Any]] = {}

    def add(self, token: str, *, pid: int, folders: list[str], group: str | None) -> None:
        """
        Announce a run.

        Args:
            token: the run's token.
            pid: process id of its kernel.
            folders: folders to remove with it.
            group: folder of its memory group, or ``None``.
        """
        self._runs[token] = {"add": token, "pid": pid, "folders": folders, "group": group}
        if not self._start():
            self._send(self._runs[token])

    def remove(self, token: str) -> None:
        """Report that nothing is left of a run."""
        self._runs.pop(token, None)
        self._send({"remove": token})

    def close(self) -> None:
        """End the reaper process; safe to call twice."""
        if self._process is None:
            return
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        # Only here: the process itself loads as little as possible.
        from pytest_lecturecheck.kernel.launchers.ended import wait_ended  # noqa: PLC0415 - see above

        wait_ended(self._process, _CLOSE_SECONDS)
        self._process = None

    def _start(self) -> bool:
        """Start the process if there is none (a lecture can kill it), announce all runs, and return True if so."""
        if self._process is not None and self._process.poll() is None:
            return False
        self.close()
        # -P: no module may come from a lecture folder. A session of its own: Ctrl-C must not reach the reaper.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pytest_lecturecheck.session.reaper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for run in self._runs.values():
            self._send(run)
        return True

    def _send(self, message: dict[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            return
        # A reaper that was just killed must not fail the lecture; the next run starts a new one.
        with suppress(OSError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()


def main() -> None:
    """Keep the list of runs until the pipe ends, then clean up what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, signal.SIG_IGN)
    runs: dict[str, dict[str, Any]] = {}
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except ValueError:  # the pipe ended within a message
            continue
        if "add" in message:
            runs[message["add"]] = message
        else:
            runs.pop(message.get("remove"), None)
    for token, run in runs.items():
        clean_up(token, run)
    # There is nothing to flush, and the session waits for the end.
    os._exit(0)


def clean_up(token: str, run: dict[str, Any]) -> None:
    """Kill the processes of a run, repeatedly because they may fork meanwhile, and remove its folders and its group."""
    begun, rounds = time.monotonic(), 0
    while rounds < _ROUNDS or time.monotonic() < begun + _KILL_SECONDS:
        rounds += 1
        pids = [pid for pid in _pids_of(token, run) if pid != os.getpid()]
        if not pids:
            break
        # The newest first and looked at again at once: in a chain that forks on, the last one must not get ahead.
        for pid in sorted(pids, reverse=True):
            with suppress(OSError):
                os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        if time.monotonic() > begun + _SWEEP_SECONDS:
            time.sleep(_ROUND_SECONDS)
    for folder in run.get("folders", []):
        # Only what this package made: a damaged message must not remove anything else.
        if Path(folder).name.startswith(_FOLDER_PREFIXES):
            shutil.rmtree(folder, ignore_errors=True)
    if run.get("group"):
        with suppress(OSError):
            Path(run["group"]).rmdir()


def _pids_of(token: str, run: dict[str, Any]) -> set[int]:
    pids = {pid for pid in find_marked(token) if not _is_zombie(pid)}
    if run.get("group"):
        with suppress(OSError, ValueError):
            pids |= {int(word) for word in (Path(run["group"]) / "cgroup.procs").read_text(encoding="ascii").split()}
    if not Path("/proc/self").exists() and _is_alive(run["pid"]):
        # Without /proc only the kernel itself is known; its parent is gone, so the number is still its own.
        pids.add(run["pid"])
    return pids


def _is_zombie(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return text.rpartition(")")[2].split()[:1] == ["Z"]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
