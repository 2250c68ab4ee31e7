"""Render the history of one lecture over kept sessions, and whether a value drifts."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from pytest_lecturecheck.budget.drift import LEAST_COUNT, LEAST_DAYS, LEAST_FRACTION, Drift, find_drift
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.report.mark_text import long_cell_lines
from pytest_lecturecheck.report.measurement_text import NO_VALUE, plural
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.table import Column, Field, render_table
from pytest_lecturecheck.report.text import wrap
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_fraction
from pytest_lecturecheck.verdict import VerdictKind
from pytest_lecturecheck.verdict.history_lines import HistoryLine
from pytest_lecturecheck.verdict.joint_failures import read_together
from pytest_lecturecheck.verdict.kept_session import KeptSession, Subject
from pytest_lecturecheck.verdict.session_diff import Side, SideLecture, differences, side_of_session

_INDENT: Final = "  "
_DAY_SECONDS: Final = 86400
_NEVER: Final = dt.datetime.min.replace(tzinfo=dt.UTC)
_WATCHED: Final = (Metric.PEAK_FOOTPRINT, Metric.WALL, Metric.GPU_LIVE, Metric.COMPILE)
_GOOD: Final = frozenset({"within", "recorded", "fits"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """
    A lecture in one session.

    Attributes:
        ended: when the session ended, or ``None`` if its document does not say.
        platform: platform label.
        lecture: what the session recorded about it.
    """

    ended: dt.datetime | None
    platform: str
    lecture: SideLecture


def moments_of(sessions: Sequence[KeptSession], subject: Subject, history: Sequence[HistoryLine] = ()) -> list[Moment]:
    """
    Return a lecture's moments, the oldest first; those without a time come before all others.

    Args:
        sessions: the kept sessions, the oldest first.
        subject: lecture and variant.
        history: lines of a history; those of kept sessions are skipped, because the sessions hold more.
    """
    found = []
    for session in sessions:
        lecture = side_of_session(session, "").lectures.get(subject)
        if lecture is not None:
            found.append(Moment(ended=session.ended, platform=session.platform, lecture=lecture))
    kept = {session.identity for session in sessions}
    found += [
        Moment(ended=line.moment, platform=line.platform, lecture=line.as_side)
        for line in history
        if line.subject == subject and line.session not in kept
    ]
    return sorted(found, key=lambda moment: moment.ended or _NEVER) if history else found


def drift_of(moments: Sequence[Moment], metric: Metric) -> tuple[Drift | None, int, float]:
    """
    Find the drift of a metric over the moments that are comparable with the last one.

    These have the same platform, class of machine and measurement method.

    Returns:
        The drift or ``None``, the number of comparable values, and the days they cover.
    """
    points = [
        (moment.ended.timestamp() / _DAY_SECONDS, found.value)
        for moment in _like_the_last(moments, metric)
        if moment.ended is not None and (found := moment.lecture.values[metric]) is not None
    ]
    days = max(day for day, _ in points) - min(day for day, _ in points) if points else 0.0
    return find_drift(points), len(points), days


def _like_the_last(moments: Sequence[Moment], metric: Metric) -> list[Moment]:
    usable = [moment for moment in moments if metric in moment.lecture.values and moment.ended is not None]
    if metric in {Metric.WALL, Metric.COMPILE}:
        usable = [moment for moment in usable if not moment.lecture.values[metric].is_shared]
    return [moment for moment in usable if _kind(moment, metric) == _kind(usable[-1], metric)]


def _kind(moment: Moment, metric: Metric) -> object:
    machine = moment.lecture.machine
    method = moment.lecture.values[metric].method
    return moment.platform, machine.time_class if machine is not None else None, method


def render_history(
    sessions: Sequence[KeptSession],
    lecture: str,
    *,
    width: int,
    history: Sequence[HistoryLine] = (),
    colour: bool = False,
    most: int = 30,
) -> list[str]:
    """
    Render a lecture's history, one part for each of its variants.

    Args:
        sessions: the kept sessions, the oldest first.
        lecture: the lecture's name.
        width: columns of the terminal.
        history: lines of a history, which are further sessions.
        colour: whether colour codes are written.
        most: rows of the table; older sessions still count for the trend.
    """
    paint = Paint(colour=colour)
    variants = sorted(
        {kept.run.variant for session in sessions for kept in session.of(lecture)}
        | {line.variant for line in history if line.lecture == lecture}
    )
    lines: list[str] = []
    for variant in variants:
        moments = moments_of(sessions, (lecture, variant), history)
        name = one_line(f"{lecture} [{variant}]" if variant else lecture)
        title = f"{name}: {len(moments)} session{plural(len(moments))}"
        lines += ["", paint(Tone.TITLE, title), *_table(moments[-most:], width, paint)]
        if len(moments) > most:
            lines.append(f"{len(moments) - most} older sessions left out")
        lines += _section("What changed", list(_changes(moments[-most - 1 :])), width, paint)
        runs = _runs_of(sessions, lecture, variant)
        lines += _section("Failures read together", read_together(runs), width, paint)
        long_cells = [line for run in runs[-1:] for line in long_cell_lines(run)]
        lines += _section("Long cells in the last session that ran it", long_cells, width, paint)
        lines += _section("Trend", list(_trends(moments)), width, paint)
    return lines[1:]


def _runs_of(sessions: Sequence[KeptSession], lecture: str, variant: str) -> list[Run]:
    """Return the runs that sessions have made themselves, the oldest first."""
    kept = (kept for session in sessions for kept in session.of(lecture) if kept.run.variant == variant)
    return [item.run for item in kept if item.verdict.kind is not VerdictKind.FAILED_BEFORE]


def _table(moments: Sequence[Moment], width: int, paint: Paint) -> list[str]:
    metrics = [
        metric
        for metric in _WATCHED
        if metric in _WATCHED[:2] or any(metric in moment.lecture.values for moment in moments)
    ]
    is_mixed = len(Counter(moment.platform for moment in moments)) > 1
    titles = {
        Metric.PEAK_FOOTPRINT: "peak",
        Metric.WALL: "time",
        Metric.GPU_LIVE: "GPU live",
        Metric.COMPILE: "compile",
    }
    columns = [Column(title="ended (UTC)"), Column(title="verdict")]
    columns += [Column(title=titles[metric], right=True) for metric in metrics]
    columns += [Column(title="platform", optional=True)] if is_mixed else []
    rows = []
    for moment in moments:
        word = moment.lecture.verdict
        fields = [Field(_date(moment)), Field(word, Tone.GOOD if word in _GOOD else Tone.WARN)]
        fields += [Field(_value_text(moment.lecture, metric)) for metric in metrics]
        rows.append([*fields, *([Field(one_line(moment.platform))] if is_mixed else [])])
    return render_table(columns, rows, width=width, paint=paint)


def _date(moment: Moment) -> str:
    return "unknown" if moment.ended is None else f"{moment.ended.astimezone(dt.UTC):%Y-%m-%d %H:%M}"


def _value_text(lecture: SideLecture, metric: Metric) -> str:
    found = lecture.values.get(metric)
    if found is None:
        return NO_VALUE
    text = metric.format_value(found.value)
    return f">= {text}" if found.method is not None and found.method.is_lower_bound else text


def _changes(moments: Sequence[Moment]) -> Iterator[str]:
    for earlier, later in pairwise(moments):
        sides = [
            Side(title="", platform=moment.platform, lectures={("", ""): moment.lecture}) for moment in (earlier, later)
        ]
        found = [f"{item.name} {item.before} -> {item.after}" for item in differences(*sides)]
        if found:
            yield one_line(f"{_date(later)}: {', '.join(found)}")


def _trends(moments: Sequence[Moment]) -> Iterator[str]:
    for metric in _WATCHED:
        drift, count, days = drift_of(moments, metric)
        if drift is not None:
            yield (
                f"{metric.label} drifts by {format_fraction(drift.monthly_fraction)} a month: "
                f"{format_fraction(drift.total_fraction)} over {drift.days:.0f} days in {drift.count} sessions on this "
                f"platform and class of machine; single sessions deviate by about {drift.noise_fraction * 100:.2g} %"
            )
        elif count and (count < LEAST_COUNT or days < LEAST_DAYS):
            yield (
                f"{metric.label}: too few sessions for a trend ({count} comparable over {days:.0f} days; "
                f"{LEAST_COUNT} over {LEAST_DAYS:.0f} days are needed)"
            )
        elif count:
            yield (
                f"{metric.label}: no drift of {LEAST_FRACTION:.0%} a month or more in {count} sessions over "
                f"{days:.0f} days"
            ).replace("%", " %")


def _section(title: str, rows: Sequence[str], width: int, paint: Paint) -> list[str]:
    wrapped = [line for row in rows for line in wrap(row, width, first=_INDENT, rest=_INDENT * 2)]
    return ["", paint(Tone.TITLE, title), *wrapped] if wrapped else []
