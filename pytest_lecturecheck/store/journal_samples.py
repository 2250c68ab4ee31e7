"""Samples of a long cell as lines of the journal, so that a session that was killed leaves its marks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, Protocol

from pytest_lecturecheck.model.cell_marks import CellMarks, CodePlace, LineSample, LoopState
from pytest_lecturecheck.model.mark_log import MarkLog

MARK: Final = "mark"
_TEXT_CHARS: Final = 300
_LOOP_PARTS: Final = 3
_MOST: Final = float(1 << 60)
_TEXTS: Final = ("place", "function", "source", "called", "caller")


class _Lines(Protocol):
    def write(self, event: str, **facts: Any) -> None:
        """Add a line."""


def write_sample(journal: _Lines, sample: LineSample, interval_seconds: float, *, has_place: bool) -> None:
    """Write a sample; its place only if it is not that of the sample before."""
    place, loop = sample.place, sample.loop
    facts: dict[str, Any] = {"at": sample.seconds, "every": interval_seconds, "footprint": sample.footprint_bytes}
    if loop is not None:
        facts["loop"] = [loop.name, loop.value, loop.stop]
    if has_place:
        facts["place"] = {item.name: value for item in fields(place) if (value := getattr(place, item.name))}
    journal.write(MARK, **facts)


class SampleReader:
    """
    Reads the samples of one cell from the lines of a journal, which may be damaged.

    Args:
        cell_time: time of the line that the cell began with, seconds since the epoch.

    Attributes:
        cell_started_seconds: start of the cell in the time of the samples, or ``None`` without samples.
    """

    def __init__(self, cell_time: float = 0.0) -> None:
        self._cell_time = cell_time
        self._log: MarkLog | None = None
        self._place = CodePlace()
        self.cell_started_seconds: float | None = None

    def add(self, line: Mapping[str, Any]) -> None:
        """Add the sample of a line; a line that is none is skipped."""
        seconds, interval = _number(line.get("at")), _number(line.get("every"))
        if seconds is None or interval is None:
            return
        if self._log is None:
            self._log = MarkLog(interval)
            elapsed = max(0.0, float(line["time"]) - self._cell_time)
            self.cell_started_seconds = max(0.0, seconds - elapsed)
        if isinstance(found := line.get("place"), dict):
            self._place = _place(found)
        footprint = _number(line.get("footprint"))
        sample = LineSample(
            seconds=seconds,
            place=self._place,
            footprint_bytes=None if footprint is None else round(footprint),
            loop=_loop(line.get("loop")),
        )
        self._log.add(sample)

    def marks(self) -> CellMarks | None:
        """Return the marks, or ``None`` without samples."""
        return self._log.finish() if self._log is not None else None


def _place(found: Mapping[str, Any]) -> CodePlace:
    texts = {name: found[name][:_TEXT_CHARS] for name in _TEXTS if isinstance(found.get(name), str)}
    numbers = {name: _number(found.get(name)) for name in ("cell_number", "file_line")}
    return CodePlace(**texts, **{name: round(value) for name, value in numbers.items() if value is not None})  # type: ignore[arg-type]


def _loop(found: object) -> LoopState | None:
    if not isinstance(found, list) or len(found) != _LOOP_PARTS or not isinstance(found[0], str):
        return None
    value, stop = (_number(part, least=-_MOST) for part in found[1:])
    if value is None:
        return None
    return LoopState(name=found[0][:_TEXT_CHARS], value=round(value), stop=None if stop is None else round(stop))


def _number(value: object, least: float = 0.0) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) and least <= value < _MOST else None
