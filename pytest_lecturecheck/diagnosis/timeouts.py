"""Time limits that were exceeded: whose limit, what the kernel was doing, and whether it stopped when asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.compiling import compiling_advice, find_compiling
from pytest_lecturecheck.diagnosis.oom_kills import other_kill_text
from pytest_lecturecheck.diagnosis.wording import all_lines, frame_lines, place, stderr_lines
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size

_COMPUTING_FRACTION: Final = 0.7
_WAITING_FRACTION: Final = 0.1
_BUSY_LOAD_FRACTION: Final = 1.25
_FAIR_SHARE_FRACTION: Final = 0.5
_CATCHES_INTERRUPT: Final = re.compile(
    r"^\s*except\s*(?::|\(?[^:#\n]*\b(?:BaseException|KeyboardInterrupt)\b)", re.MULTILINE
)
_PAGING_LEAST_COUNT: Final = 1000
_PAGING_PER_SECOND: Final = 100
_SWAP_GROWTH_BYTES: Final = 128 * 1024**2


def find_startup_timeout(evidence: Evidence) -> Cause | None:
    """Recognise a kernel that was alive but not ready in time."""
    if evidence.exit.ready or evidence.timeout.limit_seconds is None:
        return None
    limit = format_duration(evidence.timeout.limit_seconds)
    if evidence.timeout.kind == "lecture":
        headline = f"lecture timed out after {limit}, before its kernel was ready"
    else:
        headline = f"kernel was not ready after {limit}"
    return Cause(
        kind=CauseKind.NEVER_READY,
        headline=headline,
        evidence=tuple(stderr_lines(evidence)),
        advice=("--lecture-startup-timeout raises this limit",) if evidence.timeout.kind != "lecture" else (),
    )


def find_timeout(evidence: Evidence) -> Cause | None:
    """Recognise a cell or a lecture that was over its time limit, split by what the kernel was doing."""
    if evidence.timeout.limit_seconds is None:
        return None
    kind, doing = _doing(evidence)
    if kind is CauseKind.TIMED_OUT_COMPUTING and evidence.timeout.stopped_by_interrupt is False:
        kind = CauseKind.TIMED_OUT_UNINTERRUPTIBLE
    parts = [f"{_who(evidence)}: {doing}" if doing else _who(evidence)]
    if evidence.timeout.stopped_by_interrupt is not None:
        parts.append(
            "the kernel stopped when interrupted"
            if evidence.timeout.stopped_by_interrupt
            else "the kernel did not stop when interrupted and was killed"
        )
    if kill := other_kill_text(evidence):
        parts.append(kill)
    advice = tuple(_advice(kind, evidence))
    children = (f"child process that was still running: {one_line(child)}" for child in evidence.timeout.children)
    lines = (*frame_lines(evidence.timeout.stack), *children, *all_lines(evidence))
    return Cause(kind=kind, headline="; ".join(parts), evidence=lines, advice=advice)


def _advice(kind: CauseKind, evidence: Evidence) -> Iterator[str]:
    if evidence.timeout.stopped_by_interrupt is False and _CATCHES_INTERRUPT.search(evidence.source):
        yield "the cell catches the interrupt: write `except Exception:` instead of a bare `except:`"
    elif kind is CauseKind.TIMED_OUT_UNINTERRUPTIBLE:
        yield "most likely one long call of native code, which does not check for interrupts until it returns"
    if kind is CauseKind.TIMED_OUT_COMPILING and (compiling := find_compiling(evidence)) is not None:
        yield from compiling_advice(evidence, compiling)
    if kind is CauseKind.TIMED_OUT_STARVED:
        yield "run fewer lectures at once, or give them longer with --lecture-timeout S"
    if kind is CauseKind.TIMED_OUT_PAGING:
        yield "the machine is short of memory: have the cell need less, or run fewer lectures at once"
    if kind is CauseKind.TIMED_OUT_WAITING and other_kill_text(evidence):
        yield "multiprocessing.Pool waits forever for a worker that was killed"
    if kind is CauseKind.TIMED_OUT_COMPUTING:
        name = "total-timeout" if evidence.timeout.kind == "lecture" else "timeout"
        option = "--timeout TIME" if evidence.is_program else f"{name} in its front matter, or --lecture-{name} TIME"
        yield f"if it needs longer than this, raise the limit: {option}"


def _who(evidence: Evidence) -> str:
    limit = format_duration(evidence.timeout.limit_seconds or 0.0)
    if evidence.timeout.kind == "lecture" or evidence.cell_number is None:
        where = f", in {place(evidence)}" if evidence.cell_number is not None else ""
        return f"lecture timed out after {limit}{where}"
    line = f" (line {evidence.line})" if evidence.line is not None else ""
    return f"code cell {evidence.cell_number} timed out after {limit}{line}"


def _doing(evidence: Evidence) -> tuple[CauseKind, str]:
    """Split by memory pages, then by what the compiler took, then by CPU time against wall time."""
    wall, cpu = evidence.usage.wall_seconds, evidence.usage.cpu_seconds
    is_timed = wall is not None and wall > 0
    # More than one core gives more than 100 %.
    share = cpu / wall if is_timed and wall and cpu is not None else None
    cpu_text = "" if share is None else f" (CPU {share:.0%} of the time)".replace("%", " %")
    if is_timed and (pages := _paging_text(evidence)) and (share is None or share < _COMPUTING_FRACTION):
        return CauseKind.TIMED_OUT_PAGING, f"{pages}{cpu_text}"
    compiling = find_compiling(evidence)
    if compiling is not None and compiling.is_cause:
        return CauseKind.TIMED_OUT_COMPILING, f"{compiling.text}{cpu_text}"
    kind, text = _by_share(evidence, share) if share is not None else (CauseKind.TIMED_OUT, "")
    also = compiling.text if compiling is not None else ""
    if text:
        return kind, f"{text}{cpu_text}{f', {also}' if also else ''}"
    return kind, f"it was {also}" if also else ""


def _paging_text(evidence: Evidence) -> str:
    """Return the signs that the cell was short of memory (pages read back, swap that grew), or an empty string."""
    faults, growth, wall = (
        evidence.usage.major_faults_count,
        evidence.memory.swap_growth_bytes,
        evidence.usage.wall_seconds or 0.0,
    )
    signs = []
    if faults is not None and faults >= max(_PAGING_LEAST_COUNT, _PAGING_PER_SECOND * wall):
        signs.append(f"{faults:,} major faults")
    if growth is not None and growth >= _SWAP_GROWTH_BYTES:
        signs.append(f"swap grew by {format_size(growth)}")
    if not signs:
        return ""
    what = "to be read back" if "faults" in signs[0] else "to be swapped"
    return f"it was waiting for memory pages {what}, {', '.join(signs)}"


def _by_share(evidence: Evidence, share: float) -> tuple[CauseKind, str]:
    if share >= _COMPUTING_FRACTION:
        return CauseKind.TIMED_OUT_COMPUTING, "it was computing"
    if load := _starving_load(evidence, share):
        return CauseKind.TIMED_OUT_STARVED, f"it was probably starved of CPU, {load}"
    if share <= _WAITING_FRACTION:
        return CauseKind.TIMED_OUT_WAITING, "it was waiting"
    if evidence.timeout.wants_cpu is False:
        return CauseKind.TIMED_OUT_WAITING, "it was waiting, while other threads of the lecture computed"
    return CauseKind.TIMED_OUT, "it was computing for part of the time"


def _starving_load(evidence: Evidence, share: float) -> str:
    """
    Return the load if other processes had the cores, or an empty string.

    A process that computes on a machine with more takers than cores gets cores / takers of the time; what got much less
    than that did not ask for more.
    """
    if evidence.timeout.wants_cpu is False:
        # A busy thread of the lecture's own has used the CPU, and the cell asked for none.
        return ""
    load, cores = evidence.conditions.load_average, evidence.host.core_count
    if load is None or not cores or not load > _BUSY_LOAD_FRACTION * cores:
        return ""
    if share < _FAIR_SHARE_FRACTION * cores / load:
        return ""
    return f"load average {load:.1f} on {cores} core{'' if cores == 1 else 's'}"
