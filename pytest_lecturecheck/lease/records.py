"""
Leases and queue entries as text: one JSON object each, without names of users, hosts or variables.

A queue entry's keys and file name (``place``, ``ticket-*.json``) are those of earlier versions, which share the ledger.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.lease.admission import Demand, DeviceNeed, Holding

SCHEMA: Final = 1
_LABEL_CHARS: Final = 120
_CUT: Final = "..."
_FAULTS: Final = (ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""What damaged text may raise: ``json`` accepts ``Infinity`` as a number, and recurses into nested brackets."""
UNREADABLE: Final = Holding(demand=Demand(label="(a lease that cannot be read)", is_exclusive=True))
"""Replaces a live lease that cannot be read: its demand is unknown, so nothing is admitted beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """
    A waiter's entry in the queue.

    Attributes:
        demand: what it waits for.
        position: position in the queue; lower ones came first.
        arrival: number of admissions in the ledger when the waiter arrived.
    """

    demand: Demand
    position: int
    arrival: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """
    One line of the journal.

    Attributes:
        number: number of the admission.
        lease: name of the lease.
        holding: what was admitted.
        beside: names of the leases held at that time.
    """

    number: int
    lease: str
    holding: Holding
    beside: tuple[str, ...] = ()


def render_holding(holding: Holding) -> str:
    """Render a lease as text."""
    return json.dumps({"schema": SCHEMA, **_holding_values(holding)})


def parse_holding(text: str) -> Holding:
    """Parse a lease; damaged text becomes :data:`UNREADABLE`."""
    try:
        return _holding_from(_load(text))
    except _FAULTS:
        return UNREADABLE


def render_queue_entry(entry: QueueEntry) -> str:
    """Render a queue entry as text."""
    values = {"place": entry.position, "arrival": entry.arrival, "demand": _demand_values(entry.demand)}
    return json.dumps({"schema": SCHEMA, **values})


def parse_queue_entry(text: str) -> QueueEntry | None:
    """Parse a queue entry; ``None`` for damaged text, whose waiter has no position."""
    try:
        values = _load(text)
        return QueueEntry(
            demand=_demand_from(values["demand"]), position=int(values["place"]), arrival=int(values["arrival"])
        )
    except _FAULTS:
        return None


def render_admission(admission: Admission) -> str:
    """Render a line of the journal, without the line end."""
    values = {"number": admission.number, "lease": admission.lease, "beside": admission.beside}
    return json.dumps({"schema": SCHEMA, **values, **_holding_values(admission.holding)})


def parse_admission(line: str) -> Admission | None:
    """Parse a line of the journal; ``None`` for a truncated one."""
    try:
        values = _load(line)
        return Admission(
            number=int(values["number"]),
            lease=str(values["lease"]),
            holding=_holding_from(values),
            beside=tuple(str(name) for name in values["beside"]),
        )
    except _FAULTS:
        return None


def _load(text: str) -> dict[str, Any]:
    values = json.loads(text)
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        msg = f"not a record of schema {SCHEMA}"
        raise ValueError(msg)
    return values


def _holding_values(holding: Holding) -> dict[str, Any]:
    return {"pid": holding.pid, "started": holding.started, "demand": _demand_values(holding.demand)}


def _holding_from(values: dict[str, Any]) -> Holding:
    return Holding(demand=_demand_from(values["demand"]), pid=int(values["pid"]), started=str(values["started"]))


def _demand_values(demand: Demand) -> dict[str, Any]:
    return {
        "label": demand.label,
        "host_bytes": demand.host_bytes,
        "devices": [{"index": need.index, "size_bytes": need.size_bytes} for need in demand.devices],
        "core_count": demand.core_count,
        "is_exclusive": demand.is_exclusive,
    }


def _demand_from(values: dict[str, Any]) -> Demand:
    return Demand(
        label=shown_label(str(values["label"])),
        host_bytes=int(values["host_bytes"]),
        devices=tuple(
            DeviceNeed(index=_optional(need["index"]), size_bytes=_optional(need["size_bytes"]))
            for need in values["devices"]
        ),
        core_count=int(values["core_count"]),
        is_exclusive=bool(values["is_exclusive"]),
    )


def shown_label(label: str) -> str:
    """
    Return the name of a lecture, of any session, in a form that is safe to show and store.

    A path outside its session's rootdir may contain names of a user's folders, so only its last part is kept.
    """
    if label.startswith(("/", "\\", "../", "..\\")) or label[1:2] == ":":
        label = re.split(r"[/\\]", label)[-1]
    label = "".join(character if character.isprintable() else "?" for character in label)
    if len(label) <= _LABEL_CHARS:
        return label
    kept = (_LABEL_CHARS - len(_CUT)) // 2
    return f"{label[:kept]}{_CUT}{label[-kept:]}"


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)
