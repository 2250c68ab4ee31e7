"""
Tie ``srun`` to the session that starts it.

Run by path as ``python -I srun_parent_watch.py PARENT_PID PROGRAM ARGUMENT...``.

Linux sends this process SIGTERM when the thread that started it ends, in whatever way (``PR_SET_PDEATHSIG``, prctl(2));
the setting outlives ``exec``. ``srun`` then cancels its step. Killing ``srun`` itself would leave the step behind.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Tie the knot, and become the program."""
    parent, *command = arguments
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(parent):
        # It ended before the knot was tied.
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - that is the point, and no shell is involved


if __name__ == "__main__":
    main(sys.argv[1:])
