"""Render traces of cells as text: one line for each device of a traced cell, with its longest operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.profile import Bound, DeviceProfile, ProfiledOp, ProfileSummary
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.safe_text import cut_line, one_line
from pytest_lecturecheck.units import format_duration

_NAME_CHARS: Final = 48
_MESSAGE_CHARS: Final = 1000
_SHORT_SECONDS: Final = 0.1
_COMPILING_FRACTION: Final = 0.1
_MICRO: Final = 1e-6
_MILLI: Final = 1e-3
_SMALL: Final = 10
_BOUNDS: Final = {
    Bound.LAUNCH: "probably launch bound",
    Bound.COMPUTE: "compute bound",
    Bound.HOST: "probably host bound",
    Bound.MIXED: "neither launch bound nor compute bound",
}


def profile_groups(entries: Iterable[Entry]) -> list[tuple[str, list[str]]]:
    """Return the lines of each traced cell with the cell's location."""
    return [
        (one_line(text, _MESSAGE_CHARS), [_location(entry, cell)])
        for entry in entries
        for cell in entry.run.cells
        if cell.profile is not None
        for text in profile_lines(cell, cell.profile)
    ]


def _location(entry: Entry, cell: CellRun) -> str:
    line = "" if cell.line is None else f", line {cell.line}"
    return f"{entry.name}: code cell {cell.number}{line}"


def profile_lines(cell: CellRun, profile: ProfileSummary) -> Iterator[str]:
    """Yield one line for each device of a traced cell."""
    ending = f"; trace: {profile.trace}" if profile.trace else ""
    if profile.is_cut:
        ending = f"; the trace is incomplete, because its writer keeps a limited number of events{ending}"
    if not profile.devices:
        seconds = "" if profile.cell_seconds is None else f" in {_short(profile.cell_seconds)}"
        yield f"no operation of JAX ran on any device{seconds}{ending}"
    for position, device in enumerate(profile.devices):
        last = ending if position == len(profile.devices) - 1 else ""
        yield f"{device_text(device)}{_beside(cell, profile, device)}; {_ops_text(device.top_ops)}{last}"


def device_text(device: DeviceProfile) -> str:
    """Describe what a device did (``GPU 0 probably launch bound: 61,000 launches/s of median 4 us, ...``)."""
    unit = ("execution" if device.is_cpu else "launch", "executions" if device.is_cpu else "launches")
    rate = device.launches_per_second
    launches = f"{device.launch_count:,} {unit[device.launch_count != 1]}"
    if rate is not None and rate >= _SMALL:
        launches = f"{_round(rate):,} {unit[1]}/s"
    copies = f", {device.copy_count:,} of them copies" if device.copy_count else ""
    return (
        f"{device.device} {_BOUNDS[device.bound]}: {launches}, "
        f"operations of median {_short(device.median_op_seconds)}, "
        f"device busy {device.busy_fraction * 100:.0f} % of {_short(device.span_seconds)} "
        f"(kernels {_short(device.kernel_seconds)}, gaps {_short(device.gap_seconds)}; "
        f"{device.op_count:,} operation{'' if device.op_count == 1 else 's'}{copies})"
    )


def _beside(cell: CellRun, profile: ProfileSummary, device: DeviceProfile) -> str:
    """Describe the rest of the cell's time: the whole cell and its compilation."""
    whole, parts = profile.cell_seconds, []
    if whole is not None and device.span_seconds < (1 - _COMPILING_FRACTION) * whole:
        parts.append(f"the whole cell took {_short(whole)}")
    compiling = cell.compilation.seconds if cell.compilation is not None else 0.0
    if whole is not None and compiling > _COMPILING_FRACTION * whole:
        parts.append(f"compiling took {_short(compiling)}")
    return "".join(f"; {part}" for part in parts)


def _ops_text(ops: Sequence[ProfiledOp]) -> str:
    shown = [f"{cut_line(one_line(op.name), _NAME_CHARS)} {_short(op.seconds)} in {op.count:,}" for op in ops]
    return f"most time in {', '.join(shown)}"


def _round(rate: float) -> int:
    """Round a rate to two digits: traces of the same cell agree no better."""
    text = f"{rate:.2g}"
    return int(float(text))


def _short(seconds: float) -> str:
    """Format a duration that may be much shorter than a second (``4.1 us``, ``18 ms``)."""
    if seconds >= _SHORT_SECONDS or seconds == 0:
        return format_duration(seconds)
    scale, unit = (_MILLI, "ms") if seconds >= _MILLI else (_MICRO, "us")
    value = seconds / scale
    return f"{value:.0f} {unit}" if value >= _SMALL else f"{value:.2g} {unit}"
