"""
End ``srun`` with the session that started it.

Run by path as ``python -I srun_parent_watch.py PARENT_PID PROGRAM ARGUMENT...``.

Linux sends this process SIGTERM when the thread that started it ends in any way (``PR_SET_PDEATHSIG``, prctl(2)). The
setting survives ``exec``, so it applies to ``srun``, which then cancels its job step. Killing ``srun`` would leave the
step behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Request the signal, then become the program."""
    parent, *command = arguments
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(parent):
        # The session ended before the signal was requested.
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - no shell is involved


if __name__ == "__main__":
    main(sys.argv[1:])
