"""Cold and warm storage: whether the data that a lecture reads came from a disk or from the page cache. Pure."""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.findings.document import Section, Table
from pytest_lecturecheck.findings.measured import Measured, Sample, count_runs
from pytest_lecturecheck.findings.spread import spread_of
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.units import MIB, format_duration, format_size

_READS_DATA_BYTES: Final = 16 * MIB
"""Less than this is read by any lecture that imports libraries."""
_COLD_FRACTION: Final = 0.5
_WARM_FRACTION: Final = 0.1


def storage_section(measured: Measured) -> Section:
    """Return which runs read their data from storage, which from the page cache, and how long both took."""
    title = "Cold and warm storage"
    rows, groups = [], []
    for group in measured.groups.values():
        states: dict[str, list[Sample]] = {}
        for sample in group.complete:
            if state := storage_state(sample):
                states.setdefault(state, []).append(sample)
        for state, samples in sorted(states.items()):
            walls = spread_of([wall for sample in samples if (wall := sample.value(Metric.WALL)) is not None])
            conditions = group.conditions
            rows.append(
                (
                    conditions.platform,
                    conditions.lecture,
                    conditions.text,
                    state,
                    str(len(samples)),
                    _largest(samples, Metric.DISK_READ),
                    _largest(samples, Metric.READ_CALLS),
                    "-" if walls is None else format_duration(walls.median),
                )
            )
        groups += [group] if states else []
    if not rows:
        why = f"no run is known to have read {format_size(_READS_DATA_BYTES)} or more"
        return Section(title=title, answer=f"not answered: {why}")
    cold = sum(int(row[4]) for row in rows if row[3] == "cold")
    total = sum(int(row[4]) for row in rows)
    table = Table(
        name="storage",
        title=title,
        columns=("platform", "lecture", "variant", "storage", "runs", "from disk", "by read calls", "wall, median"),
        rows=tuple(rows),
    )
    answer = f"{cold} of {total} runs that read data had cold storage: compare their times with each other only."
    return Section(title=title, answer=answer, basis=count_runs(groups), tables=(table,))


def storage_state(sample: Sample) -> str:
    """Return ``cold``, ``warm`` or ``mixed``; empty for a run that reads little, or whose reads are not known."""
    fetched, called = sample.value(Metric.DISK_READ), sample.value(Metric.READ_CALLS)
    # Mapped files are fetched without a call, and the page cache answers calls without fetching.
    if fetched is None or max(fetched, called or 0.0) < _READS_DATA_BYTES:
        return ""
    share = fetched / max(fetched, called or 0.0)
    if share >= _COLD_FRACTION:
        return "cold"
    return "warm" if share <= _WARM_FRACTION else "mixed"


def _largest(samples: list[Sample], metric: Metric) -> str:
    return format_size(max((sample.value(metric) or 0.0 for sample in samples), default=0.0))
