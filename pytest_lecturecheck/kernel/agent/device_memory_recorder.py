"""
Keep what ``jax.profiler.device_memory_profile`` says at the highest level of a cell.

Standard library only; JAX is looked up in ``sys.modules`` and never imported, and no backend is initialised. A thread
looks at the memory of the devices while the cell runs. What it keeps is written at once, so that a kernel that is
killed leaves its record.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import sys
import time
from typing import Any

LOOK_SECONDS = 0.02
SHARE = 0.25
"""Share of the time that looks may take: the run is compared with nothing."""
STEP = 1.02
"""A level must be that much above the one that was kept, so that a slow rise is not recorded at each look."""


class Recorder:
    """
    Watches the devices' memory.

    Args:
        path: file for the profile.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.most = 0
        self.taken = 0
        self.error = ""
        self.is_over = False
        self.lock = _thread.allocate_lock()

    def run(self) -> None:
        """Look until the cell has ended."""
        while not self.is_over:
            began = time.monotonic()
            self.look()
            time.sleep(max(LOOK_SECONDS, (time.monotonic() - began) / SHARE))

    def look(self, step: float = STEP) -> None:
        """Keep the profile if more memory is live than ever before."""
        with self.lock:
            if self.is_over:
                return
            try:
                level = live_bytes()
                if level > self.most * step:
                    data = sys.modules["jax"].profiler.device_memory_profile()
                    with open(f"{self.path}.new", "wb") as file:  # noqa: PTH123 - the agent imports no more than it needs
                        file.write(data)
                    os.replace(f"{self.path}.new", self.path)  # noqa: PTH105 - as above
                    self.most, self.taken = level, self.taken + 1
            except Exception as exc:  # noqa: BLE001 - a record must never be the reason why a lecture fails
                self.error = f"{type(exc).__name__}: {exc}"[:500]

    def stop(self) -> None:
        """Look for the last time."""
        self.look(1.0)
        with self.lock:
            self.is_over = True


def live_bytes() -> int:
    """Return the memory in use on all devices; CPU devices do not say, and their arrays are added up."""
    backends = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None)
    total = 0
    for client in list(backends.values()) if isinstance(backends, dict) else []:
        counted = 0
        for device in client.local_devices():
            stats = device.memory_stats() or {}
            counted += stats.get("bytes_in_use", 0)
        total += counted or sum(array.nbytes for array in client.live_arrays() if not array.is_deleted())
    return total


def begin(answer: str, path: str, state: dict[str, Any]) -> None:
    """
    Record the next cell.

    Args:
        answer: file for the result.
        path: file for the profile.
        state: keeps the recorder between calls.
    """
    recorder = state["device record"] = Recorder(path)
    _thread.start_new_thread(recorder.run, ())
    _tell(answer, "started", "")


def end(answer: str, state: dict[str, Any]) -> None:
    """Stop, and report how much memory was live when the profile was taken."""
    recorder = state.pop("device record")
    recorder.stop()
    _tell(answer, "stopped" if recorder.taken else "nothing", recorder.error, level=recorder.most)


def _tell(answer: str, state: str, text: str, **more: Any) -> None:
    with contextlib.suppress(OSError):
        # A file that is there is not ours.
        fd = os.open(answer, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(json.dumps({"state": state, "text": text, **more}))
