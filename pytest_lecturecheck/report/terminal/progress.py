"""Render what pytest's terminal shows while it runs: header and live line. The caller prints them."""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.report.text import fit_end, fit_middle
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size

_MINUTE: Final = 60
_HOUR: Final = 3600
_LEAST_NAME: Final = 12
_PLACE_CHARS: Final = 32


def render_header(
    platform: str, machine: Machine | None, mode: str, budget_file: str | None, declared: str = ""
) -> list[str]:
    """
    Render the lines of pytest's header.

    Args:
        platform: platform label.
        machine: the machine, or ``None`` if it is unknown.
        mode: ``check`` or ``record``.
        budget_file: path of the budget file as the user knows it, or ``None`` if this platform has none.
        declared: the limits declared for all lectures, as text, or an empty string.
    """
    verb = "recording to" if mode == "record" else "comparing with"
    limits = [one_line(budget_file)] if budget_file is not None else []
    if declared and mode != "record":
        limits.append(f"the declared {one_line(declared)}")
    what = f"{verb} {' and '.join(limits)}" if limits else f"no budget file for {one_line(platform)}"
    lines = [f"lecturecheck: {what}"]
    text = one_line(machine.text) if machine is not None else "machine unknown"
    return [*lines, f"platform: {one_line(platform)}; {text}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProgress:
    """
    How far the lecture that is running has come.

    Attributes:
        name: the lecture.
        cell: 1-based number of the code cell that runs; 0 while the kernel starts.
        total: number of code cells.
        elapsed_seconds: since the item began.
        now_bytes: footprint at the last reading, or ``None`` before the first.
        peak_bytes: highest footprint so far, or ``None``.
        waits_for: what it waits for before it starts, or an empty string.
        is_ending: all of its cells have run.
        gpu_used_bytes: memory in use on the fullest GPU, or ``None``.
        gpu_free_bytes: memory that is left on it, or ``None``.
        warning: what cannot end well in the cell that is running, or an empty string.
        place: the line that a long cell is in ("line 41"), or an empty string.
    """

    name: str
    cell: int
    total: int
    elapsed_seconds: float
    now_bytes: float | None = None
    peak_bytes: float | None = None
    waits_for: str = ""
    is_ending: bool = False
    gpu_used_bytes: int | None = None
    gpu_free_bytes: int | None = None
    warning: str = ""
    place: str = ""

    @property
    def kernel_text(self) -> str:
        """Return what the kernel does while no cell runs."""
        return "kernel stops" if self.is_ending else "kernel starts"


def render_stop(progress: ShownProgress) -> str:
    """Render in one line how far a lecture was when the session was interrupted."""
    where = f"in code cell {progress.cell} of {progress.total}" if progress.cell else "while its kernel started"
    where = f"while it waited: {one_line(progress.waits_for)}" if progress.waits_for else where
    return f"interrupted: {one_line(progress.name)}, {where}, after {format_duration(progress.elapsed_seconds)}"


def render_live(progress: ShownProgress, *, width: int) -> str:
    """Render one line about the running lecture; it leaves the terminal's last column free."""
    if progress.warning:
        return fit_end(one_line(f"{progress.name}: {progress.warning}"), max(0, width - 1))
    where = (
        f"cell {progress.cell:>{len(str(progress.total))}}/{progress.total}" if progress.cell else progress.kernel_text
    )
    if progress.cell and progress.place:
        where += f" {one_line(progress.place, _PLACE_CHARS)}"
    if progress.waits_for:
        where = one_line(progress.waits_for)
    parts = [f"  {where}", f"  {_clock(progress.elapsed_seconds)}"]
    if progress.now_bytes is not None:
        parts.append(f"  now {format_size(progress.now_bytes):>8}")
    if progress.peak_bytes is not None:
        parts.append(f"  peak {format_size(progress.peak_bytes):>8}")
    room = max(0, width - 1)
    while len(parts) > 1 and len("".join(parts)) + _LEAST_NAME > room:
        parts.pop()
    tail = "".join(parts)[:room]
    return fit_middle(one_line(progress.name), room - len(tail)) + tail


def _clock(seconds: float) -> str:
    whole = max(0, int(seconds))
    hours, minutes = divmod(whole // _MINUTE, _HOUR // _MINUTE)
    if hours:
        return f"{hours}:{minutes:02d}:{whole % _MINUTE:02d}"
    return f"{minutes:2d}:{whole % _MINUTE:02d}"
