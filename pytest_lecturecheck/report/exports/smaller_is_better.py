"""
Render a session for github-action-benchmark, whose tool is then ``customSmallerIsBetter``.

See https://github.com/benchmark-action/github-action-benchmark. The list has an item for each lecture and metric, with
the highest value of the runs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from pytest_lecturecheck.model.metric import Measurement, Metric, Unit
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.exports.series import LectureSeries, SessionFacts, series_of
from pytest_lecturecheck.units import MIB

_CHARTED: Final = (Metric.PEAK_FOOTPRINT, Metric.WALL, Metric.GPU_LIVE, Metric.COMPILE)
_DIGITS: Final = 3


def render_smaller_is_better(entries: Sequence[Entry], facts: SessionFacts) -> str:
    """Render the list; sizes are in MiB, because the action's charts print plain numbers."""
    items = [
        _item(series, metric, series.values[metric], facts)
        for series in series_of(entries)
        for metric in _CHARTED
        if metric in series.values
    ]
    return json.dumps(items, indent=2, allow_nan=False) + "\n"


def _item(series: LectureSeries, metric: Metric, found: Sequence[Measurement], facts: SessionFacts) -> dict[str, Any]:
    divisor, unit = (MIB, "MiB") if metric.unit is Unit.BYTES else (1, "s")
    values = [item.value / divisor for item in found]
    limit = series.limit(metric)
    more = [
        f"verdict: {series.decisive.verdict.kind.value}",
        f"measured: {found[-1].method.value}, {len(found)} run{'' if len(found) == 1 else 's'}",
        *([] if limit is None else [f"limit: {metric.format_value(limit)}"]),
        *([f"platform: {facts.platform}"] if facts.platform else []),
    ]
    low, high = (round(value, _DIGITS) for value in (min(values), max(values)))
    spread = {"range": f"{low} to {high}"} if len(values) > 1 else {}
    return {
        "name": f"{series.name}: {metric.label}",
        "unit": unit,
        "value": high,
        **spread,
        "extra": "\n".join(more),
    }
