"""
The memory of a process tree: one module for each OS, chosen here and nowhere else.

``_linux.py`` reads procfs. ``_darwin.py`` and ``_windows.py`` are sources of ``_sampled.py``. Both kinds share
``_cell_windows.py`` (which window belongs to which cell). What a window says of the peak is decided in
``_linux_window.py`` and ``_sampled_window.py``, which are pure.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from pytest_lecturecheck.model.probe import Probe

# Only the module of this system is loaded.
if sys.platform == "linux":
    from pytest_lecturecheck.probe.memory import _linux
elif sys.platform == "darwin":
    from pytest_lecturecheck.probe.memory import _darwin
else:
    from pytest_lecturecheck.probe.memory import _windows

DEFAULT_INTERVAL_SECONDS: Final = 0.025


def open_memory_probe(
    pid: int,
    *,
    interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
    run_token: str | None = None,
    supervisor_pid: int | None = None,
    read_group: Callable[[], int | None] | None = None,
) -> Probe:
    """
    Open a probe for the process ``pid`` and its tree.

    Args:
        pid: process id of the kernel.
        interval_seconds: time between two samples; longer on a busy tree, so that sampling takes under 1 % of a core.
        run_token: value of ``LECTURECHECK_RUN`` in the kernel's environment; it finds processes that left the tree
            (daemons). Without it, and without a supervisor, they are not counted.
        supervisor_pid: parent of the kernel that adopts every orphan of its tree (Linux, a subreaper with this one
            child); ``None`` without one. All that is below it is measured, whatever environment or name it has; it
            is not measured itself.
        read_group: returns the bytes that the run's own memory group holds (Linux), or ``None`` where it has none.
    """
    if sys.platform == "linux":
        return _linux.open_probe(
            pid,
            interval_seconds=interval_seconds,
            run_token=run_token,
            supervisor_pid=supervisor_pid,
            read_group=read_group,
        )
    elif sys.platform == "darwin":  # noqa: RET505 - type checkers treat code after it as unreachable
        return _darwin.open_probe(pid, interval_seconds=interval_seconds)
    else:
        return _windows.open_probe(pid, interval_seconds=interval_seconds)
