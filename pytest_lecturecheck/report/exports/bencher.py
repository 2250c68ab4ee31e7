"""
Render a session in the Bencher Metric Format, for ``bencher run --adapter json``.

See https://bencher.dev/docs/reference/bencher-metric-format. A benchmark is a lecture, a measure is a metric. The value
is the highest of the runs, as in budgets; the lower and upper values are the ends of all runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from pytest_lecturecheck.model.metric import Measurement
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.exports.series import LectureSeries, number, series_of

_MOST_NAME: Final = 1024
_MOST_MEASURE: Final = 64


def render_bencher(entries: Sequence[Entry]) -> str:
    """Render the values of complete runs; the platform belongs into ``bencher run --testbed``."""
    document = {item.name[:_MOST_NAME]: _measures(item) for item in series_of(entries) if item.values}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _measures(series: LectureSeries) -> dict[str, Any]:
    measures = {metric.value.replace("_", "-"): _metric(found) for metric, found in series.values.items()}
    for name, found in series.reported.items():
        values = [item.value for item in found]
        measures[f"reported-{name.replace('_', '-')}"[:_MOST_MEASURE]] = {
            "value": values[-1],
            "lower_value": min(values),
            "upper_value": max(values),
        }
    return measures


def _metric(found: Sequence[Measurement]) -> dict[str, float]:
    uppers = [item.upper_bound if item.upper_bound is not None else item.value for item in found]
    return {
        "value": number(max(item.value for item in found)),
        "lower_value": number(min(item.value for item in found)),
        "upper_value": number(max(uppers)),
    }
