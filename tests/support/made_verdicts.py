"""Runs and budgets of one lecture, and the check of a verdict."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.units import GIB, MIB
from pytest_lecturecheck.verdict import Policy
from support.made_records import made_run

PLATFORM = "linux-x86_64-cpu"
MACHINE = Machine(system="Linux 6.18", architecture="x86_64", cpu="EPYC", core_count=2, ram_bytes=24 * GIB)
OTHER_MACHINE = replace(MACHINE, cpu="Xeon", core_count=8)
DEFAULT = Policy()
STRICT = Policy(strict=True)
PEAK = Metric.PEAK_FOOTPRINT


def measurement(metric, value, method=Method.EXACT, **changes):
    return Measurement(metric=metric, value=value, method=method, **changes)


def cell(number, *readings):
    return CellRun(
        number=number,
        index=2 * number,
        line=6 * number,
        status=CellStatus.OK,
        readings={item.metric: item for item in readings},
    )


def run(*readings, cells=None, **changes):
    if cells is None:
        cells = (cell(1), cell(2, *(item for item in readings if isinstance(item, Measurement))))
    return made_run(
        **(
            {
                "lecture": "a.md",
                "platform": PLATFORM,
                "outcome": Outcome.COMPLETED,
                "cells": cells,
                "readings": {item.metric: item for item in readings},
                "machine": MACHINE,
            }
            | changes
        )
    )


def budget(*items, machine=MACHINE):
    return LectureBudget(
        lecture="a.md",
        metrics={item.metric: item for item in items},
        run_count=3,
        recorded=dt.date(2026, 1, 2),
        machine=machine,
    )


def limit(metric, value, seen=(), method=Method.EXACT, **changes):
    return MetricBudget(metric=metric, limit=value, seen=seen, method=method, **changes)


PEAK_LIMIT = limit(PEAK, 600 * MIB, seen=(530.0 * MIB, 545.0 * MIB, 540.0 * MIB))


def check(verdict, kind, headline, *, failed):
    assert (verdict.kind, verdict.failed, verdict.headline) == (kind, failed, headline)
    return verdict


# Against a budget
