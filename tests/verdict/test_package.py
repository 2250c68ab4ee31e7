"""What a README declares is about the whole package: times add up, the highest peak counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.made_entries import MIB, cell, comparison, run_of, verdict

from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run import PROGRAM_LAUNCHER, LaunchFacts, Outcome
from pytest_lecturecheck.verdict import VerdictKind, compare_package

HOUR = 3600.0


def part(lecture, seconds, peak=100, *, limit=HOUR, memory_limit=None, outcome=Outcome.COMPLETED, **rest):
    """A notebook that fits the declared limits by itself, with its verdict."""
    run = run_of(lecture, [cell(1, None, peak, peak, seconds)], outcome, **rest)
    items = [comparison(run, Metric.WALL, VerdictKind.FITS, limit)]
    if memory_limit is not None:
        items.append(comparison(run, Metric.PEAK_FOOTPRINT, VerdictKind.FITS, memory_limit))
    return run, verdict(VerdictKind.FITS, "fits", comparisons=tuple(items))


def said(*results):
    return [(item.kind.value, item.message) for item in compare_package(results)]


def test_two_notebooks_of_forty_minutes_do_not_fit_an_hour():
    assert said(part("a.ipynb", 2400.0), part("b.ipynb", 2400.0)) == [
        ("not fitting", "total wall time 1 h 20 min of 2 lectures, declared 1 h: 20 min 00 s over (+33 %)")
    ]


def test_programs_are_called_programs():
    runs = [
        (replace(run, launch=LaunchFacts(launcher=PROGRAM_LAUNCHER)), its)
        for run, its in (part("a.R", 2400.0), part("b.R", 60.0, outcome=Outcome.FAILED))
    ]
    why = "unknown, because 1 program did not run to the end"
    assert said(*runs) == [("not measured", f"total wall time 41 min 00 s of 2 programs, declared 1 h: {why}")]


def test_the_limit_is_inclusive():
    assert said(part("a.ipynb", 1800.0), part("b.ipynb", 1800.0)) == [
        ("fits", "total wall time 1 h 00 min of 2 lectures, declared 1 h")
    ]
    ((kind, message),) = said(part("a.ipynb", 1800.0), part("b.ipynb", 1800.001))
    assert kind == "not fitting"
    assert "declared 1 h: 0.001 s over" in message


def test_of_memory_the_highest_peak_counts():
    limit = 256_000_000
    small, large = (part(f"{peak}.ipynb", 60.0, peak, memory_limit=limit) for peak in (52, 571))
    assert said(small, large)[0] == (
        "not fitting",
        "highest peak footprint 571 MiB in 571.ipynb, declared 256 MB (244 MiB): 327 MiB over (+134 %)",
    )
    fitting = part("b.ipynb", 60.0, 200, memory_limit=limit)
    assert said(small, fitting)[0] == (
        "fits",
        "highest peak footprint 200 MiB in b.ipynb, declared 256 MB (244 MiB)",
    )


def test_names_with_braces_are_kept():
    limit = 256_000_000
    named = part("{0}{x}.ipynb", 1.0, memory_limit=limit)
    assert "in {0}{x}.ipynb, declared" in said(named, part("b.ipynb", 1.0, 50, memory_limit=limit))[0][1]


def test_repeated_runs_count_once_with_their_longest():
    runs = [part("a.ipynb", 1000.0), part("a.ipynb", 1500.0, repeat=2), part("b.ipynb", 1500.0)]
    assert said(*runs) == [("fits", "total wall time 50 min 00 s of 2 lectures, declared 1 h")]


def test_incomplete_notebooks_never_fit():
    broken = part("b.ipynb", 10.0, outcome=Outcome.FAILED)
    assert said(part("a.ipynb", 10.0), broken) == [
        (
            "not measured",
            "total wall time 20 s of 2 lectures, declared 1 h: unknown, because 1 lecture did not run to the end",
        )
    ]
    assert said(part("a.ipynb", 3000.0), part("b.ipynb", 3000.0, outcome=Outcome.FAILED))[0][0] == "not fitting"


def test_a_range_that_reaches_over_the_limit_is_not_judged():
    limit = 256_000_000
    run, own = part("b.ipynb", 1.0, memory_limit=limit)
    peak = Measurement(metric=Metric.PEAK_FOOTPRINT, value=200 * MIB, high=300 * MIB, method=Method.BRACKET)
    wide = replace(run, readings={**run.readings, Metric.PEAK_FOOTPRINT: peak})
    ((kind, message), _) = said(part("a.ipynb", 1.0, memory_limit=limit), (wide, own))
    assert kind == "not measured"
    assert message.endswith("declared 256 MB (244 MiB): its upper end is over the limit")


def test_a_notebook_without_a_measurement_is_said():
    run, own = part("b.ipynb", 1.0)
    ((kind, message),) = said(part("a.ipynb", 1.0), (replace(run, readings={}), own))
    assert kind == "not measured"
    assert message.endswith("declared 1 h: unknown, because 1 lecture could not be measured")


def test_nothing_measured_is_said():
    runs = [replace(run, readings={}) for run, _ in (part("a.ipynb", 1.0), part("b.ipynb", 1.0))]
    assert said(*((run, part("a.ipynb", 1.0)[1]) for run in runs)) == [
        ("not measured", "wall time was not measured, declared 1 h")
    ]


@pytest.mark.parametrize(
    "results",
    [
        [],
        [part("a.ipynb", 2 * HOUR)],
        [part("a.ipynb", 2 * HOUR), part("a.ipynb", 2 * HOUR, repeat=2)],
        [part("a.ipynb", 2 * HOUR), part("b.ipynb", 2 * HOUR, limit=2 * HOUR)],
        [part("a.ipynb", 2 * HOUR), part("b.ipynb", 2 * HOUR, outcome=Outcome.SKIPPED)],
    ],
    ids=["none", "one", "one twice", "limits of their own", "one skipped"],
)
def test_a_single_notebook_is_no_package(results):
    assert said(*results) == []
