"""
The search for the smallest memory with which a lecture passes. Pure: it says which cap to try next.

A lecture that dies for another reason than its memory says nothing about the cap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.units import MIB, format_size

_MOST_TRIES: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """
    One run of the lecture.

    Attributes:
        cap_bytes: the cap, or ``None`` for a run without one.
        has_passed: whether the lecture ran to its end.
        verdict: how it ended ("completed", "died in code cell 3").
        peak_bytes: its peak footprint, or ``None``.
        report: file of its report.
    """

    cap_bytes: int | None
    has_passed: bool
    verdict: str
    peak_bytes: int | None = None
    report: str = ""


def try_of_run(run: Run, cap_bytes: int | None, report: str = "") -> Try:
    """Return what a run says about its cap."""
    peak = run.measured(Metric.PEAK_FOOTPRINT)
    number = run.evidence.cell_number if run.evidence is not None else None
    return Try(
        cap_bytes=cap_bytes,
        has_passed=run.outcome is Outcome.COMPLETED,
        verdict=f"{run.outcome.value}{f' in code cell {number}' if number is not None else ''}",
        peak_bytes=round(peak.value) if peak is not None else None,
        report=report,
    )


@dataclass(slots=True, kw_only=True)
class MemorySearch:
    """
    A bisection over the memory cap, with repeated runs at the edge.

    Attributes:
        least_bytes: smallest cap to try.
        most_bytes: largest cap to try first; doubled until one passes, at most twice.
        step_bytes: the edge is narrow enough at this width.
        runs: runs on each side of the edge.
        tries: the tries so far.
    """

    least_bytes: int
    most_bytes: int
    step_bytes: int
    runs: int = 3
    tries: list[Try] = field(default_factory=list)

    def note(self, done: Try) -> None:
        """Record a try."""
        self.tries.append(done)

    @property
    def passing_bytes(self) -> int | None:
        """Return the smallest cap with which every run passed, above every cap with which one failed."""
        failing = self.failing_bytes or 0
        return min((cap for cap in self._caps(passed=True) if cap > failing), default=None)

    @property
    def failing_bytes(self) -> int | None:
        """Return the largest cap with which a run failed."""
        return max(self._caps(passed=False), default=None)

    def _caps(self, *, passed: bool) -> set[int]:
        return {item.cap_bytes for item in self.tries if item.has_passed is passed and item.cap_bytes is not None}

    @property
    def contradictions(self) -> tuple[int, ...]:
        """Return the caps that passed although the same or a larger one failed."""
        failing = self.failing_bytes
        return tuple(sorted(cap for cap in self._caps(passed=True) if failing is not None and cap <= failing))

    @property
    def is_conclusive(self) -> bool:
        """Return True if an edge was found, or the smallest cap passed, and nothing contradicts it."""
        return self.passing_bytes is not None and not self.contradictions

    def next_cap(self) -> int | None:
        """Return the cap to try next, or ``None`` if the search has ended."""
        if len(self.tries) >= _MOST_TRIES:
            return None
        passing, failing = self.passing_bytes, self.failing_bytes
        if passing is None:
            highest = 4 * self.most_bytes
            first = max(self.most_bytes, self.least_bytes)
            following = first if failing is None else 2 * max(failing, first // 2)
            return following if following <= max(highest, first) else None
        if failing is None:
            return self.least_bytes if passing > self.least_bytes else self._repeat(passing)
        if passing - failing > self.step_bytes:
            middle = (passing + failing) // 2
            return max(middle - middle % MIB, failing + 1)
        return self._repeat(passing) or self._repeat(failing)

    def _repeat(self, cap: int) -> int | None:
        done = sum(item.cap_bytes == cap for item in self.tries)
        return cap if done < self.runs else None


def describe(search: MemorySearch, free: Try) -> Iterator[str]:
    """Return the result, one sentence each; the last one names the edge."""
    for cap in search.contradictions:
        yield f"contradiction: it passed with {format_size(cap)}, and failed with that or more: repeat it with --runs 5"
    passing, failing = search.passing_bytes, search.failing_bytes
    without = f", footprint without a cap {format_size(free.peak_bytes)}" if free.peak_bytes is not None else ""
    if passing is None:
        text = "none was tried" if failing is None else f"it dies with {format_size(failing)}"
        yield f"no cap passed: {text}{without}"
        return
    runs = sum(item.cap_bytes == passing for item in search.tries)
    dies = "no smaller cap was tried"
    if failing is not None:
        last = next(item for item in reversed(search.tries) if item.cap_bytes == failing and not item.has_passed)
        count = sum(item.cap_bytes == failing for item in search.tries)
        dies = f"dies with {format_size(failing)} ({last.verdict}, {count} run{'' if count == 1 else 's'})"
    yield f"runs with {format_size(passing)} ({runs} run{'' if runs == 1 else 's'}), {dies}{without}"
