"""
Several failures of one lecture read together.

One failure shows where memory ran out. Several show whether memory was the reason: a cell that fails at the same peak
while the limit grows has met a limit inside a library, and cells that change from run to run point at fragmentation or
at other programs. Pure functions over kept runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis.cause import CauseKind
from pytest_lecturecheck.diagnosis.requests import parse_array_size, parse_request
from pytest_lecturecheck.diagnosis.rules import find_cause
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.units import MIB, format_size

JOINT_NOTE: Final = "over several runs: "
"""Begins the notes of a verdict that several runs say together."""
_SAME_PEAK_FRACTION: Final = 0.1
_SAME_SIZE_FRACTION: Final = 0.05
_GROWN_FACTOR: Final = 1.3
_NEAR_LIMIT_FRACTION: Final = 0.85
_SAME_LIMIT_FACTOR: Final = 1.1
_LEAST_SCATTERED: Final = 3
_LEAST_REQUEST_BYTES: Final = 256 * MIB
_MEMORY_CAUSES: Final = frozenset(
    {
        CauseKind.REQUEST_REFUSED,
        CauseKind.MEMORY_EXHAUSTED,
        CauseKind.LIBRARY_LIMIT,
        CauseKind.HOST_OUT_OF_MEMORY,
        CauseKind.DEVICE_OUT_OF_MEMORY,
        CauseKind.FRAGMENTED_POOL,
        CauseKind.LIBRARY_OUT_OF_MEMORY,
        CauseKind.OOM_KILLED,
        CauseKind.STOPPED_AT_CAP,
        CauseKind.NATIVE_OUT_OF_MEMORY,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """One failure of memory: its cell, the peak in it, and the limit that was in force."""

    run: Run
    cell: int
    peak_bytes: int
    limit_bytes: int


def read_together(runs: Sequence[Run]) -> tuple[str, ...]:
    """
    Return what several runs of one lecture say together, one sentence each; empty where they say nothing.

    Args:
        runs: runs of one lecture and variant, in the order in which they were made; of any platform.
    """
    failures = [failure for run in runs if (failure := _failure(run)) is not None]
    found = [*_internal_limit(failures), *_scattered(failures)]
    return (*found, *_requests_met_elsewhere(runs))


def _failure(run: Run) -> _Failure | None:
    evidence = run.evidence
    if evidence is None or evidence.cell_number is None or find_cause(evidence).kind not in _MEMORY_CAUSES:
        return None
    peak, limit = evidence.memory.peak_footprint_bytes, _limit_bytes(evidence)
    if peak is None or limit is None:
        return None
    return _Failure(run=run, cell=evidence.cell_number, peak_bytes=peak, limit_bytes=limit)


def _limit_bytes(evidence: Evidence) -> int | None:
    known = [evidence.conditions.cap_bytes, evidence.memory.limit_bytes]
    return min((size for size in known if size is not None), default=None)


def _internal_limit(failures: Sequence[_Failure]) -> Iterator[str]:
    if not failures:
        return
    last = failures[-1]
    alike = [item for item in failures if item.cell == last.cell]
    # Earlier runs may be of another state of the lecture: those at the last one's peak are enough.
    same = [item for item in alike if _is_same_peak(item.peak_bytes, last.peak_bytes)]
    highest = max(item.peak_bytes for item in same)
    if (grew := _growth(same)) and highest < _NEAR_LIMIT_FRACTION * max(item.limit_bytes for item in same):
        yield (
            f"{len(same)} runs failed{_where(last)} at the same peak of about {format_size(highest)}, "
            f"{grew}: an internal limit or one request that is too large, not want of memory; "
            "a larger machine does not help"
        )
    elif (grew := _growth(alike)) and all(_is_at_limit(item) for item in alike):
        yield (
            f"{len(alike)} runs failed{_where(last)}, each at its limit, {grew}: "
            f"{'it' if last.run.is_program else 'the cell'} needs more than "
            f"{format_size(max(item.limit_bytes for item in alike))}"
        )


def _is_same_peak(first: int, second: int) -> bool:
    return abs(first - second) <= _SAME_PEAK_FRACTION * max(first, second)


def _is_at_limit(failure: _Failure) -> bool:
    return failure.peak_bytes >= _NEAR_LIMIT_FRACTION * failure.limit_bytes


def _growth(failures: Sequence[_Failure]) -> str:
    """Return by how much the limit grew from failure to failure, or an empty string if it did not grow enough."""
    limits = sorted(item.limit_bytes for item in failures)
    if limits[-1] < _GROWN_FACTOR * limits[0]:
        return ""
    return f"while the limit grew from {format_size(limits[0])} to {format_size(limits[-1])}"


def _where(failure: _Failure) -> str:
    return "" if failure.run.is_program else f" in code cell {failure.cell}"


def _scattered(failures: Sequence[_Failure]) -> Iterator[str]:
    if not failures:
        return
    limit = failures[-1].limit_bytes
    alike = [
        item
        for item in failures
        if max(item.limit_bytes, limit) <= _SAME_LIMIT_FACTOR * min(item.limit_bytes, limit)
        and item.run.platform == failures[-1].run.platform
    ]
    cells = [item.cell for item in alike]
    if len(alike) >= _LEAST_SCATTERED and len(set(cells)) == len(cells):
        numbers = ", ".join(map(str, cells))
        yield (
            f"{len(alike)} runs under the same limit failed in different code cells ({numbers}): fragmentation, "
            "or other programs that took memory, rather than the need of one cell"
        )


def _requests_met_elsewhere(runs: Sequence[Run]) -> Iterator[str]:
    said = set()
    for run in runs:
        asked, evidence = _asked_bytes(run.evidence), run.evidence
        if asked is None or evidence is None or evidence.cell_number is None or asked < _LEAST_REQUEST_BYTES:
            continue
        for other in runs:
            size = _need_bytes(other, evidence.cell_number)
            key = (run.platform, other.platform)
            if size is None or key in said or not _is_elsewhere(run, other):
                continue
            where = "" if run.is_program else f" in code cell {evidence.cell_number}"
            which = "it" if run.is_program else "that cell"
            if abs(size - asked) <= _SAME_SIZE_FRACTION * max(size, asked):
                said.add(key)
                yield (
                    f"the request of {format_size(asked)}{where} on {run.platform} is "
                    f"what {which} took on {other.platform} ({format_size(size)}): "
                    "both do the same, and one is refused it"
                )


def _is_elsewhere(run: Run, other: Run) -> bool:
    return run.platform != other.platform or (
        run.machine is not None and other.machine is not None and run.machine.system != other.machine.system
    )


def _asked_bytes(evidence: Evidence | None) -> int | None:
    if evidence is None or evidence.error is None:
        return None
    request = parse_request(evidence.error.name, evidence.error.value)
    return request.size_bytes if request is not None else parse_array_size(evidence.error.value)


def _need_bytes(run: Run, number: int) -> int | None:
    """Return the most that a cell took by itself in a run in which it ended well."""
    cell = next((cell for cell in run.cells if cell.number == number and cell.error is None), None)
    if cell is None or cell.measured(Metric.PEAK_FOOTPRINT) is None:
        return None
    return cell.raised_bytes
