"""
The device agent: reads the allocators of GPU libraries and JAX's compile times inside the kernel.

:mod:`~pytest_lecturecheck.kernel.agent.core` loads it once a lecture has imported JAX, PyTorch or CuPy; other lectures
pay nothing for it. Standard library only. Libraries are looked up in ``sys.modules``; nothing here imports one or
initialises a backend.

The current state is also kept in a small file that outlives the kernel, the crash record. It has two slots of
:data:`SLOT_BYTES`, written in turn. Each holds one line of JSON with a running number at both ends (``number``,
``end``).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

from pytest_lecturecheck.kernel.agent.device_libraries import LIBRARIES, largest_plan

SLOT_BYTES = 16384
"""Size of one slot of the crash record."""

COMPILE_KINDS = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing_seconds",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering_seconds",
    "/jax/core/compile/backend_compile_duration": "backend_seconds",
}
CACHE_EVENTS = {
    "/jax/compilation_cache/cache_hits": "cache_hits",
    "/jax/compilation_cache/cache_misses": "cache_misses",
}
LISTENERS = (
    ("register_event_duration_secs_listener", "_event_duration_secs_listeners", "on_duration"),
    ("register_event_listener", "_event_listeners", "on_event"),
    # Reports the begin of a span; available since JAX 0.5.
    ("register_scalar_listener", "_scalar_listeners", "on_scalar"),
)
"""Function of jax.monitoring that registers a listener, the list that keeps it, and our method."""

_SPANS_KEPT = 10_000
_ALLOCATOR_SECONDS = 0.25
"""Minimum interval between two reads of the allocators while a cell runs."""
_WRITE_SECONDS = 0.05
"""Minimum interval between two writes for JAX versions that do not report the begin of a span."""
_FAILURES = 3
"""Number of failures after which a library is not asked again."""
_DEVICES = 64
_PROGRAMS_AT_ONCE = 500
"""With more programs their plans are read at the end of a cell only: each look lists all of them."""
_ERROR_CHARS = 300


class CompileLog:
    """Accumulates the compiler's time spans of one cell as they end; spans are nested."""

    def __init__(self, now: float) -> None:
        """Start empty at ``now`` (monotonic seconds)."""
        self.reset(now)

    def reset(self, now: float) -> None:
        """Clear all spans; a span that is still open counts from ``now`` on."""
        self.floor = now
        self.total = 0.0
        self.spans: list[tuple[float, float]] = []
        self.sums = dict.fromkeys(COMPILE_KINDS.values(), 0.0)
        self.counts = {"count": 0, "cache_hits": 0, "cache_misses": 0}
        self.open: dict[int, tuple[int, float, float]] = {}
        self.plan: dict[str, Any] = {}

    def begin(self, now: float) -> bool:
        """Record the begin of a span on this thread; return True if it is an outermost one."""
        thread = threading.get_ident()
        depth, since, before = self.open.get(thread, (0, now, self.total))
        self.open[thread] = (depth + 1, since, before)
        return depth == 0

    def end(self, kind: str, duration: float, now: float) -> bool:
        """Record the end of a span on this thread; return True if it was an outermost one, as far as is known."""
        self.sums[kind] += duration
        if kind == "backend_seconds":
            self.counts["count"] += 1
        self._add(now - duration, now)
        thread = threading.get_ident()
        depth, since, before = self.open.get(thread, (1, 0.0, 0.0))
        if depth > 1:
            self.open[thread] = (depth - 1, since, before)
            return False
        self.open.pop(thread, None)
        return True

    def _add(self, start: float, end: float) -> None:
        # Spans end in the order of the calls, so a new one can only overlap the most recent ones.
        start = max(start, self.floor)
        while self.spans and self.spans[-1][1] >= start:
            first, last = self.spans.pop()
            self.total -= last - first
            start, end = min(start, first), max(end, last)
        if end > start:
            self.spans.append((start, end))
            self.total += end - start
        if len(self.spans) > _SPANS_KEPT:
            del self.spans[: _SPANS_KEPT // 2]
            self.floor = self.spans[0][0]

    def totals(self) -> dict[str, Any]:
        """Return the sums over ended spans and, if a span is open, its start and the time before it."""
        totals: dict[str, Any] = {"seconds": max(0.0, self.total), **self.sums, **self.counts}
        if self.open:
            _, since, before = min(list(self.open.values()), key=lambda state: state[1])
            totals["open_since"], totals["seconds_before"] = since, max(0.0, before)
        if self.plan:
            totals["plan"] = self.plan
        return totals


class CrashRecordWriter:
    """Writes the crash record, a file that outlives the kernel."""

    def __init__(self, path: str) -> None:
        """Write to ``path``; the file is created by the first write."""
        self.path = path
        self.fd: int | None = None
        self.identity: tuple[int, int] | None = None
        self.number = 0

    def write(self, payload: dict[str, Any]) -> None:
        """Overwrite the older of the two slots with ``payload``."""
        if not self.path:
            return
        if self.fd is None:
            self.fd = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            self.identity = self._identity(self.fd)
        elif self._identity(self.fd) != self.identity:
            # The lecture has closed our descriptor, and the number belongs to another file now.
            self.path = ""
            return
        # The number stands at both ends, so that a partly overwritten slot is detected.
        text = json.dumps({"number": self.number, **payload, "end": self.number}).encode() + b"\n"
        if len(text) > SLOT_BYTES:
            return
        os.lseek(self.fd, self.number % 2 * SLOT_BYTES, os.SEEK_SET)
        os.write(self.fd, text)
        self.number += 1

    @staticmethod
    def _identity(fd: int) -> tuple[int, int]:
        status = os.fstat(fd)
        return status.st_dev, status.st_ino


class DeviceAgent:
    """
    Reads allocators, listens to the compiler, and keeps the last payload.

    Args:
        path: where the last payload are kept; empty for nowhere.
        request: number of the current request.
    """

    def __init__(self, path: str, request: int) -> None:
        """Create the agent without listeners."""
        self.request = request
        self.pid = os.getpid()
        # Reentrant: a signal handler of the lecture may compile while its thread holds the lock.
        self.lock = threading.RLock()
        self.log = CompileLog(time.monotonic())
        self.crash_record = CrashRecordWriter(path)
        self.monitoring: Any = None
        self.registered: set[str] = set()
        self.says_begin = False
        self.listen_error = ""
        self.allocators: list[dict[str, Any]] = []
        self.asked_at = self.written_at = 0.0
        self.failures: dict[str, int] = {}
        self.errors: dict[str, str] = {}
        self.programs: set[Any] = set()
        """Programs whose plan was read, by their fingerprint or identity."""

    # -- compiler -----------------------------------------------------------------------------------------------------

    def listen(self, monitoring: Any) -> None:
        """Register with a new ``jax._src.monitoring``, and again whenever its listeners are cleared."""
        self.monitoring = monitoring
        self.registered = set()
        self._register()
        original = getattr(monitoring, "clear_event_listeners", None)
        if original is None or getattr(original, "__wrapped__", None) is not None:
            return

        def clear_event_listeners(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self.registered = set()
            self._register()
            return result

        clear_event_listeners.__wrapped__ = original  # type: ignore[attr-defined]
        clear_event_listeners.__doc__ = original.__doc__
        monitoring.clear_event_listeners = clear_event_listeners

    def _register(self) -> None:
        for register, kept, method in LISTENERS:
            callback = getattr(self, method)
            listeners = getattr(self.monitoring, kept, None)
            is_there = register in self.registered if listeners is None else callback in listeners
            if is_there:
                continue
            try:
                getattr(self.monitoring, register)(callback)
            except Exception as exc:  # noqa: BLE001 - the agent must never be the reason why a lecture fails
                if method == "on_duration":
                    self.listen_error = _error_text(exc)
                continue
            self.registered.add(register)
            self.says_begin = self.says_begin or method == "on_scalar"

    def on_scalar(self, event: str, *_: Any, **__: Any) -> None:
        """Handle the begin of a span."""
        if event in COMPILE_KINDS:
            self._note(self.log.begin)

    def on_duration(self, event: str, duration: float = 0.0, *_: Any, **__: Any) -> None:
        """Handle the end of a span."""
        if (kind := COMPILE_KINDS.get(event)) is not None:
            if kind == "backend_seconds" and len(self.programs) <= _PROGRAMS_AT_ONCE:
                # Before the program runs: it may be the last one.
                self._look_at_programs()
            self._note(lambda now: self.log.end(kind, max(0.0, float(duration)), now))

    def _look_at_programs(self) -> None:
        """Keep the plan of the program for which most memory is planned, of those compiled since the last look."""
        if os.getpid() != self.pid:
            return
        with self.lock:
            try:
                found = largest_plan(self.programs)
            except Exception:  # noqa: BLE001 - an unknown version of a library must not disturb the lecture
                return
            if found and found["total_bytes"] > self.log.plan.get("total_bytes", -1):
                self.log.plan = found

    def on_event(self, event: str, *_: Any, **__: Any) -> None:
        """Handle a hit or miss of the persistent compilation cache."""
        if (name := CACHE_EVENTS.get(event)) is not None and os.getpid() == self.pid:
            with self.lock:
                self.log.counts[name] += 1

    def _note(self, change: Any) -> None:
        # A forked child inherits the listeners, but its work is not this kernel's.
        if os.getpid() != self.pid:
            return
        try:
            with self.lock:
                now = time.monotonic()
                is_outermost = change(now)
                if is_outermost and (self.says_begin or now - self.written_at > _WRITE_SECONDS):
                    if now - self.asked_at > _ALLOCATOR_SECONDS:
                        self._ask(now)
                    self._write(now)
        except Exception:  # noqa: BLE001, S110 - as above; the payload at the end of the cell reports what is missing
            pass

    # -- allocators ---------------------------------------------------------------------------------------------------

    def _ask(self, now: float) -> None:
        self.asked_at = now
        found: list[dict[str, Any]] = []
        for library, ask in LIBRARIES:
            if self.failures.get(library, 0) >= _FAILURES:
                continue
            try:
                found.extend({"library": library, **usage} for usage in ask())
            except Exception as exc:  # noqa: BLE001 - as above
                self.failures[library] = self.failures.get(library, 0) + 1
                if self.failures[library] == 1:
                    self.errors[library] = _error_text(exc)
        self.allocators = found[:_DEVICES]

    # -- payload ------------------------------------------------------------------------------------------------------

    def payload(self, request: int) -> dict[str, Any]:
        """Return the payload of the request that just ended, and reset for the next one."""
        module = sys.modules.get("jax._src.monitoring")
        if module is not None and module is not self.monitoring:
            # It was imported without the agent's finder.
            self.listen(module)
        with self.lock:
            now = time.monotonic()
            if self.monitoring is not None:
                self._register()
            self._ask(now)
            payload: dict[str, Any] = {}
            if self.allocators:
                payload["allocators"] = self.allocators
            if self.monitoring is not None:
                if self.log.counts["count"]:
                    self._look_at_programs()
                payload["compile"] = {"error": self.listen_error} if self.listen_error else self.log.totals()
            if self.errors:
                payload["allocator_errors"], self.errors = self.errors, {}
            self.request = request
            try:
                self._write(now)
            except OSError:
                self.crash_record.path = ""
            self.log.reset(now)
            self.request = request + 1
        return payload

    def _write(self, now: float) -> None:
        self.written_at = now
        payload: dict[str, Any] = {"request": self.request}
        if self.allocators:
            payload["allocators"] = self.allocators
        if self.monitoring is not None and not self.listen_error:
            payload["compile"] = self.log.totals()
        self.crash_record.write(payload)


def _error_text(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}"[:_ERROR_CHARS]
