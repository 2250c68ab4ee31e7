"""
The process behind :mod:`pytest_lecturecheck.session.reaper`; run by its path in an interpreter without ``site``.

It runs in every session and has something to do in hardly any, so it loads what it needs only then. Its stdin has one
line for each run that begins (``+TOKEN`` and JSON) or has left nothing (``-TOKEN``).
"""

from __future__ import annotations

import os
import signal
import sys

_ROUNDS = 100
_ROUND_SECONDS = 0.02
_SWEEP_SECONDS = 0.2
_KILL_SECONDS = 10.0
"""A killed process needs a core before it is gone, and a busy machine takes its time to give it one."""
_THREADS_FIELD, _START_FIELD = 20, 22
"""``num_threads`` and ``starttime`` of ``/proc/PID/stat``, as proc(5) counts."""
_FOLDER_PREFIXES = ("lc-", "lc-run-", "lecturecheck-")


def main() -> None:
    """Keep the list of runs until the pipe ends, then clean up what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, signal.SIG_IGN)
    runs: dict[bytes, bytes] = {}
    for line in sys.stdin.buffer:
        token, _, run = line[1:].rstrip(b"\n").partition(b" ")
        # Without its end, a line was cut off with the session: its run had not begun.
        if line[:1] == b"+" and line[-1:] == b"\n":
            runs[token] = run
        else:
            runs.pop(token, None)
    if runs:
        _clean_up_all(runs)
    # There is nothing to flush, and the session waits for the end.
    os._exit(0)


def _clean_up_all(runs: dict[bytes, bytes]) -> None:
    import json  # noqa: PLC0415 - only where something is left

    # There are neither site-packages nor an editable installation without the module site.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120
    found = [(token.decode(), json.loads(text)) for token, text in runs.items()]
    # What has no process is a folder of all runs, and they may still write there.
    for token, run in sorted(found, key=lambda item: not item[1].get("pid")):
        clean_up(token, run)


def clean_up(token: str, run: dict[str, object]) -> None:
    """Kill the processes of a run, repeatedly because they may fork meanwhile, and remove its folders and its group."""
    import time  # noqa: PLC0415 - as above
    from contextlib import suppress  # noqa: PLC0415 - as above

    from pytest_lecturecheck.files import remove_tree  # noqa: PLC0415 - as above

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
    folders = run.get("folders")
    for folder in folders if isinstance(folders, list) else ():
        # Only what this package made: a damaged message must not remove anything else.
        if os.path.basename(folder).startswith(_FOLDER_PREFIXES):  # noqa: PTH119 - no pathlib needed
            remove_tree(folder)
    if run.get("group"):
        with suppress(OSError):
            os.rmdir(str(run["group"]))  # noqa: PTH106 - no pathlib needed


def _pids_of(token: str, run: dict[str, object]) -> set[int]:
    from contextlib import suppress  # noqa: PLC0415 - as above

    from pytest_lecturecheck.probe.marked_processes import find_marked  # noqa: PLC0415 - as above

    # A lecture can write its mark into the environment of any process of its user: older ones are not of the run.
    since = run.get("since")
    first = since if isinstance(since, int) else -1
    pids = {pid for pid in find_marked(token) if not _is_zombie(pid) and start_ticks(pid) >= first}
    if run.get("group"):
        with suppress(OSError, ValueError), open(f"{run['group']}/cgroup.procs", encoding="ascii") as file:  # noqa: PTH123
            pids |= {int(word) for word in file.read().split()}
    pids |= _supervised(run.get("supervisor"))
    kernel = run.get("pid")
    if not os.path.exists("/proc/self") and isinstance(kernel, int) and kernel > 0 and _is_alive(kernel):  # noqa: PTH110
        # Without /proc only the kernel itself is known; its parent is gone, so the number is still its own.
        pids.add(kernel)
    return pids


def _supervised(supervisor: object) -> set[int]:
    """
    Return a supervisor that has not ended with the session, and all that is below it; a lecture may have stopped it.

    Args:
        supervisor: its process id, and when it was started.
    """
    if not isinstance(supervisor, list) or start_ticks(supervisor[0]) != supervisor[1]:
        return set()
    from pytest_lecturecheck.kernel.launchers.fork_server import descendants  # noqa: PLC0415 - as above

    # It goes last, because whatever is below it leaves its tree with it.
    found = {pid for pid in descendants(supervisor[0]) if not _is_zombie(pid)}
    return found or {pid for pid in supervisor[:1] if not _is_zombie(pid)}


def start_ticks(pid: int) -> int:
    """Return when a process was started, in clock ticks after the system's start; -1 if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            return int(file.read().rpartition(b")")[2].split()[_START_FIELD - 3])
    except (OSError, ValueError, IndexError):
        return -1


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            text = file.read()
    except OSError:
        return True
    fields = text.rpartition(")")[2].split()
    # One whose first thread alone has ended is none.
    return fields[:1] == ["Z"] and fields[_THREADS_FIELD - 3 : _THREADS_FIELD - 2] in (["0"], ["1"])


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
