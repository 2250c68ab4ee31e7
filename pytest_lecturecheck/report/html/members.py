"""Build charts of concurrent kernels: the memory of each and their total, on one clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, TypeAlias

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.timeline import thin
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.html.packing import deltas, line_at, milliseconds, series_of
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size

_MOST_LINES: Final = 12
"""Most kernels with lines of their own; the others count in the total only."""
_COLOURS: Final = 6
"""Colours for kernels in the page's style; further kernels get dashed lines."""
_DASHES: Final = ((), (6, 3), (2, 3))
_LEAST_MOMENTS: Final = 50

_Steps: TypeAlias = list[tuple[float, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """
    One kernel of a chart.

    Attributes:
        number: its 1-based number in the cohort.
        run: its run.
        start_seconds: when its run began, on the chart's clock.
        steps: times on that clock, each with the memory held from then on.
    """

    number: int
    run: Run
    start_seconds: float
    steps: _Steps

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Sort key that puts first the kernels to draw: those that ended badly, then the largest."""
        return self.run.outcome is Outcome.COMPLETED, -max(size for _, size in self.steps), self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """The memory of each kernel from a moment on; ``None`` before its first and after its last sample."""

    seconds: float
    parts_bytes: tuple[int | None, ...]

    @property
    def sum_bytes(self) -> int:
        return sum(part or 0 for part in self.parts_bytes)


def cohort_charts(entry: Entry, most_points: int) -> list[dict[str, Any]]:
    """
    Return the charts of a cohort: memory, then one for each GPU with known memory per kernel.

    A kernel that reached no cell is left out, because its clock cannot be aligned with the others.
    """
    cap = [line_at("limit", "limit", entry.limit_bytes), line_at("cap", "cap", entry.run.conditions.cap_bytes)]
    charts = [_chart(entry, "Memory", _held, cap, most_points)]
    for use in entry.run.devices:
        name = f"Memory held on {one_line(use.device.label)}"
        size = [line_at("device memory", "cap", use.device.total_bytes)]
        held = partial(_held_on, device=(use.device.index, use.device.uuid))
        charts.append(_chart(entry, name, held, size, most_points // 2))
    return [chart for chart in charts if chart is not None]


def _held(run: Run) -> _Steps:
    return [(sample.seconds, sample.level_bytes) for sample in run.timeline]


def _held_on(run: Run, device: tuple[int, str]) -> _Steps:
    uses = [use for use in run.devices if (use.device.index, use.device.uuid) == device]
    samples = [sample for use in uses for sample in use.timeline]
    return [(sample.seconds, sample.run_bytes) for sample in samples if sample.run_bytes is not None]


def _chart(
    entry: Entry,
    name: str,
    steps_of: Callable[[Run], _Steps],
    lines: Sequence[dict[str, Any] | None],
    most_points: int,
) -> dict[str, Any] | None:
    kernels = _on_one_clock(entry.run, steps_of)
    by_rank = sorted(range(len(kernels)), key=lambda index: kernels[index].rank)
    shown = sorted(by_rank[:_MOST_LINES])
    # The chart has as many numbers as one of a single kernel, whatever the number of kernels.
    most = max(_LEAST_MOMENTS, 2 * most_points // (1 + len(shown)))
    moments = thin(_moments(kernels), most, lambda moment: moment.sum_bytes)
    if len(moments) < 2:  # noqa: PLR2004 - a line needs two points
        return None
    series = [series_of("total", "footprint", [moment.sum_bytes for moment in moments])]
    for position, index in enumerate(shown):
        kernel = kernels[index]
        values = [moment.parts_bytes[index] for moment in moments]
        line = series_of(_title(kernel, entry.run), f"kernel-{kernel.number}", values)
        series.append(line and {**line, "paint": f"kernel-{position % _COLOURS + 1}", "dash": _dash(position)})
    speaker = next((kernel for kernel in kernels if entry.run.cells and kernel.run is entry.run.speaker), None)
    return {
        "title": f"{name} over time, each kernel and total",
        "note": " ".join(_notes(len(kernels) - len(shown), speaker)),
        "summary": _summary(entry.run, name, moments),
        "time": deltas([milliseconds(moment.seconds) for moment in moments]),
        "series": [item for item in series if item is not None],
        "levels": [],
        "lines": [line for line in lines if line is not None],
        "start": speaker.start_seconds if speaker is not None else None,
        "stop": speaker.steps[-1][0] if speaker is not None else None,
    }


def _notes(left_out: int, speaker: _Kernel | None) -> Iterator[str]:
    if speaker is not None:
        yield f"The bands are the cells of kernel {speaker.number}."
    if left_out:
        yield f"{left_out} more kernels have no line of their own; they count in the total."


def _dash(position: int) -> list[int]:
    return list(_DASHES[position // _COLOURS % len(_DASHES)])


def _on_one_clock(run: Run, steps_of: Callable[[Run], _Steps]) -> list[_Kernel]:
    """Align the kernels on one clock by the starts of their first cells; it begins with the first sample."""
    found = []
    for number, member in enumerate(run.members, start=1):
        first = next((cell.started_seconds for cell in member.cells if cell.started_seconds is not None), None)
        steps = steps_of(member)
        if first is not None and member.first_cell_seconds is not None and steps:
            found.append((number, member, member.first_cell_seconds - first, steps))
    begin = min((start + steps[0][0] for _, _, start, steps in found), default=0.0)
    return [
        _Kernel(
            number=number,
            run=member,
            start_seconds=start - begin,
            steps=[(start - begin + at, size) for at, size in steps],
        )
        for number, member, start, steps in found
    ]


def _moments(kernels: Sequence[_Kernel]) -> list[_Moment]:
    """Return the memory of all kernels at every sample of any of them; each keeps its value between two samples."""
    events = sorted(
        ((at, index, size) for index, kernel in enumerate(kernels) for at, size in kernel.steps),
        key=lambda event: event[0],
    )
    ends = [kernel.steps[-1][0] for kernel in kernels]
    parts: list[int | None] = [None] * len(kernels)
    moments = []
    for at, group in groupby(events, key=lambda event: event[0]):
        parts = [None if end < at else part for end, part in zip(ends, parts, strict=True)]
        for _, index, size in group:
            parts[index] = size
        moments.append(_Moment(seconds=at, parts_bytes=tuple(parts)))
    return moments


def _title(kernel: _Kernel, run: Run) -> str:
    names = {member.lecture for member in run.members}
    what = f": {one_line(kernel.run.lecture)}" if len(names) > 1 else ""
    end = "" if kernel.run.outcome is Outcome.COMPLETED else f" ({kernel.run.outcome.value})"
    return f"kernel {kernel.number}{what}{end}"


def _summary(run: Run, name: str, moments: Sequence[_Moment]) -> str:
    highest = max(moments, key=lambda moment: moment.sum_bytes)
    return (
        f"{name} of the {len(run.members)} kernels of {one_line(run.title)} over "
        f"{format_duration(moments[-1].seconds)}; sampled, total at most {format_size(highest.sum_bytes)}, after "
        f"{format_duration(highest.seconds)}"
    )
