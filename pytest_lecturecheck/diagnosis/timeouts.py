"""Time limits that were exceeded: whose limit, what the kernel was doing, and whether it stopped when asked."""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.wording import all_lines, place, stderr_lines
from pytest_lecturecheck.run import Evidence
from pytest_lecturecheck.units import format_duration

_COMPUTING_FRACTION: Final = 0.7
_WAITING_FRACTION: Final = 0.1
_PAGING_LEAST_COUNT: Final = 1000
_PAGING_PER_SECOND: Final = 100


def find_startup_timeout(evidence: Evidence) -> Cause | None:
    """Recognise a kernel that was alive but not ready in time."""
    if evidence.ready or evidence.timeout_seconds is None:
        return None
    limit = format_duration(evidence.timeout_seconds)
    if evidence.timeout_kind == "lecture":
        headline = f"lecture timed out after {limit}, before its kernel was ready"
    else:
        headline = f"kernel was not ready after {limit}"
    return Cause(
        kind=CauseKind.NEVER_READY,
        headline=headline,
        evidence=tuple(stderr_lines(evidence)),
        advice=("--lecture-startup-timeout gives it longer",) if evidence.timeout_kind != "lecture" else (),
    )


def find_timeout(evidence: Evidence) -> Cause | None:
    """Recognise a cell or a lecture that was over its time limit, split by what the kernel was doing."""
    if evidence.timeout_seconds is None:
        return None
    kind, doing = _doing(evidence)
    parts = [f"{_who(evidence)}: {doing}" if doing else _who(evidence)]
    if evidence.stopped_by_interrupt is not None:
        parts.append(
            "the kernel stopped when interrupted"
            if evidence.stopped_by_interrupt
            else "the kernel did not stop when interrupted and was killed"
        )
    return Cause(kind=kind, headline="; ".join(parts), evidence=all_lines(evidence))


def _who(evidence: Evidence) -> str:
    limit = format_duration(evidence.timeout_seconds or 0.0)
    if evidence.timeout_kind == "lecture" or evidence.cell_number is None:
        where = f", in {place(evidence)}" if evidence.cell_number is not None else ""
        return f"lecture timed out after {limit}{where}"
    line = f" (line {evidence.line})" if evidence.line is not None else ""
    return f"code cell {evidence.cell_number} timed out after {limit}{line}"


def _doing(evidence: Evidence) -> tuple[CauseKind, str]:
    """Split by major faults, then by CPU time against wall time; more than one core gives more than 100 %."""
    wall, cpu, faults = evidence.wall_seconds, evidence.cpu_seconds, evidence.major_faults_count
    if not wall or wall < 0:
        return CauseKind.TIMED_OUT, ""
    share = None if cpu is None else cpu / wall
    figures = "" if share is None else f" (CPU {share:.0%} of the time)".replace("%", " %")
    paging = faults is not None and faults >= max(_PAGING_LEAST_COUNT, _PAGING_PER_SECOND * wall)
    if paging and (share is None or share < _COMPUTING_FRACTION):
        return (
            CauseKind.TIMED_OUT_PAGING,
            f"it was waiting for memory pages to be read back, {faults:,} major faults{figures}",
        )
    if share is None:
        return CauseKind.TIMED_OUT, ""
    if share >= _COMPUTING_FRACTION:
        return CauseKind.TIMED_OUT_COMPUTING, f"it was computing{figures}"
    if share <= _WAITING_FRACTION:
        return CauseKind.TIMED_OUT_WAITING, f"it was waiting{figures}"
    return CauseKind.TIMED_OUT, f"it was computing for part of the time{figures}"
