"""
Render a session as OpenMetrics text, for GitLab's metrics reports and for a Prometheus textfile collector.

See https://github.com/prometheus/OpenMetrics. GitLab compares each series with the one of the same name and labels on
the target branch; labels are therefore only what names a lecture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pytest_lecturecheck.model.metric import Metric, Unit
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.exports.series import LectureSeries, SessionFacts, number, series_of

_PREFIX: Final = "lecturecheck"
_UNITS: Final = {Unit.BYTES: "bytes", Unit.SECONDS: "seconds", Unit.COUNT: ""}


def render_open_metrics(entries: Sequence[Entry], facts: SessionFacts) -> str:
    """Render the families: for each metric the highest value and the limit, then verdicts and reported values."""
    series = series_of(entries)
    lines = [line for metric in Metric for line in _metric_family(metric, series, facts)]
    lines += _verdicts(series, facts)
    lines += _reported(series, facts)
    return "".join(f"{line}\n" for line in (*lines, "# EOF"))


def _metric_family(metric: Metric, series: Sequence[LectureSeries], facts: SessionFacts) -> Iterator[str]:
    highest = [
        (_labels(item, facts), max(found.value for found in item.values[metric]))
        for item in series
        if metric in item.values
    ]
    limits = [(_labels(item, facts), limit) for item in series if (limit := item.limit(metric)) is not None]
    yield from _family(metric.key, metric.unit, f"Highest {metric.label} of the runs", highest)
    yield from _family(f"{metric.key}_limit", metric.unit, f"Limit of the {metric.label}", limits)


def _family(key: str, unit: Unit, text: str, samples: Sequence[tuple[str, float]]) -> Iterator[str]:
    if not samples:
        return
    suffix = _UNITS[unit]
    name = "_".join(part for part in (_PREFIX, key, suffix) if part)
    yield f"# TYPE {name} gauge"
    if suffix:
        yield f"# UNIT {name} {suffix}"
    yield f"# HELP {name} {text}."
    for labels, value in samples:
        yield f"{name}{labels} {number(value)}"


def _verdicts(series: Sequence[LectureSeries], facts: SessionFacts) -> Iterator[str]:
    if not series:
        return
    yield f"# TYPE {_PREFIX}_failed gauge"
    yield f"# HELP {_PREFIX}_failed Whether the lecture failed."
    for item in series:
        yield f"{_PREFIX}_failed{_labels(item, facts)} {int(item.decisive.verdict.failed)}"
    yield f"# TYPE {_PREFIX}_verdict info"
    yield f"# HELP {_PREFIX}_verdict The verdict of the lecture."
    for item in series:
        labels = _labels(item, facts, {"verdict": item.decisive.verdict.kind.value})
        yield f"{_PREFIX}_verdict_info{labels} 1"


def _reported(series: Sequence[LectureSeries], facts: SessionFacts) -> Iterator[str]:
    rows = [(item, name, found[-1].value) for item in series for name, found in item.reported.items()]
    if not rows:
        return
    yield f"# TYPE {_PREFIX}_reported gauge"
    yield f"# HELP {_PREFIX}_reported A value that the lecture reported."
    for item, name, value in rows:
        yield f"{_PREFIX}_reported{_labels(item, facts, {'name': name})} {value!r}"


def _labels(series: LectureSeries, facts: SessionFacts, more: Mapping[str, str] | None = None) -> str:
    pairs = {"lecture": series.lecture, "variant": series.variant, "platform": facts.platform, **(more or {})}
    return "{" + ",".join(f'{key}="{_escaped(text)}"' for key, text in pairs.items() if text) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
