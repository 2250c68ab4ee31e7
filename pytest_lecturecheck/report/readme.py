"""
What an author pastes into a README, and a replicator into a report.

The headings are those of the data editors' template README ("Memory, Runtime, Storage Requirements"); every figure is
measured, rounded up, and says whether it is an upper or a lower bound. See
https://social-science-data-editors.github.io/template_README/.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pytest_lecturecheck.finding import FindingKind
from pytest_lecturecheck.metric import Measurement, Metric
from pytest_lecturecheck.platform import Machine, Software
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.figures import NO_FIGURE, plural
from pytest_lecturecheck.report.markdown import code, escape
from pytest_lecturecheck.report.summary import replication_line
from pytest_lecturecheck.run import Outcome
from pytest_lecturecheck.units import GIB, MIB, format_duration, format_size
from pytest_lecturecheck.verdict import VerdictKind

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_CLASSES: Final = (
    (10 * _MINUTE, "less than 10 minutes"),
    (_HOUR, "10-60 minutes"),
    (2 * _HOUR, "1-2 hours"),
    (8 * _HOUR, "2-8 hours"),
    (_DAY, "8-24 hours"),
    (3 * _DAY, "1-3 days"),
    (14 * _DAY, "3-14 days"),
)
"""The answers that the template offers."""
_LONGEST: Final = "more than 14 days"
_STORAGE: Final = ((25 * MIB, "less than 25 MB"), (250 * MIB, "25 MB - 250 MB"), (2 * GIB, "250 MB - 2 GB"))
_REQUIREMENTS: Final = frozenset(
    {
        FindingKind.SHELL,
        FindingKind.MISSING_PROGRAM,
        FindingKind.INSTALL,
        FindingKind.NO_KERNELSPEC,
        FindingKind.NO_HEADER,
        FindingKind.KERNEL,
        FindingKind.GPU,
        FindingKind.NOT_RUN,
    }
)
"""What a reader of the package must have, or know, before the notebooks run."""
_NOT_RUN: Final = frozenset({Outcome.SKIPPED, Outcome.NOTHING_TO_RUN})
_FINDINGS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """The figure that is to be told, whether the truth is at most or at least that, and of which entry it is."""

    value: float
    is_upper: bool
    entry: Entry


def render_readme(entries: Sequence[Entry], *, platform: str, ended: dt.datetime | None, version: str = "") -> str:
    """
    Render the paragraphs as Markdown.

    Args:
        entries: a session's entries.
        platform: platform label.
        ended: when the session ended, or ``None``.
        version: version of this package that measured, or an empty string.
    """
    made = [entry for entry in entries if entry.run.outcome not in _NOT_RUN]
    blocks = [
        "### Memory, Runtime, Storage Requirements",
        _summary(made, ended, version),
        "#### Summary time to reproduce",
        _time_answer(made),
        "#### Summary of required storage space",
        _storage_answer(made),
        "#### Computational details",
        _details(made, platform),
        _table(made),
        "### For a replication report",
        _replication(made),
    ]
    return "\n\n".join(blocks) + "\n"


def _summary(entries: Sequence[Entry], ended: dt.datetime | None, version: str) -> str:
    day = f" on {ended.astimezone(dt.UTC):%Y-%m-%d}" if ended is not None else ""
    tool = f"pytest-lecturecheck {version}" if version else "pytest-lecturecheck"
    count = len({_subject(entry) for entry in entries})
    text = (
        f"{count} notebook{plural(count)} {'was' if count == 1 else 'were'} run{day} with {tool}, each by itself in a "
    )
    text += "fresh kernel, and measured for each cell."
    peak = _highest(entries, Metric.PEAK_FOOTPRINT)
    if peak is not None:
        need = "up to" if peak.is_upper else "at least"
        text += f" The most memory, {need} {_up(Metric.PEAK_FOOTPRINT, peak)}, is needed by {{}}."
    else:
        text += " Memory was not measured."
    bad = sorted({entry.name for entry in entries if entry.run.outcome is not Outcome.COMPLETED})
    if bad:
        text += f" {len(bad)} did not come to the end, so that all figures are lower bounds: {', '.join(bad)}."
    named = code(peak.entry.run.lecture) if peak is not None else ""
    return escape(text).replace("{}", named, 1)


def _time_answer(entries: Sequence[Entry]) -> str:
    total = sum(_seconds(entry) for entry in _longest(entries))
    answer = next((text for most, text in _CLASSES if total < most), _LONGEST)
    shared = any(entry.run.company for entry in entries)
    beside = " Some ran beside others, which takes longer than one after the other." if shared else ""
    return (
        f"Approximate time needed to reproduce the analyses on the machine below: **{answer}** "
        f"(measured: {format_duration(_round_up_seconds(total))}, all notebooks one after the other, kernels' start "
        f"included).{beside}"
    )


def _storage_answer(entries: Sequence[Entry]) -> str:
    figures = [found for entry in _longest(entries) if (found := entry.run.measured(Metric.DISK_WRITTEN)) is not None]
    if not figures:
        return "What the notebooks write was not measured; the size of the package and of its data comes on top of it."
    total = sum(found.value for found in figures)
    rest = "The size of the package and of its data comes on top of it."
    if not total:
        return f"The notebooks wrote nothing to the disk (**{_STORAGE[0][1]}**). {rest}"
    answer = next((text for most, text in _STORAGE if total < most), "more than 2 GB")
    is_whole = all(entry.run.outcome is Outcome.COMPLETED for entry in entries) and len(figures) == len(
        _longest(entries)
    )
    bound = "at most" if is_whole else "at least"
    return (
        f"The notebooks wrote {bound} {_size_up(total)} to the disk (**{answer}**): everything that was written, also "
        f"what was removed or overwritten. {rest}"
    )


def _details(entries: Sequence[Entry], platform: str) -> str:
    machines = list(dict.fromkeys(entry.run.machine for entry in entries if entry.run.machine is not None))
    lines = [f"The code was last run on: {escape(machine.text)} ({escape(platform)})." for machine in machines]
    lines = lines or [f"The code was last run on a machine of the class {escape(platform)}."]
    return " ".join(lines) + _graphics(machines) + _software(entries)


def _graphics(machines: Sequence[Machine]) -> str:
    machine = next((machine for machine in machines if machine.accelerators), None)
    if machine is None:
        return " No GPU was used."
    driver = f", driver {escape(machine.driver)}" if machine.driver else ""
    cuda = f", CUDA {escape(machine.cuda)}" if machine.cuda else ""
    return f" GPU: {escape(', '.join(machine.accelerators))}{driver}{cuda}."


def _software(entries: Sequence[Entry]) -> str:
    found: list[Software] = [entry.run.software for entry in entries if entry.run.software is not None]
    pythons = sorted({software.python for software in found if software.python})
    packages = sorted({pair for software in found for pair in software.packages.items()})
    libraries = sorted({line for software in found for line in software.blas})
    text = f" Software: Python {escape(', '.join(pythons))}" if pythons else ""
    if packages:
        text += "; packages that the notebooks import: " if text else " Packages that the notebooks import: "
        text += escape(", ".join(f"{name} {version}" for name, version in packages))
    if libraries:
        text += f"; linear algebra: {escape(', '.join(libraries))}"
    return f"{text}." if text else ""


def _table(entries: Sequence[Entry]) -> str:
    longest = {_subject(entry): entry for entry in _longest(entries)}
    has_gpu = any(entry.run.measured(Metric.GPU_LIVE) is not None for entry in entries)
    gpu_title, gpu_rule = (" GPU memory |", "--:|") if has_gpu else ("", "")
    rows = [
        f"| notebook | peak memory | time |{gpu_title} written | how it ended |",
        f"|---|--:|--:|{gpu_rule}--:|---|",
    ]
    for subject, entry in longest.items():
        runs = [item for item in entries if _subject(item) == subject]
        metrics = (Metric.PEAK_FOOTPRINT, *((Metric.GPU_LIVE,) if has_gpu else ()), Metric.DISK_WRITTEN)
        figures = [_bound_text(runs, metric) for metric in metrics]
        figures.insert(1, format_duration(_round_up_seconds(_seconds(entry))))
        fields = [code(_title(entry)), *map(escape, figures), escape(entry.run.outcome.value)]
        rows.append(f"| {' | '.join(fields)} |")
    note = (
        "Figures are rounded up. ≤ marks an upper bound (counted by the operating system), ≥ a lower bound (sampled "
        "while the notebook ran, or of a notebook that did not come to its end). Peak memory is that of all processes "
        "of the notebook together."
    )
    return "\n".join(rows) + f"\n\n{note}"


def _bound_text(entries: Sequence[Entry], metric: Metric) -> str:
    found = _highest(entries, metric)
    if found is None:
        return NO_FIGURE
    return f"{'≤' if found.is_upper else '≥'} {_up(metric, found)}"


def _highest(entries: Sequence[Entry], metric: Metric) -> _Bound | None:
    """Give the highest figure of some runs; one lower bound among them makes a lower bound of it."""
    found = [(entry, value) for entry in entries if (value := entry.run.measured(metric)) is not None]
    if not found:
        return None
    entry, figure = max(found, key=lambda pair: _end(pair[1]))
    is_upper = all(
        item.run.outcome is Outcome.COMPLETED and value.upper_bound is not None and not value.method.is_lower_bound
        for item, value in found
    )
    return _Bound(value=_end(figure) + figure.tolerance, is_upper=is_upper, entry=entry)


def _end(found: Measurement) -> float:
    return found.upper_bound if found.upper_bound is not None else found.value


def _up(metric: Metric, found: _Bound) -> str:
    return _size_up(found.value) if metric.is_memory or metric is Metric.DISK_WRITTEN else format_duration(found.value)


def _size_up(size_bytes: float) -> str:
    """Round a size up to what people write: tenths of a GiB, or 10 MiB, or whole MiB."""
    step = GIB / 10 if size_bytes >= GIB else 10 * MIB if size_bytes >= 100 * MIB else MIB
    # A size that differs from a step by less than a byte is that step.
    return format_size(math.ceil((size_bytes - 0.5) / step) * step, 4)


def _round_up_seconds(seconds: float) -> float:
    step = _MINUTE if seconds >= 10 * _MINUTE else 1
    return math.ceil(seconds / step) * step


def _subject(entry: Entry) -> tuple[str, str]:
    return entry.run.lecture, entry.run.variant


def _title(entry: Entry) -> str:
    return f"{entry.run.lecture} [{entry.run.variant}]" if entry.run.variant else entry.run.lecture


def _seconds(entry: Entry) -> float:
    return entry.seconds or entry.wall_seconds


def _longest(entries: Sequence[Entry]) -> list[Entry]:
    """Give of each notebook its longest run, in the order of the session."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        held = found.get(_subject(entry))
        if held is None or _seconds(entry) > _seconds(held):
            found[_subject(entry)] = entry
    return list(found.values())


def _of_repeats(entries: Sequence[Entry]) -> list[Entry]:
    """Give one entry for each notebook: its longest run, with the highest peak of all its runs."""
    found = []
    for entry in _longest(entries):
        highest = _highest([item for item in entries if _subject(item) == _subject(entry)], Metric.PEAK_FOOTPRINT)
        reading = highest.entry.run.measured(Metric.PEAK_FOOTPRINT) if highest is not None else None
        readings = {**entry.run.readings, Metric.PEAK_FOOTPRINT: reading} if reading is not None else entry.run.readings
        found.append(replace(entry, run=replace(entry.run, readings=readings)))
    return found


def _replication(entries: Sequence[Entry]) -> str:
    lines = [escape(replication_line(_of_repeats(entries))), *_requirements(entries)]
    return "\n".join([lines[0], "", *lines[1:]] if len(lines) > 1 else [*lines, "", "Nothing else was noticed."])


def _requirements(entries: Sequence[Entry]) -> list[str]:
    rows: dict[str, None] = {}
    for entry in entries:
        if entry.verdict.failed:
            rows[f"- {code(entry.location)}: {escape(entry.headline)}"] = None
        for item in entry.run.findings:
            if item.kind in _REQUIREMENTS:
                place = f"{_title(entry)}: {item.place}" if item.place else _title(entry)
                rows[f"- {code(place)}: {escape(item.message)}"] = None
        if entry.verdict.kind is VerdictKind.NOT_MEASURED and not entry.verdict.failed:
            rows[f"- {code(_title(entry))}: {escape(entry.headline)}"] = None
    kept = list(rows)
    more = len(kept) - _FINDINGS
    return kept[:_FINDINGS] + ([f"- and {more} more"] if more > 0 else [])
