"""Read the file in which the agent keeps its last state, for kernels that died or no longer answer."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.files import open_plain
from pytest_lecturecheck.kernel.agent.device_agent import SLOT_BYTES
from pytest_lecturecheck.kernel.messages.agent_device_reply import clean_allocators, clean_compilation, clean_seconds
from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes

_SLOTS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashRecord:
    """
    The last state that the agent wrote.

    Attributes:
        request: number of the request that was running or had just ended.
        allocators: usage reported by the allocators.
        compilation: compile times of that request so far, or ``None`` if JAX was not imported.
        open_since: start of a span that has not ended (monotonic clock of this machine), or ``None``.
        seconds_before: compile time of the request when that span began.
    """

    request: int
    allocators: tuple[AllocatorUsage, ...] = ()
    compilation: CompileTimes | None = None
    open_since: float | None = None
    seconds_before: float = 0.0

    def compilation_in(self, request: int, now: float) -> CompileTimes | None:
        """
        Return the compile times of a request up to ``now``, including a span that was still open.

        Args:
            request: the request that was running.
            now: last moment at which the kernel was known to run (monotonic clock of this machine).
        """
        if self.compilation is None:
            return None
        if request != self.request:
            return CompileTimes(seconds=0.0)
        if self.open_since is None or not self.open_since < now:
            return self.compilation
        unfinished = now - self.open_since
        seconds = max(self.compilation.seconds, self.seconds_before + unfinished)
        return replace(self.compilation, seconds=seconds, unfinished_seconds=unfinished)


def read_crash_record(path: Path) -> CrashRecord | None:
    """Read the agent's file, which a lecture may have tampered with; ``None`` if there is no valid state in it."""
    payload = max(_read_slots(path), key=lambda found: found["number"], default=None)
    if payload is None:
        return None
    compiler, request = payload.get("compile"), payload.get("request")
    compilation = clean_compilation(compiler)
    spans: dict[str, Any] = compiler if isinstance(compiler, dict) else {}
    return CrashRecord(
        request=request if isinstance(request, int) else 0,
        allocators=clean_allocators(payload.get("allocators")),
        compilation=compilation if isinstance(compilation, CompileTimes) else None,
        open_since=clean_seconds(spans.get("open_since")),
        seconds_before=clean_seconds(spans.get("seconds_before")) or 0.0,
    )


def _read_slots(path: Path) -> Iterator[dict[str, Any]]:
    data = read_private_file(path, _SLOTS * SLOT_BYTES)
    for start in range(0, len(data), SLOT_BYTES):
        line, end, _ = data[start : start + SLOT_BYTES].partition(b"\n")
        # A state that was being written when the kernel died fails this test; the slot before it is complete.
        with contextlib.suppress(ValueError, RecursionError):
            payload = json.loads(line) if end else None
            if (
                isinstance(payload, dict)
                and isinstance(payload.get("number"), int)
                and payload["number"] == payload.get("end")
            ):
                yield payload


def read_private_file(path: Path, longest_bytes: int) -> bytes:
    """Read the beginning of a regular file that a kernel wrote; empty if it is a link, a device or missing."""
    try:
        with open_plain(path, most_bytes=None, follow_links=False) as file:
            return file.read(longest_bytes)
    except OSError:
        return b""
