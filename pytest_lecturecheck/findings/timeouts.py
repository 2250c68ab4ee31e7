"""Propose timeouts from recorded times: the repository's default, single lectures, and the job that runs all. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.findings.measured import Measured
from pytest_lecturecheck.model.metric import Metric

_FACTOR: Final = 3.0
"""A cell that takes three times its longest time so far is stuck, or has changed."""
_LEAST_SECONDS: Final = 60
_USUAL_FRACTION: Final = 0.9
_JOB_FACTOR: Final = 1.5
_JOB_EXTRA_SECONDS: Final = 600.0
_JOB_STEP_MINUTES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedTimeouts:
    """
    Timeouts that recorded times suggest.

    Attributes:
        default_seconds: limit of one cell for the whole repository.
        own_seconds: limit of one cell for lectures that need more, by name.
        job_minutes: limit of a job that runs all lectures one after another, in the variants of their last session.
        lecture_count: number of lectures that were measured.
    """

    default_seconds: int
    own_seconds: Mapping[str, int] = field(default_factory=dict)
    job_minutes: int = 0
    lecture_count: int = 0


def propose_timeouts(measured: Measured) -> ProposedTimeouts | None:
    """
    Return timeouts for the lectures that ran to their end, or ``None`` where none did.

    The default covers nine of ten lectures with a factor of three; the others get a limit of their own.
    """
    longest: dict[str, float] = {}
    for group in measured.groups.values():
        for sample in group.complete:
            # A named cohort has several lectures.
            for run in sample.run.members or (sample.run,):
                cells = [found.value for cell in run.cells if (found := cell.measured(Metric.WALL))]
                longest[run.lecture] = max([longest.get(run.lecture, 0.0), *cells])
    if not longest:
        return None
    ordered = sorted(longest.values())
    usual = ordered[max(0, math.ceil(_USUAL_FRACTION * len(ordered)) - 1)]
    default = rounded_seconds(_FACTOR * usual)
    own = {name: rounded_seconds(_FACTOR * seconds) for name, seconds in sorted(longest.items())}
    minutes = (_JOB_FACTOR * _job_seconds(measured) + _JOB_EXTRA_SECONDS) / 60
    return ProposedTimeouts(
        default_seconds=default,
        own_seconds={name: seconds for name, seconds in own.items() if seconds > default},
        job_minutes=_JOB_STEP_MINUTES * math.ceil(minutes / _JOB_STEP_MINUTES),
        lecture_count=len(longest),
    )


def _job_seconds(measured: Measured) -> float:
    """Return the time of all lectures one after another, on the platform where they take longest."""
    numbers = {session.name: number for number, session in enumerate(measured.sessions)}
    items: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for key, group in measured.groups.items():
        if group.complete:
            last = max(numbers[sample.session] for sample in group.complete)
            seconds = max(sample.value(Metric.WALL) or 0.0 for sample in group.complete)
            items.setdefault((key.platform, key.lecture), []).append((last, seconds))
    by_platform: dict[str, float] = {}
    for (platform, _), found in items.items():
        # Variants of earlier sessions were perhaps tried once (--lecture-axes).
        newest = max(last for last, _ in found)
        total = sum(seconds for last, seconds in found if last == newest)
        by_platform[platform] = by_platform.get(platform, 0.0) + total
    return max(by_platform.values(), default=0.0)


def rounded_seconds(seconds: float) -> int:
    """Round up to whole minutes, from ten minutes on to five, from an hour on to ten; at least one minute."""
    step = 60 if seconds <= 600 else 300 if seconds <= 3600 else 600  # noqa: PLR2004 - as the docstring says
    return max(_LEAST_SECONDS, step * math.ceil(seconds / step))
