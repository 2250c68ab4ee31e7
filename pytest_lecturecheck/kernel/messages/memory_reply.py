"""Check what the kernel and the reader of a record report of memory; only what has the right shape is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from pytest_lecturecheck.kernel.messages.agent_device_reply import clean_text
from pytest_lecturecheck.model.memory_profile import GrownType, LevelPart, MemoryLevels, PartKind, PeakLine, PeakProfile

_MOST_PARTS: Final = 20
_MOST_TYPES: Final = 8
_MOST_BYTES: Final = 2**62
_MOST_PROCESSES: Final = 100
_MOST_LINES: Final = 30
_KEPT_LINES: Final = 20
_LEAST_SHARE: Final = 1000
"""A line with less than a thousandth of the peak is not kept."""
_NAME_CHARS: Final = 80
_PLACE_CHARS: Final = 160
_SOURCE_CHARS: Final = 200
_T = TypeVar("_T")

CellPlace = Callable[[str, int], tuple[str, str, int | None]]
"""Returns place, source and line in the running cell of a line in the file of a cell."""


def clean_levels(payload: object) -> MemoryLevels:
    """Return the levels after a cell."""
    found = payload if isinstance(payload, Mapping) else {}
    return MemoryLevels(
        parts=tuple(_all(found.get("parts"), _MOST_PARTS, _part)),
        types=tuple(_all(found.get("types"), _MOST_TYPES, _type)),
        level_bytes=_count(found.get("level_bytes")),
        stayed_bytes=_whole(found.get("stayed_bytes")),
        allocated_bytes=_count(found.get("allocated_bytes")),
    )


def _all(items: object, most: int, clean: Callable[[Mapping[str, Any]], _T | None]) -> list[_T]:
    given = items[:most] if isinstance(items, list) else []
    found = (clean(item) for item in given if isinstance(item, dict))
    return [item for item in found if item is not None]


def _part(item: Mapping[str, Any]) -> LevelPart | None:
    size, kind = _count(item.get("size_bytes")), item.get("kind")
    if size is None or kind not in set(PartKind):
        return None
    return LevelPart(
        kind=PartKind(str(kind)),
        size_bytes=size,
        name=clean_text(item.get("name"), _NAME_CHARS),
        grown_bytes=_whole(item.get("grown_bytes")) or 0,
        type_name=clean_text(item.get("type_name"), _NAME_CHARS),
        is_estimated=item.get("is_estimated") is True,
    )


def _type(item: Mapping[str, Any]) -> GrownType | None:
    count, grown, name = _count(item.get("count")), _count(item.get("grown_count")), item.get("name")
    if count is None or grown is None:
        return None
    return GrownType(name=clean_text(name, _NAME_CHARS), count=count, grown_count=grown)


def merge_processes(payload: object, place: CellPlace) -> PeakProfile | None:
    """
    Merge what the reader found in the records of all processes of a cell.

    Args:
        payload: what the reader printed.
        place: finds the line of a cell's file in the lecture.

    Returns:
        The peaks of all processes together, or ``None`` if no record could be read.
    """
    processes = payload.get("processes") if isinstance(payload, dict) else None
    given = processes[:_MOST_PROCESSES] if isinstance(processes, list) else []
    peaks = [item for item in given if isinstance(item, dict) and _count(item.get("peak")) is not None]
    if not peaks:
        return None
    lines: dict[str, PeakLine] = {}
    for process in peaks:
        for line in _all(process.get("lines"), _MOST_LINES, lambda item: _line(item, place)):
            lines[line.place] = _joined(lines.get(line.place), line)
    total = sum(_count(item["peak"]) or 0 for item in peaks)
    large = (line for line in lines.values() if line.size_bytes * _LEAST_SHARE >= total)
    largest = sorted(large, key=lambda line: -line.size_bytes)[:_KEPT_LINES]
    return PeakProfile(peak_bytes=total, lines=tuple(largest), process_count=len(peaks))


def read_error(payload: object) -> str:
    """Return why the record of the kernel could not be read, or an empty string."""
    processes = payload.get("processes") if isinstance(payload, dict) else None
    first = processes[0] if isinstance(processes, list) and processes else None
    return clean_text(first.get("error"), _SOURCE_CHARS) if isinstance(first, dict) else ""


def _line(item: Mapping[str, Any], place: CellPlace) -> PeakLine | None:
    size, number = _count(item.get("size")), _count(item.get("line"))
    if not size or number is None:
        return None
    file, name = clean_text(item.get("file"), _PLACE_CHARS), clean_text(item.get("name"), _PLACE_CHARS)
    source, cell_line, caller = clean_text(item.get("source"), _SOURCE_CHARS), None, ""
    if item.get("is_cell") is True:
        shown, source, cell_line = place(file, number)
    else:
        shown = f"{file}:{number} in {name}" if number else f"{name} ({file})"
        caller = _caller(item.get("caller"), place)
    return PeakLine(
        place=shown,
        size_bytes=size,
        allocation_count=_count(item.get("count")) or 0,
        source=clean_text(source, _SOURCE_CHARS),
        inner=clean_text(item.get("inner"), _PLACE_CHARS),
        caller=caller,
        cell_line=cell_line,
    )


def _caller(pair: object, place: CellPlace) -> str:
    if not isinstance(pair, list) or len(pair) != 2:  # noqa: PLR2004 - file and line
        return ""
    number = _count(pair[1])
    return "" if number is None else place(clean_text(pair[0], _PLACE_CHARS), number)[0]


def _joined(one: PeakLine | None, other: PeakLine) -> PeakLine:
    if one is None:
        return other
    first = one if one.size_bytes >= other.size_bytes else other
    return PeakLine(
        place=first.place,
        size_bytes=one.size_bytes + other.size_bytes,
        allocation_count=one.allocation_count + other.allocation_count,
        source=first.source,
        inner=first.inner,
        caller=first.caller,
        cell_line=first.cell_line,
    )


def _whole(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) <= _MOST_BYTES else None


def _count(value: object) -> int | None:
    found = _whole(value)
    return found if found is not None and found >= 0 else None
