"""
Extract the operations of each device from the events of a trace.

The format is Chrome's trace events as XLA writes them (``xplane_to_trace_events.cc``): metadata events name processes
and threads, complete events (``"ph": "X"``) have ``ts`` and ``dur`` in microseconds.

- GPU: each device is a process ``/device:GPU:0``, each stream one of its threads ``Stream #7(Compute,MemcpyD2H)``
  (``cupti_collector.cc``, ``rocm_collector.cc``). Other threads of such a process (modules, scopes, overhead) repeat
  these events or hold unrelated ones.
- TPU: the thread ``XLA Ops`` of a process ``/device:TPU:0``.
- CPU: XLA's thunks run on threads of the host (``tf_XLAPjRtCpuClient/..``, ``tf_XLAEigen/..``, or the caller's own).
  They are recognised by ``hlo_op``; those of one execution share a ``run_id``. In a trace with a GPU such events are
  the host's side of its kernels, and are left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple, TypeAlias

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import TraceFileError

_DEVICE: Final = re.compile(r"/device:(GPU|TPU):([0-9]{1,6})(?: .*)?")
_COPY: Final = re.compile(r"(?i:memcpy|memset).*")
_NO_OPERATION: Final = frozenset({"memalloc_details", "memfree_details", "memory_residency_details"})
_PICOSECONDS: Final = 1_000_000
_MOST_MICROSECONDS: Final = 1e18
_NAME_CHARS: Final = 200
_MOST_OPERATIONS: Final = 2_000_000
_CAPS: Final = frozenset({1_000_000, 5_000_000})
"""Number of events that jaxlib's writer keeps: the first million, in newer versions the first five million."""

Line: TypeAlias = tuple[Any, Any]
"""A thread of the trace: process and thread."""


class Op(NamedTuple):
    """
    One execution of one operation.

    Attributes:
        start: beginning, in picoseconds.
        end: end, in picoseconds.
        name: its name.
        launch: identifier shared by the operations of one launch, or ``None`` if it is a launch by itself.
    """

    start: int
    end: int
    name: str
    launch: str | None = None

    @property
    def is_copy(self) -> bool:
        """Return True if it copies or fills memory."""
        return _COPY.fullmatch(self.name) is not None


@dataclass(slots=True)
class Operations:
    """
    The operations of a trace.

    Attributes:
        devices: for each device its lines, for each line its operations in file order.
        is_cut: whether the writer kept only the first events.
    """

    devices: dict[str, dict[Line, list[Op]]] = field(default_factory=dict)
    is_cut: bool = False


def operations(events: Iterable[Mapping[str, Any]]) -> Operations:
    """
    Extract the operations from the events of a trace, which may be in any order.

    Raises:
        TraceFileError: an event is malformed, or there are too many.
    """
    reader = _Reader()
    for event in events:
        reader.take(event)
    return reader.operations()


class _Reader:
    def __init__(self) -> None:
        self.processes: dict[Any, str] = {}
        self.threads: dict[Line, str] = {}
        self.on_lines: defaultdict[Line, list[Op]] = defaultdict(list)
        self.on_host: defaultdict[tuple[str, Line], list[Op]] = defaultdict(list)
        self.names: dict[str, str] = {}
        self.complete_count = 0
        self.op_count = 0

    def take(self, event: Mapping[str, Any]) -> None:
        kind = event.get("ph")
        if kind == "M":
            self._take_name(event)
        elif kind == "X":
            self.complete_count += 1
            self._take_complete(event)

    def _take_name(self, event: Mapping[str, Any]) -> None:
        arguments = event.get("args")
        name = arguments.get("name") if isinstance(arguments, Mapping) else None
        if event.get("name") == "process_name" and isinstance(name, str):
            self.processes[_key(event, "pid")] = name
        elif event.get("name") == "thread_name" and isinstance(name, str):
            self.threads[_key(event, "pid"), _key(event, "tid")] = name

    def _take_complete(self, event: Mapping[str, Any]) -> None:
        line = _key(event, "pid"), _key(event, "tid")
        found = event.get("args")
        arguments: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        if "hlo_op" in arguments and "run_id" in arguments and self._may_be_host(line):
            ordinal = str(arguments.get("device_ordinal", "0"))[:_NAME_CHARS]
            self._add(self.on_host[ordinal, line], event, str(arguments["run_id"])[:_NAME_CHARS])
        # In practice metadata of processes comes first, but the format does not require it.
        elif line[0] not in self.processes or _DEVICE.fullmatch(self.processes[line[0]]) is not None:
            if not _NO_OPERATION.isdisjoint(arguments):
                return
            # The kernels of a CUDA graph are started by one call, whose correlation id they share.
            in_graph = "cuda_graph_id" in arguments and "correlation_id" in arguments
            self._add(self.on_lines[line], event, str(arguments["correlation_id"])[:_NAME_CHARS] if in_graph else None)

    def _may_be_host(self, line: Line) -> bool:
        return _DEVICE.fullmatch(self.processes.get(line[0], "")) is None

    def _add(self, ops: list[Op], event: Mapping[str, Any], launch: str | None) -> None:
        self.op_count += 1
        if self.op_count > _MOST_OPERATIONS:
            msg = f"the trace has more than {_MOST_OPERATIONS:,} operations; trace a cell that does less"
            raise TraceFileError(msg)
        start, duration = _picoseconds(event, "ts"), _picoseconds(event, "dur")
        name = str(event.get("name", ""))[:_NAME_CHARS]
        ops.append(Op(start, start + max(0, duration), self.names.setdefault(name, name), launch))

    def operations(self) -> Operations:
        devices: defaultdict[str, dict[Line, list[Op]]] = defaultdict(dict)
        for line, ops in self.on_lines.items():
            found = _DEVICE.fullmatch(self.processes.get(line[0], ""))
            thread = self.threads.get(line, "")
            if found is not None and (thread.startswith("Stream #") if found[1] == "GPU" else thread == "XLA Ops"):
                devices[f"{found[1]} {int(found[2])}"][line] = ops
        if not devices:
            ordinals = {ordinal for ordinal, _ in self.on_host}
            for (ordinal, line), ops in self.on_host.items():
                name = "CPU" if ordinals == {"0"} else f"CPU {ordinal}"
                devices[name][line] = ops
        return Operations(devices=dict(devices), is_cut=self.complete_count in _CAPS)


def _key(event: Mapping[str, Any], name: str) -> Any:
    value = event.get(name, 0)
    return value if isinstance(value, int | str) else repr(value)


def _picoseconds(event: Mapping[str, Any], name: str) -> int:
    value = event.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST_MICROSECONDS:
        msg = f"an event has {name} {str(value)[:40]!r}; expected microseconds"
        raise TraceFileError(msg)
    return round(value * _PICOSECONDS)
