"""
Where the keys of a stored record stand in the model.

Records on disk are flat and keep the keys of the first version; in the model, attributes that belong together are one
nested value. Each row maps a key to the attribute, or to the nested value and its attribute. The order of the rows is
the order of the keys in a record.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.verdict import ReportedValueComparison, Verdict

_EVIDENCE: Final = {
    "cell_number": "cell_number",
    "line": "line",
    "source": "source",
    "error": "error",
    "exit_code": "exit.exit_code",
    "signal": "exit.signal",
    "ready": "exit.ready",
    "stderr_tail": "exit.stderr_tail",
    "stderr_earlier_count": "exit.stderr_earlier_count",
    "crash_stack": "exit.crash_stack",
    "timeout_seconds": "timeout.limit_seconds",
    "timeout_kind": "timeout.kind",
    "stopped_by_interrupt": "timeout.stopped_by_interrupt",
    "wall_seconds": "usage.wall_seconds",
    "cpu_seconds": "usage.cpu_seconds",
    "major_faults_count": "usage.major_faults_count",
    "peak_footprint_bytes": "memory.peak_footprint_bytes",
    "last_footprint_bytes": "memory.last_footprint_bytes",
    "last_footprint_age_seconds": "memory.last_footprint_age_seconds",
    "available_memory_bytes": "memory.available_bytes",
    "limit_memory_bytes": "memory.limit_bytes",
    "limit_source": "memory.limit_source",
    "ulimit_bytes": "memory.ulimit_bytes",
    "ulimit_source": "memory.ulimit_source",
    "swap_bytes": "memory.swap_bytes",
    "swap_growth_bytes": "memory.swap_growth_bytes",
    "machine": "host.architecture",
    "cap_bytes": "conditions.cap_bytes",
    "cap_method": "conditions.cap_method",
    "stopped_at_cap": "memory.stopped_at_cap",
    "oom_kills": "memory.oom_kills",
    "kernel_log": "memory.kernel_log",
    "load_average": "conditions.load_average",
    "core_count": "host.core_count",
    "shadowing_files": "shadowing_files",
    "devices": "devices",
    "allocators": "allocators",
    "compilation": "usage.compilation",
    "stack": "timeout.stack",
    "children": "timeout.children",
    "session_kernel_count": "host.session_kernel_count",
    "environment": "conditions.environment",
    "lecture": "lecture",
    "scheduler": "conditions.scheduler",
    "ram_bytes": "memory.ram_bytes",
    "refuses_when_full": "memory.refuses_when_full",
    "commit_limit_bytes": "memory.commit_limit_bytes",
    "declared_memory_bytes": "memory.declared_bytes",
    "watchdog_stop": "memory.watchdog_stop",
    "factorisations": "factorisations",
    "live_buffers": "live_buffers",
    "is_program": "is_program",
    "no_answer": "exit.no_answer",
    "lost_supervisor": "exit.lost_supervisor",
    "wants_cpu": "timeout.wants_cpu",
}

_RUN: Final = {
    "lecture": "lecture",
    "platform": "platform",
    "outcome": "outcome",
    "variant": "variant",
    "reason": "reason",
    "cells": "cells",
    "readings": "readings",
    "findings": "findings",
    "evidence": "evidence",
    "kernel_name": "launch.kernel_name",
    "machine": "machine",
    "software": "software",
    "manifest": "manifest",
    "started": "launch.started",
    "startup_seconds": "launch.startup_seconds",
    "repeat": "repeat",
    "cap_bytes": "conditions.cap_bytes",
    "cap_method": "conditions.cap_method",
    "load_average": "conditions.load_average",
    "devices": "devices",
    "environment": "conditions.environment",
    "company": "concurrent_lectures",
    "timeline": "timeline",
    "is_profiled": "is_profiled",
    "captured_cell": "captured_cell",
    "until_cell": "until_cell",
    "launcher": "launch.launcher",
    "process_start": "launch.process_start",
    "queued_seconds": "launch.queued_seconds",
    "compile_cache": "launch.compile_cache",
    "scheduler": "conditions.scheduler",
    "members": "members",
    "first_cell_seconds": "first_cell_seconds",
    "passes": "passes",
    "fault_line": "fault_line",
}

RECORD_LAYOUTS: Final[Mapping[type, Mapping[str, tuple[str, ...]]]] = {
    cls: {key: tuple(path.split(".")) for key, path in rows.items()}
    for cls, rows in ((Evidence, _EVIDENCE), (Run, _RUN))
}
"""For each class that is stored flat: the path of attributes for each key of the record."""

RENAMED_ATTRIBUTES: Final[Mapping[type, Mapping[str, str]]] = {
    CellRun: {"reported_values": "figures"},
    Verdict: {"reported_values": "figures"},
    LectureBudget: {"reported_values": "figures"},
    ReportedValueComparison: {"reported": "figure"},
}
"""For each other class whose attributes have been renamed since: the keys by attribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKey:
    """
    One key of a record.

    Attributes:
        key: the key.
        attribute: the class that declares the attribute, and its name there.
        get: return the value from the object that is stored.
    """

    key: str
    attribute: tuple[type, str]
    get: Callable[[Any], Any]


@functools.cache
def record_keys(cls: Any) -> tuple[RecordKey, ...]:
    """Return the keys of a dataclass in the order of its record, those of nested values in their places."""
    renamed = renamed_keys(cls)
    names = (item.name for item in dataclasses.fields(cls))
    paths = RECORD_LAYOUTS.get(cls) or {renamed.get(name, name): (name,) for name in names}
    return tuple(
        RecordKey(key=key, attribute=(_owner(cls, path), path[-1]), get=operator.attrgetter(".".join(path)))
        for key, path in paths.items()
    )


def key_order(cls: Any) -> tuple[str, ...]:
    """Return the keys of a dataclass in the order of its record."""
    return tuple(item.key for item in record_keys(cls))


def nested_values(cls: Any) -> dict[str, list[str]]:
    """Return the keys that belong to each nested value of a dataclass, by the attribute that holds it."""
    groups: dict[str, list[str]] = {}
    for key, path in RECORD_LAYOUTS.get(cls, {}).items():
        if len(path) > 1:
            groups.setdefault(path[0], []).append(key)
    return groups


def renamed_keys(cls: Any) -> dict[str, str]:
    """Return the key of each attribute that is not named like its key."""
    return _renamed_by_layout().get(cls, {}) | dict(RENAMED_ATTRIBUTES.get(cls, {}))


@functools.cache
def _renamed_by_layout() -> dict[Any, dict[str, str]]:
    found: dict[Any, dict[str, str]] = {}
    for whole, layout in RECORD_LAYOUTS.items():
        for key, path in layout.items():
            if path[-1] != key:
                found.setdefault(_owner(whole, path), {})[path[-1]] = key
    return found


def _owner(cls: Any, path: Sequence[str]) -> Any:
    """Return the class that declares the last attribute of a path."""
    for name in path[:-1]:
        cls = _type_hints(cls)[name]
    return cls


# Resolving annotations takes a millisecond for a class with many attributes, and a layout asks for dozens of them.
_type_hints = functools.cache(typing.get_type_hints)
