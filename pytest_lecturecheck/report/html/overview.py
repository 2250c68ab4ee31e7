"""Collect the top of the page: the outcome, the heaviest and slowest lectures, and one row for each lecture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.html.tones import kind_tone, verdict_tone
from pytest_lecturecheck.report.measurement_text import plural
from pytest_lecturecheck.report.terminal.concurrency import concurrency_groups
from pytest_lecturecheck.report.terminal.remarks import remark_groups
from pytest_lecturecheck.report.terminal.replication import (
    count_text,
    has_declared,
    package_comparisons,
    replication_line,
)
from pytest_lecturecheck.report.terminal.summary import cell_text, peak_and_limit, time_and_limit
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size

BAR: Final = 1000
"""Full width of a bar, in its own units."""
_LIMIT_AT: Final = 750
"""Position of the limit on a bar, which leaves space for values over it."""
_RANKED: Final = 5
_LOCATIONS: Final = 10
_REMARKS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar: its fill, the position of its limit (``None`` if there is none), and its tone."""

    fill: int
    limit: int | None
    tone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    One lecture in the list.

    Attributes:
        number: its 1-based position in the session, used in its anchor.
        name: the lecture.
        kind: the verdict.
        tone: style class.
        headline: the verdict in one line.
        peak: peak footprint.
        limit: the limit it is compared with.
        bar: both as a bar, or ``None`` if one is missing.
        is_peak_over: whether the peak is over a limit.
        time: wall time.
        time_limit: the limit that the wall time is over, or an empty string.
        cell: heaviest cell.
        order: sort keys: failing first (0 or 1), peak, seconds, share of the limit.
    """

    number: int
    name: str
    kind: str
    tone: str
    headline: str
    peak: str
    limit: str
    bar: Bar | None
    is_peak_over: bool
    time: str
    time_limit: str
    cell: str
    order: tuple[int, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """
    One of the heaviest or slowest lectures.

    Attributes:
        number: its 1-based position in the session, used in its anchor.
        name: the lecture.
        value: its peak or its time.
        cell: the cell with the highest peak or the longest time, or an empty string where no cell was measured.
        bar: the value beside the highest one.
    """

    number: int
    name: str
    value: str
    cell: str
    bar: Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A note or finding that one or more lectures share."""

    message: str
    locations: tuple[str, ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """
    Everything on the page except the details of lectures.

    Attributes:
        sentence: the outcome in one sentence.
        tone: style class.
        counts: the session in one line.
        machine: platform and machine.
        started: when the first run started, or an empty string.
        verdicts: name, tone and number of lectures of each verdict, failing ones first.
        heaviest: the lectures with the highest peaks.
        slowest: the lectures that took longest.
        rows: all lectures, failing ones first.
        remarks: headings with their remarks.
        package: verdict, tone and message of each limit declared for the whole package.
        replication: the line for a replication report, or an empty string.
    """

    sentence: str
    tone: str
    counts: str
    machine: str
    started: str
    verdicts: tuple[tuple[str, str, int], ...]
    heaviest: tuple[Ranked, ...]
    slowest: tuple[Ranked, ...]
    rows: tuple[Row, ...]
    remarks: tuple[tuple[str, tuple[Remark, ...], int], ...]
    package: tuple[tuple[str, str, str], ...]
    replication: str

    @property
    def started_text(self) -> str:
        """Return the start as text (``2026-11-29 18:30 UTC``)."""
        moment, _, zone = self.started.partition("+")
        return f"{moment[:16].replace('T', ' ')}{' UTC' if zone == '00:00' else ''}"


def overview_of(entries: Sequence[Entry], *, platform: str, machine: Machine | None) -> Overview:
    """Return the overview of a session."""
    failed = sum(entry.verdict.failed for entry in entries)
    rows = [_row(number, entry) for number, entry in enumerate(entries, start=1)]
    parts = (platform, machine.text if machine is not None else "")
    return Overview(
        sentence=_sentence(entries, failed),
        tone="bad" if failed else "good",
        counts=count_text(entries) if entries else "",
        machine=one_line(", ".join(part for part in parts if part)),
        started=min(
            (entry.run.launch.started for entry in entries if entry.run.launch.started and entry.was_run), default=""
        ),
        verdicts=_verdicts(rows),
        heaviest=_ranked(entries, _peak, format_size, Metric.PEAK_FOOTPRINT),
        slowest=_ranked(entries, lambda entry: entry.wall_seconds, format_duration, Metric.WALL),
        rows=tuple(sorted(rows, key=lambda row: row.order[0])),
        remarks=tuple(_remarks(entries)),
        package=tuple(
            (item.kind.value, kind_tone(item.kind), one_line(item.message)) for item in package_comparisons(entries)
        ),
        replication=replication_line(entries) if has_declared(entries) else "",
    )


def _sentence(entries: Sequence[Entry], failed: int) -> str:
    count = len(entries)
    if not count:
        return "No lecture was run"
    if not failed:
        return "Nothing failed" if count > 1 else "The lecture did not fail"
    # A lecture may have run several times, alone and in cohorts.
    word = "lecture" if len({entry.run.lecture for entry in entries}) == count else "run"
    return f"{failed} of {count} {word}{plural(count)} failed"


def _row(number: int, entry: Entry) -> Row:
    peak, limit = peak_and_limit(entry)
    tone, limit_bytes = verdict_tone(entry.verdict), entry.limit_bytes
    time, time_limit = time_and_limit(entry)
    share = _peak(entry) / limit_bytes if limit_bytes else 0.0
    return Row(
        number=number,
        name=entry.name,
        kind=entry.verdict.kind.value,
        tone=tone,
        headline=entry.headline,
        peak=peak,
        limit=limit,
        bar=_budget_bar(entry),
        is_peak_over=Metric.PEAK_FOOTPRINT in entry.exceeded,
        time=time,
        time_limit=time_limit,
        cell=cell_text(entry.run.heaviest_cell()),
        order=(0 if entry.verdict.failed else 1, _peak(entry), entry.wall_seconds, share),
    )


def _peak(entry: Entry) -> float:
    found = entry.run.measured(Metric.PEAK_FOOTPRINT)
    return found.value if found is not None else 0.0


def _budget_bar(entry: Entry) -> Bar | None:
    """Return a bar of the peak and its limit, or ``None`` without either."""
    found, limit = entry.run.measured(Metric.PEAK_FOOTPRINT), entry.limit_bytes
    if found is None or not limit:
        return None
    if found.value > limit:
        # Far over the limit, the peak fills the whole bar, and the part within the limit shows how small that is.
        scale = max(limit / _LIMIT_AT, found.value / BAR)
        return Bar(fill=round(found.value / scale), limit=round(limit / scale), tone="over")
    return Bar(fill=round(_LIMIT_AT * found.value / limit), limit=_LIMIT_AT, tone="within")


def _verdicts(rows: Sequence[Row]) -> tuple[tuple[str, str, int], ...]:
    counts: dict[tuple[str, str], int] = {}
    for row in sorted(rows, key=lambda row: (row.order[0], row.tone != "warn", row.kind)):
        counts[row.kind, row.tone] = counts.get((row.kind, row.tone), 0) + 1
    return tuple((kind, tone, count) for (kind, tone), count in counts.items())


def _ranked(
    entries: Sequence[Entry], value_of: Callable[[Entry], float], form: Callable[[float], str], metric: Metric
) -> tuple[Ranked, ...]:
    valued = [(value_of(entry), number, entry) for number, entry in enumerate(entries, start=1) if value_of(entry) > 0]
    highest = sorted(valued, key=lambda item: (-item[0], item[1]))[:_RANKED]
    return tuple(
        Ranked(
            number=number,
            name=entry.name,
            value=form(value),
            cell=_cell_text(entry, metric),
            bar=Bar(fill=round(BAR * value / highest[0][0]), limit=None, tone="plain"),
        )
        for value, number, entry in highest
    )


def _cell_text(entry: Entry, metric: Metric) -> str:
    """Name the cell behind the value: what it added to memory, or how long it took."""
    cell = entry.run.heaviest_cell(metric)
    if cell is None:
        return ""
    if metric is Metric.PEAK_FOOTPRINT:
        share = f" added {format_size(cell.raised_bytes)}" if cell.raised_bytes is not None else ""
    else:
        found = cell.measured(metric)
        share = f" took {format_duration(found.value)}" if found is not None else ""
    return f"code cell {cell_text(cell)}{share}"


def _remarks(entries: Sequence[Entry]) -> list[tuple[str, tuple[Remark, ...], int]]:
    remarks = []
    concurrency = concurrency_groups(entries)
    more = [("Concurrency", concurrency)] if concurrency else []
    for heading, groups in (*remark_groups(entries), *more):
        shown = tuple(
            Remark(message=message, locations=tuple(locations[:_LOCATIONS]), more=max(0, len(locations) - _LOCATIONS))
            for message, locations in groups[:_REMARKS]
        )
        remarks.append((heading, shown, max(0, len(groups) - _REMARKS)))
    return remarks
