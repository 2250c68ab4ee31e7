"""
Compare a whole package with what its README declares.

A declared time is about all notebooks together, one after the other: their times add up. A declared memory is about one
machine that runs one notebook at a time: the highest peak counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Measurement, Metric, Unit
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.variant import title_of
from pytest_lecturecheck.units import format_declared_duration, format_declared_size, format_fraction
from pytest_lecturecheck.verdict.values import Verdict, VerdictKind

_DECLARED: Final = frozenset({VerdictKind.FITS, VerdictKind.NOT_FITTING})


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageComparison:
    """
    One declared limit and what all notebooks of a session needed.

    Attributes:
        metric: wall time or peak footprint.
        kind: ``fits``, ``not fitting`` or ``not measured``.
        value: the total time or the highest peak, or ``None`` if nothing was measured.
        limit: the declared limit (inclusive).
        message: one line for people.
    """

    metric: Metric
    kind: VerdictKind
    value: float | None
    limit: float
    message: str


def compare_package(results: Sequence[tuple[Run, Verdict]]) -> list[PackageComparison]:
    """
    Compare the notebooks of a session with each limit that was declared for all of them.

    Args:
        results: runs with their verdicts. Cohorts are left out, because a reader runs one notebook at a time. So are
            runs of earlier sessions, skipped notebooks, and those without code.

    Returns:
        Nothing for a single notebook, whose own verdict says it all, and for limits that differ between notebooks.
    """
    counted = [(run, verdict) for run, verdict in results if _counts(run, verdict)]
    if len({_subject(run) for run, _ in counted}) < 2:  # noqa: PLR2004 - one notebook is no sum
        return []
    return list(_comparisons(counted))


def _counts(run: Run, verdict: Verdict) -> bool:
    is_run = run.outcome not in {Outcome.SKIPPED, Outcome.NOTHING_TO_RUN}
    return is_run and not run.members and verdict.kind is not VerdictKind.FAILED_BEFORE


def _subject(run: Run) -> tuple[str, str]:
    return run.lecture, run.variant


def _comparisons(results: Sequence[tuple[Run, Verdict]]) -> Iterator[PackageComparison]:
    for metric in (Metric.PEAK_FOOTPRINT, Metric.WALL):
        items = (item for _, verdict in results for item in verdict.comparisons)
        limits = {item.limit for item in items if item.metric is metric and item.kind in _DECLARED}
        limit = limits.pop() if len(limits) == 1 else None
        if limit is not None:
            yield _compare(metric, limit, [run for run, _ in results])


def _compare(metric: Metric, limit: float, runs: Sequence[Run]) -> PackageComparison:
    highest: dict[tuple[str, str], Measurement] = {}
    incomplete = {_subject(run) for run in runs if run.outcome is not Outcome.COMPLETED}
    for run in runs:
        found, subject = run.measured(metric), _subject(run)
        if found is not None and (subject not in highest or _upper(found) > _upper(highest[subject])):
            highest[subject] = found
    unmeasured = {_subject(run) for run in runs} - highest.keys() - incomplete
    if not highest:
        message = f"{metric.label} was not measured, declared {_limit_text(metric, limit)}"
        return PackageComparison(metric=metric, kind=VerdictKind.NOT_MEASURED, value=None, limit=limit, message=message)
    if metric.unit is Unit.BYTES:
        subject = max(highest, key=lambda name: _upper(highest[name]))
        value, upper, shown = highest[subject].value, _upper(highest[subject]), highest[subject].text
        which, where = "highest", f"in {title_of(*subject)}"
    else:
        value = upper = sum(found.value for found in highest.values())
        shown, which, where = metric.format_value(value), "total", f"of {len(highest)} {_noun(runs)}s"
    if value > limit:
        shown = metric.format_values_apart(value, limit)[0]
    reasons = [(len(incomplete), "did not run to the end"), (len(unmeasured), "could not be measured")]
    gaps = [f"{count} {_noun(runs)}{'' if count == 1 else 's'} {what}" for count, what in reasons if count]
    kind, ending = _judged(metric, value, upper, limit=limit, gaps=gaps)
    message = f"{which} {metric.label} {shown} {where}{ending}"
    return PackageComparison(metric=metric, kind=kind, value=value, limit=limit, message=message)


def _noun(runs: Sequence[Run]) -> str:
    return "program" if all(run.is_program for run in runs) else "lecture"


def _upper(found: Measurement) -> float:
    return found.value if found.upper_bound is None else found.upper_bound


def _judged(
    metric: Metric, value: float, upper: float, *, limit: float, gaps: Sequence[str]
) -> tuple[VerdictKind, str]:
    """Return the verdict and the end of its message; notebooks that count in part make a lower bound of the value."""
    declared = _limit_text(metric, limit)
    if value > limit:
        over = f"{metric.format_value(value - limit)} over ({format_fraction((value - limit) / limit)})"
        return VerdictKind.NOT_FITTING, f", declared {declared}: {over}"
    if gaps:
        return VerdictKind.NOT_MEASURED, f", declared {declared}: unknown, because {' and '.join(gaps)}"
    if upper > limit:
        return VerdictKind.NOT_MEASURED, f", declared {declared}: its upper end is over the limit"
    return VerdictKind.FITS, f", declared {declared}"


def _limit_text(metric: Metric, limit: float) -> str:
    return format_declared_size(limit) if metric.unit is Unit.BYTES else format_declared_duration(limit)
