"""
Render the wall times of a session in the layout of pytest-benchmark's ``--benchmark-json``.

Tools that read such files (``pytest-benchmark compare``, github-action-benchmark, Codespeed) compare times. Memory and
verdict are in ``extra_info``. The host's name, which pytest-benchmark records, is left empty.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any, Final

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.exports.series import LectureSeries, SessionFacts, number, series_of

_LAYOUT_VERSION: Final = "5.1.0"
"""The version of pytest-benchmark whose layout this is."""
_OUTLIER_IQR: Final = 1.5
_FEW: Final = 2


def render_pytest_benchmark(entries: Sequence[Entry], facts: SessionFacts) -> str:
    """Render a benchmark for each lecture with a complete run; a round is a run."""
    document = {
        "machine_info": _machine_info(entries, facts),
        "commit_info": {
            "id": facts.commit or "unknown",
            "time": None,
            "author_time": None,
            "dirty": None,
            "project": "",
            "branch": "",
        },
        "benchmarks": [_benchmark(series, facts) for series in series_of(entries) if Metric.WALL in series.values],
        "datetime": facts.ended,
        "version": _LAYOUT_VERSION,
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _machine_info(entries: Sequence[Entry], facts: SessionFacts) -> dict[str, Any]:
    software = next((entry.run.software for entry in entries if entry.run.software is not None), None)
    implementation, _, version = (software.interpreter if software is not None else "").partition(" ")
    machine = facts.machine
    system, _, release = (machine.system if machine is not None else "").partition(" ")
    return {
        "node": "",
        "processor": machine.cpu if machine is not None else "",
        "machine": machine.architecture if machine is not None else "",
        "python_compiler": "",
        "python_implementation": implementation,
        "python_implementation_version": version,
        "python_version": version,
        "python_build": ["", ""],
        "release": release,
        "system": system,
        "cpu": {
            "brand_raw": machine.cpu if machine is not None else "",
            "arch": machine.architecture if machine is not None else "",
            "count": machine.core_count if machine is not None else None,
        },
    }


def _benchmark(series: LectureSeries, facts: SessionFacts) -> dict[str, Any]:
    highest = {
        metric.value: number(max(item.value for item in found))
        for metric, found in series.values.items()
        if metric is not Metric.WALL
    }
    return {
        "group": None,
        "name": series.name.rpartition("/")[2],
        "fullname": series.name,
        "params": None,
        "param": None,
        "extra_info": {
            "platform": facts.platform,
            "verdict": series.decisive.verdict.kind.value,
            **highest,
        },
        "options": {
            "disable_gc": False,
            "timer": "monotonic",
            "min_rounds": 1,
            "max_time": 0,
            "min_time": 0,
            "warmup": False,
        },
        "stats": _stats([item.value for item in series.values[Metric.WALL]]),
    }


def _stats(data: Sequence[float]) -> dict[str, Any]:
    mean, deviation = statistics.fmean(data), statistics.stdev(data) if len(data) > 1 else 0.0
    first, median, third = statistics.quantiles(data, n=4, method="inclusive") if len(data) >= _FEW else (data[0],) * 3
    spread = third - first
    fences = first - _OUTLIER_IQR * spread, third + _OUTLIER_IQR * spread
    within = [value for value in data if fences[0] <= value <= fences[1]]
    by_deviation = sum(abs(value - mean) > deviation for value in data)
    by_quartile = len(data) - len(within)
    return {
        "min": min(data),
        "max": max(data),
        "mean": mean,
        "stddev": deviation,
        "rounds": len(data),
        "median": median,
        "iqr": spread,
        "q1": first,
        "q3": third,
        "iqr_outliers": by_quartile,
        "stddev_outliers": by_deviation,
        "outliers": f"{by_deviation};{by_quartile}",
        "ld15iqr": min(within),
        "hd15iqr": max(within),
        "ops": 1 / mean if mean > 0 else 0.0,
        "total": sum(data),
        "data": list(data),
        "iterations": 1,
    }
