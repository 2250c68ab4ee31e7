"""Wait for the end of a process of this session."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from contextlib import suppress


def wait_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """
    Wait for a child's end, up to ``seconds``; return True if it has ended.

    :meth:`subprocess.Popen.wait` with a time limit looks again and again, and sleeps in between.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            descriptor = os.pidfd_open(process.pid)
            try:
                select.select([descriptor], [], [], seconds)
            finally:
                os.close(descriptor)
            return process.poll() is not None
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
    return process.poll() is not None
