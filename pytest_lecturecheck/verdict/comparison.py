"""
Comparison of one metric with one limit.

Limits are inclusive. A measurement above its limit is ``over``, even a lower bound, because the true value is higher
still. A measurement whose upper end is at most the limit is ``within``. In between, the comparison is ``not measured``
and gives the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget, Tolerance
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable, Unit
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.units import format_fraction, format_si, format_size
from pytest_lecturecheck.verdict.values import Comparison, Policy, VerdictKind

_FAR_UNDER: Final = 2.0
_CROWDED_FACTOR: Final = 1.25
_IN_SIGHT_FRACTION: Final = 0.5
_SAME_PEAK_FRACTION: Final = 0.99
_WIDE_FRACTION: Final = 0.8


def compare_declared(run: Run, policy: Policy) -> Iterator[Comparison]:
    """Compare a run with the memory, the time and the disk space that a README declares."""
    declared = ((Metric.PEAK_FOOTPRINT, policy.declared_memory_bytes), (Metric.WALL, policy.declared_time_seconds))
    for metric, limit in declared:
        if limit is not None:
            yield _compare_one_declared(run, metric, limit)
    if policy.declared_disk_bytes is not None:
        yield _compare_declared_disk(run, policy.declared_disk_bytes)


def _compare_declared_disk(run: Run, limit: float) -> Comparison:
    """Compare all that was written, which is no less than what was on the disk at any moment."""
    metric = Metric.DISK_WRITTEN
    measured = run.measured(metric)
    written = _as_written(metric, limit)
    if measured is None:
        return _not_measured(run, metric, limit, f"declared {metric.format_value(limit)}{written}")
    upper = measured.upper_bound
    most = measured.value if upper is None else upper
    shown, shown_limit = metric.format_values_apart(most, limit)
    if most > limit:
        kind = VerdictKind.NOT_MEASURED
        message = (
            f"wrote {shown} to disk in all, declared {shown_limit}{written}: some of it may have been removed since"
        )
    else:
        kind = VerdictKind.FITS
        at_least = "at least " if upper is None else ""
        message = f"wrote {at_least}{shown} to disk, which fits the declared {shown_limit}{written}"
    return Comparison(metric=metric, kind=kind, limit=limit, measured=measured, message=message)


def _compare_one_declared(run: Run, metric: Metric, limit: float) -> Comparison:
    measured = _usable(run, metric)
    if measured is None:
        return _not_measured(run, metric, limit, f"declared {metric.format_value(limit)}{_as_written(metric, limit)}")
    cell = run.heaviest_cell(metric)
    shown, shown_limit = metric.format_values_apart(measured.value, limit)
    how = f"{metric.label}, {_method_text(measured)}{_where(metric, measured, cell)}"
    upper, written = measured.upper_bound, _as_written(metric, limit)
    if measured.value > limit:
        kind, verb = VerdictKind.NOT_FITTING, "needs" if metric.is_memory else "took"
        at_least = "" if upper == measured.value else "at least "
        message = f"{verb} {at_least}{shown} ({how}), declared {shown_limit}{written}"
    elif upper is not None and upper > limit:
        shown_upper, shown_limit = metric.format_values_apart(upper, limit)
        kind = VerdictKind.NOT_MEASURED
        bounds = f"between {shown} and {shown_upper} ({how})"
        message = f"{bounds}, declared {shown_limit}{written}: it may or may not fit"
    else:
        kind = VerdictKind.FITS
        at_least = "at least " if upper is None else ""
        message = f"{at_least}{shown} ({how}) fits the declared {shown_limit}{written}"
    message += _rss_aside(run, metric)
    return Comparison(metric=metric, kind=kind, limit=limit, measured=measured, message=message, cell=cell)


def _as_written(metric: Metric, limit: float) -> str:
    """Return a size that a person chose in the unit that it was most likely written in, if that is another one."""
    written = format_si(limit) if metric.unit is Unit.BYTES else ""
    return f" ({written})" if written else ""


def compare_budget(run: Run, budget: LectureBudget, policy: Policy) -> Iterator[Comparison]:
    """Compare a run with every limit of its budget that applies to this machine."""
    for metric_budget in budget.metrics.values():
        if metric_budget.limit is not None and is_comparable(run, budget, metric_budget):
            found = _compare_one(run, metric_budget, metric_budget.limit, policy.tolerance)
            yield _excuse(found, run, budget, policy.tolerance)


def _excuse(found: Comparison, run: Run, budget: LectureBudget, tolerance: Tolerance) -> Comparison:
    """Turn ``over`` into ``not measured`` for a wall time if the lecture lacked a core and used no more CPU time."""
    cpu, then = run.measured(Metric.CPU), budget.metrics.get(Metric.CPU)
    if found.kind is not VerdictKind.OVER or found.metric is not Metric.WALL or cpu is None or then is None:
        return found
    if (
        run.conditions.load_average is None
        or run.machine is None
        or not then.seen
        or budget.metrics[Metric.WALL].hand_set
    ):
        return found
    is_crowded = run.conditions.load_average > _CROWDED_FACTOR * run.machine.core_count
    if not is_crowded or cpu.value > tolerance.limit_for(Metric.CPU, then.seen):
        return found
    wall = found.measured.value if found.measured is not None else 0.0
    shown, shown_limit = Metric.WALL.format_values_apart(wall, found.limit or 0.0)
    message = (
        f"wall time {shown}, limit {shown_limit}: not compared, because other processes used the cores (load "
        f"average {run.conditions.load_average:.1f} on {run.machine.core_count} cores) and the lecture's own CPU time, "
        f"{Metric.CPU.format_value(cpu.value)}, is as recorded"
    )
    return replace(found, kind=VerdictKind.NOT_MEASURED, message=message)


def is_comparable(run: Run, budget: LectureBudget, metric_budget: MetricBudget) -> bool:
    """
    Return True if a limit applies to this run.

    Recorded times apply only to the same class of machine, and only to runs that did not share it.
    """
    if metric_budget.metric.unit is not Unit.SECONDS or metric_budget.hand_set:
        return True
    if run.concurrent_lectures:
        return False
    if run.machine is None or budget.machine is None:
        return False
    return run.machine.time_class == budget.machine.time_class


def _compare_one(run: Run, budget: MetricBudget, limit: float, tolerance: Tolerance) -> Comparison:
    metric = budget.metric
    measured = _usable(run, metric)
    if measured is None:
        return _not_measured(run, metric, limit, f"limit {metric.format_value(limit)}")
    if metric is Metric.GPU_USED and run.has_reservation:
        message = (
            f"{metric.label} {measured.text} is reserved by preallocation and says nothing about need, limit "
            f"{metric.format_value(limit)}; set XLA_PYTHON_CLIENT_PREALLOCATE=false, or limit {Metric.GPU_LIVE.label} "
            "instead"
        )
        return Comparison(metric=metric, kind=VerdictKind.NOT_MEASURED, limit=limit, measured=measured, message=message)
    cell = run.heaviest_cell(metric)
    if measured.value > limit:
        kind = VerdictKind.OVER
        message = _over_text(measured, budget, limit) + _where(metric, measured, cell) + _seen_text(budget)
    else:
        kind, message = _weigh(measured, budget, limit, tolerance)
    return Comparison(metric=metric, kind=kind, limit=limit, measured=measured, message=message, cell=cell)


def _usable(run: Run, metric: Metric) -> Measurement | None:
    """Return the measurement if it is finite: NaN compares as false with every limit."""
    measured = run.measured(metric)
    return measured if measured is not None and math.isfinite(measured.value) else None


def _not_measured(run: Run, metric: Metric, limit: float, limit_text: str) -> Comparison:
    reading = run.reading(metric)
    reason = reading.reason if isinstance(reading, Unavailable) else f"the value was {reading.value}"
    message = f"{metric.label} not measured ({reason}), {limit_text}"
    return Comparison(metric=metric, kind=VerdictKind.NOT_MEASURED, limit=limit, measured=None, message=message)


def _over_text(measured: Measurement, budget: MetricBudget, limit: float) -> str:
    metric = measured.metric
    shown, shown_limit = metric.format_values_apart(measured.value, limit)
    if budget.hand_set:
        shown_limit += _as_written(metric, limit)
    difference = measured.value - limit
    share = f" ({format_fraction(difference / limit)})" if limit else ""
    at_least = "at least " if measured.upper_bound is None else ""
    return f"{metric.label} {at_least}{shown}, limit {shown_limit}: {metric.format_value(difference)} over{share}"


def _weigh(measured: Measurement, budget: MetricBudget, limit: float, tolerance: Tolerance) -> tuple[VerdictKind, str]:
    """Return verdict and message for a value at or below its limit."""
    metric, upper = measured.metric, measured.upper_bound
    shown, shown_limit = metric.format_values_apart(measured.value, limit)
    if budget.hand_set:
        shown_limit += _as_written(metric, limit)
    is_weaker = upper is None and budget.method in {Method.EXACT, Method.BRACKET, Method.AGENT}
    # A helper process of milliseconds (a font cache, `!date`) makes a value a lower bound without changing it. If most
    # of the recorded value is missing, though, the memory may have moved to a process that is not observed.
    if is_weaker and measured.value < _IN_SIGHT_FRACTION * min(budget.seen, default=0.0):
        return VerdictKind.NOT_MEASURED, (
            f"{metric.label} at least {shown}, limit {shown_limit}: only a lower bound now "
            f"({measured.source or measured.method}), recorded as {budget.method}; "
            "record it again to compare like with like"
        )
    if upper is not None and upper > limit:
        shown_upper, shown_limit = metric.format_values_apart(upper, limit)
        return VerdictKind.NOT_MEASURED, (
            f"{metric.label} between {shown} and {shown_upper}, limit {shown_limit}: it may or may not be over"
        )
    highest = measured.value if upper is None else upper
    far_under = metric.is_memory and limit > _FAR_UNDER * tolerance.limit_for(metric, [highest])
    if far_under and (upper is not None or budget.method is Method.SAMPLED):
        cure = "lower the limit that was set by hand" if budget.hand_set else "record it again"
        if not highest:
            return VerdictKind.IMPROVED, f"{metric.label} {shown}, limit {shown_limit}: none was used; {cure}"
        return VerdictKind.IMPROVED, (
            f"{metric.label} {_wide_text(measured) or shown} is far under its limit {shown_limit}, "
            f"which is {_times(limit, highest)} too high: {cure}"
        )
    at_least = "at least " if upper is None else ""
    method = f" (a lower bound now, recorded as {budget.method})" if is_weaker else ""
    return VerdictKind.WITHIN, f"{metric.label} {_wide_text(measured) or at_least + shown}, limit {shown_limit}{method}"


def _wide_text(measured: Measurement) -> str:
    """Return both ends of a wide bracket, or an empty string for any other measurement."""
    upper = measured.upper_bound
    if upper is None or measured.value >= _WIDE_FRACTION * upper:
        return ""
    return f"between {measured.metric.format_value(measured.value)} and {measured.metric.format_value(upper)}"


def _times(limit: float, value: float) -> str:
    factor = limit / value
    return f"{factor:,.0f} times" if factor >= 10 else f"{factor:.2g} times"  # noqa: PLR2004 - two digits either way


def _where(metric: Metric, measured: Measurement, cell: CellRun | None) -> str:
    """Return the cell with the peak, or the cell with the largest part of a sum."""
    if cell is None:
        return ""
    line = f", line {cell.line}" if cell.line is not None else ""
    found = cell.measured(metric)
    if found is None or (metric.is_memory and found.value >= _SAME_PEAK_FRACTION * measured.value):
        return f", in code cell {cell.number}{line}"
    return f", most of it in code cell {cell.number}{line}: {metric.format_value(found.value)}"


def _method_text(measured: Measurement) -> str:
    return f"{measured.method}, a lower bound" if measured.upper_bound is None else str(measured.method)


def _seen_text(budget: MetricBudget) -> str:
    by_hand = "; limit set by hand" if budget.hand_set or not budget.seen else ""
    if not budget.seen:
        return by_hand
    lowest, highest = (budget.metric.format_value(pick(budget.seen)) for pick in (min, max))
    seen = highest if lowest == highest else f"{lowest} to {highest}"
    sampled = ", sampled" if budget.method is Method.SAMPLED else ""
    return f"; recorded: {seen} ({len(budget.seen)} run{'' if len(budget.seen) == 1 else 's'}{sampled}){by_hand}"


def _rss_aside(run: Run, metric: Metric) -> str:
    """Return the peak RSS if it differs from the footprint."""
    rss, footprint = run.measured(Metric.PEAK_RSS), run.measured(Metric.PEAK_FOOTPRINT)
    if metric is not Metric.PEAK_FOOTPRINT or rss is None or footprint is None:
        return ""
    same = format_size(rss.value) == format_size(footprint.value)
    at_least = "at least " if rss.method.is_lower_bound else ""
    return "" if same else f"; peak RSS of the kernel {at_least}{format_size(rss.value)}"
