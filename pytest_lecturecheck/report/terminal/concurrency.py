"""Render concurrent kernels as text: their time and memory, each and in total, and how many are safe here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis import CauseKind
from pytest_lecturecheck.model.cohort import safe_concurrency
from pytest_lecturecheck.model.cohort_record import cohort_of, spec_of, start_skew_seconds
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.variant import title_of
from pytest_lecturecheck.report.device_table import gpu_text
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import NO_VALUE, plural
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.table import Column, Field, render_table
from pytest_lecturecheck.report.text import wrap
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration
from pytest_lecturecheck.verdict import VerdictKind
from pytest_lecturecheck.verdict.cohorts import cause_of, end_text

_INDENT: Final = "  "
_NUMBER_NAMES: Final = (
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_NOT_MADE: Final = frozenset(
    {Outcome.REFUSED, Outcome.UNREADABLE, Outcome.NOTHING_TO_RUN, Outcome.SKIPPED, Outcome.STOPPED}
)
TITLES: Final = ("kernels", "time", "in sequence", "peak of one", "total peak", "start skew", "not completed")
_GPU_TITLE: Final = "total GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyTable:
    """
    The results of one lecture, or of one named cohort.

    Attributes:
        name: the lecture, or the lectures with the cohort's name.
        titles: headings of the columns.
        rows: one for each number of kernels, ascending.
        conclusion: how many kernels are safe.
    """

    name: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    conclusion: str


def concurrency_tables(entries: Sequence[Entry]) -> list[ConcurrencyTable]:
    """Return a table for each lecture that ran concurrently with itself, then for each named cohort; safe texts."""
    made = [entry for entry in entries if entry.was_run and entry.run.outcome not in _NOT_MADE]
    repeats: dict[str, list[Run]] = {}
    named: dict[tuple[str, str], list[Run]] = {}
    for entry in made:
        run = entry.run
        if not run.members:
            if entry.verdict.kind not in {VerdictKind.PROFILED, VerdictKind.PARTIAL}:
                repeats.setdefault(title_of(run.lecture, run.variant), []).append(run)
        elif (spec := cohort_of(run).spec).is_repeat:
            repeats.setdefault(title_of(run.lecture, spec.variant), []).append(run)
        else:
            named.setdefault((run.lecture, run.variant), []).append(run)
    alone = {title: seconds for title, runs in repeats.items() if (seconds := _alone_seconds(runs)) is not None}
    tables = [
        _table(one_line(title), runs, alone, _safe_text(runs))
        for title, runs in repeats.items()
        if any(run.members for run in runs)
    ]
    return tables + [_table(_named_title(runs[0]), runs, alone, _all_text(runs)) for runs in named.values()]


def _named_title(run: Run) -> str:
    lectures = ", ".join(dict.fromkeys(member.lecture for member in run.members))
    return one_line(f"{lectures} [{run.variant}]")


def _alone_seconds(runs: Sequence[Run]) -> float | None:
    """Return the longest time of a lecture alone, or ``None`` if no run alone finished."""
    times = [
        _wall(run)
        for run in runs
        if not run.members and run.outcome is Outcome.COMPLETED and not run.concurrent_lectures
    ]
    return max((seconds for seconds in times if seconds is not None), default=None)


def _wall(run: Run) -> float | None:
    found = run.measured(Metric.WALL)
    return found.value if found is not None else None


# -- rows -------------------------------------------------------------------------------------------------------------


def _table(name: str, runs: Sequence[Run], alone: dict[str, float], conclusion: str) -> ConcurrencyTable:
    has_gpu = any(_has_gpu(run) for run in runs)
    by_count: dict[int, list[Run]] = {}
    for run in runs:
        by_count.setdefault(max(1, len(run.members)), []).append(run)
    rows = [_row(count, by_count[count], alone, has_gpu=has_gpu) for count in sorted(by_count)]
    titles = (*TITLES[:-1], _GPU_TITLE, TITLES[-1]) if has_gpu else TITLES
    return ConcurrencyTable(name=name, titles=titles, rows=tuple(rows), conclusion=conclusion)


def _has_gpu(run: Run) -> bool:
    return run.measured(Metric.GPU_LIVE) is not None or run.measured(Metric.GPU_USED) is not None


def _row(count: int, runs: Sequence[Run], alone: dict[str, float], *, has_gpu: bool) -> tuple[str, ...]:
    """Render the results of one number of kernels; of several runs the highest values."""
    kernels = [member for run in runs for member in run.members or (run,)]
    bad = sum(member.outcome is not Outcome.COMPLETED for member in kernels)
    skews = [skew for run in runs if (skew := start_skew_seconds(run)) is not None]
    fields = (
        str(count),
        _duration(max((seconds for run in runs if (seconds := _wall(run)) is not None), default=None)),
        _duration(_in_sequence(runs[0], alone)),
        _highest(kernels),
        _highest(runs),
        _duration(max(skews, default=None)),
    )
    gpu = (gpu_text(max(runs, key=_gpu_bytes)),) if has_gpu else ()
    return (*fields, *gpu, f"{bad} of {len(kernels)}" if bad else "none")


def _gpu_bytes(run: Run) -> float:
    found = run.measured(Metric.GPU_LIVE) or run.measured(Metric.GPU_USED)
    return found.value if found is not None else -1.0


def _in_sequence(run: Run, alone: dict[str, float]) -> float | None:
    """Return the time of the kernels in sequence, or ``None`` if a lecture was not measured alone."""
    variant = spec_of(run).variant if run.members else run.variant
    times = [alone.get(title_of(member.lecture, variant)) for member in run.members or (run,)]
    known = [seconds for seconds in times if seconds is not None]
    return sum(known) if len(known) == len(times) else None


def _highest(runs: Sequence[Run]) -> str:
    found = [item for run in runs if (item := run.measured(Metric.PEAK_FOOTPRINT)) is not None]
    return max(found, key=lambda item: item.upper_bound or item.value).text if found else NO_VALUE


def _duration(seconds: float | None) -> str:
    return NO_VALUE if seconds is None else format_duration(seconds)


# -- conclusions ------------------------------------------------------------------------------------------------------


def _safe_text(runs: Sequence[Run]) -> str:
    cohorts = [cohort_of(run) for run in runs]
    safe = safe_concurrency(cohorts)
    bad = min((item for item in cohorts if item.ended_badly), key=lambda item: item.spec.kernel_count, default=None)
    start = "safe concurrency on this platform"
    if bad is None:
        return f"{start}: {safe} or more (no higher number was tried)"
    return f"{start}: {safe or 'none of those tried'} (with {bad.spec.kernel_count}, {_bad_text(bad.members)})"


def _all_text(runs: Sequence[Run]) -> str:
    bad = next((run for run in runs if run.outcome is not Outcome.COMPLETED), None)
    count = len(runs[0].members)
    if bad is not None:
        return _bad_text(bad.members)
    return f"all {count} kernels completed" if count > 1 else "its kernel completed"


def _bad_text(members: Sequence[Run]) -> str:
    """Describe how kernels ended that did not complete (``one of 3 kernels aborted: preallocation race``)."""
    counts: dict[str, int] = {}
    for member in members:
        if member.outcome is not Outcome.COMPLETED:
            text = _end_text(member)
            counts[text] = counts.get(text, 0) + 1
    total = f"of {len(members)} kernel{plural(len(members))}"
    return "; ".join(f"{_number_text(count)} {total} {text}" for text, count in counts.items())


def _number_text(count: int) -> str:
    return _NUMBER_NAMES[count - 1] if count <= len(_NUMBER_NAMES) else str(count)


def _end_text(run: Run) -> str:
    end, cause, evidence = end_text(run), cause_of(run), run.evidence
    if cause is None:
        return end
    error = evidence.error if evidence is not None and cause.kind is CauseKind.CELL_ERROR else None
    why = cause.kind.value if error is None else error.name
    return one_line(why if why.startswith(end) else f"{end}: {why}")


# -- media ------------------------------------------------------------------------------------------------------------


def render_concurrency(entries: Sequence[Entry], *, width: int, paint: Paint) -> list[str]:
    """Render the section of the terminal's summary; empty if the session had no cohorts."""
    tables = concurrency_tables(entries)
    lines = ["", paint(Tone.TITLE, "Concurrency")] if tables else []
    for table in tables:
        lines += wrap(table.name, width, first=_INDENT, rest=_INDENT * 2)
        columns = [Column(title=title, right=True, optional=title == TITLES[5]) for title in table.titles]
        rows = [[Field(text) for text in row] for row in table.rows]
        lines += render_table(columns, rows, width=width, paint=paint, indent=_INDENT * 2)
        lines += wrap(table.conclusion, width, first=_INDENT * 2, rest=_INDENT * 3)
    return lines


def concurrency_groups(entries: Sequence[Entry]) -> list[tuple[str, list[str]]]:
    """Return the tables as remarks: each message with its lecture."""
    return [(message, [table.name]) for table in concurrency_tables(entries) for message in _messages(table)]


def _messages(table: ConcurrencyTable) -> Iterator[str]:
    for row in table.rows:
        known = [f"{title} {text}" for title, text in zip(table.titles, row, strict=True) if text != NO_VALUE]
        yield ", ".join(known)
    yield table.conclusion
