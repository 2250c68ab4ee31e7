"""Render an item's measurements as properties of its JUnit test case. Names are stable: programs read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.model.cohort_record import start_skew_seconds
from pytest_lecturecheck.model.metric import Metric, Reading, Unavailable, Unit
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.safe_text import one_line

_PREFIX: Final = "lecturecheck"
_OF_KERNELS: Final = (Metric.PEAK_FOOTPRINT, Metric.GPU_USED, Metric.GPU_LIVE, Metric.WALL)


def properties(entry: Entry, attempt: int = 1) -> list[tuple[str, str]]:
    """
    Return names and values for one test case; every value is valid XML text, whatever the lecture contains.

    ``lecturecheck.<metric>`` is the value in the unit that the metric's name states, ``.method`` how it was measured,
    ``.high`` the upper end of a bracket, ``.limit`` its limit, ``.unavailable`` why there is no value.
    ``lecturecheck.kernels`` is the number of kernels of a cohort, ``lecturecheck.start_skew_seconds`` the time between
    the first and the last start, ``lecturecheck.kernel.<number>.outcome`` how a kernel ended, ``.<metric>`` its value.
    ``lecturecheck.figure.<name>`` is a value that the lecture reported, with ``.unit``, ``.at_least`` and ``.limit``.
    ``lecturecheck.relation.<number>`` is a relation of the budget, with ``.verdict`` and ``.compared``.

    Args:
        entry: the run with its verdict.
        attempt: how often the item has run; more than 1 if another plugin ran it again (``lecturecheck.attempt``).
    """
    pairs = [*_pairs(entry), *([("attempt", str(attempt))] if attempt > 1 else [])]
    return [(f"{_PREFIX}.{name}", one_line(value)) for name, value in pairs]


def _pairs(entry: Entry) -> Iterator[tuple[str, str]]:
    run = entry.run
    yield "verdict", entry.verdict.kind.value
    yield "headline", entry.headline
    yield "platform", run.platform
    yield "lecture", run.lecture
    if run.variant:
        yield "variant", run.variant
    yield "cells_run", str(run.cell_run_count)
    yield from _kernel_pairs(run)
    if entry.focus is not None:
        yield "cell", str(entry.focus.number)
    if entry.line is not None:
        yield "line", str(entry.line)
    heaviest = run.heaviest_cell()
    if heaviest is not None:
        yield "heaviest_cell", str(heaviest.number)
    limits = {item.metric: item.limit for item in entry.verdict.comparisons}
    for metric in Metric:
        reading = run.readings.get(metric)
        if reading is None:
            continue
        yield from _reading_pairs(metric, reading)
        limit = limits.get(metric)
        if limit is not None:
            yield f"{metric.value}.limit", _number(metric, limit)
    yield from _reported_pairs(entry)
    for number, relation in enumerate(entry.verdict.relations, start=1):
        yield f"relation.{number}", relation.text
        yield f"relation.{number}.verdict", relation.kind.value
        if relation.message:
            yield f"relation.{number}.compared", relation.message


def _kernel_pairs(run: Run) -> Iterator[tuple[str, str]]:
    if not run.members:
        return
    yield "kernels", str(len(run.members))
    skew = start_skew_seconds(run)
    if skew is not None:
        yield "start_skew_seconds", _number(Metric.WALL, skew)
    for number, member in enumerate(run.members, start=1):
        yield f"kernel.{number}.lecture", member.lecture
        yield f"kernel.{number}.outcome", member.outcome.value
        for metric in _OF_KERNELS:
            found = member.measured(metric)
            if found is not None:
                yield f"kernel.{number}.{metric.value}", _number(metric, found.value)


def _reported_pairs(entry: Entry) -> Iterator[tuple[str, str]]:
    for reported in entry.run.reported_values.values():
        yield f"figure.{reported.name}", repr(reported.value)
        if reported.unit:
            yield f"figure.{reported.name}.unit", reported.unit
    for item in entry.verdict.reported_values:
        if item.at_least is not None:
            yield f"figure.{item.name}.at_least", repr(item.at_least)
        if item.limit is not None:
            yield f"figure.{item.name}.limit", repr(item.limit)
        if item.reported is None:
            yield f"figure.{item.name}.unavailable", "not reported"


def _reading_pairs(metric: Metric, reading: Reading) -> Iterator[tuple[str, str]]:
    name = metric.value
    if isinstance(reading, Unavailable):
        yield f"{name}.unavailable", reading.reason
        return
    yield name, _number(metric, reading.value)
    yield f"{name}.method", reading.method.value
    if reading.high is not None:
        yield f"{name}.high", _number(metric, reading.high)


def _number(metric: Metric, value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if metric.unit is Unit.SECONDS else f"{value:.0f}"
