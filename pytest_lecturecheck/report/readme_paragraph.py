"""
Render paragraphs that an author pastes into a README, and a replicator into a report.

The headings are those of the data editors' template README ("Memory, Runtime, Storage Requirements"). Every value is
measured and every statement holds: upper bounds are rounded up ("up to"), lower bounds down ("at least"). See
https://social-science-data-editors.github.io/template_README/.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.bounds import MeasuredBound, bound_of, size_text, time_text
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import NO_VALUE, plural
from pytest_lecturecheck.report.readable_markdown import pasted, span
from pytest_lecturecheck.report.replication_sections import PlatformResult, render_environment, render_tested_on
from pytest_lecturecheck.report.required_changes import render_required_changes
from pytest_lecturecheck.report.terminal.replication import replication_line, subjects_text
from pytest_lecturecheck.verdict import VerdictKind

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_MB: Final = 10**6
_TIMES: Final = (
    (0, "less than 10 minutes", ""),
    (10 * _MINUTE, "10-60 minutes", "10 minutes or more"),
    (_HOUR, "1-2 hours", "1 hour or more"),
    (2 * _HOUR, "2-8 hours", "2 hours or more"),
    (8 * _HOUR, "8-24 hours", "8 hours or more"),
    (_DAY, "1-3 days", "1 day or more"),
    (3 * _DAY, "3-14 days", "3 days or more"),
    (14 * _DAY, "more than 14 days", "more than 14 days"),
)
"""The answers that the template offers: their lower end, their text, and their text for a lower bound."""
_STORAGE: Final = (
    (0, "less than 25 MB", ""),
    (25 * _MB, "25 MB - 250 MB", "25 MB or more"),
    (250 * _MB, "250 MB - 2 GB", "250 MB or more"),
    (2000 * _MB, "more than 2 GB", "more than 2 GB"),
)
_REQUIREMENTS: Final = frozenset(
    {
        FindingKind.SHELL,
        FindingKind.MISSING_PROGRAM,
        FindingKind.INSTALL,
        FindingKind.NO_KERNELSPEC,
        FindingKind.KERNEL,
        FindingKind.GPU,
        FindingKind.NOT_RUN,
    }
)
"""Findings that a reader of the package must know before running the notebooks."""
_NOT_RUN: Final = frozenset({Outcome.SKIPPED, Outcome.NOTHING_TO_RUN})
_FINDINGS: Final = 20


def render_readme(
    entries: Sequence[Entry],
    *,
    platform: str,
    ended: dt.datetime | None,
    began: dt.datetime | None = None,
    version: str = "",
    platforms: Sequence[PlatformResult] = (),
) -> str:
    """
    Render the paragraphs as Markdown: those for a README, and below them those for a replication report.

    Args:
        entries: entries of one session, or the latest ones of each notebook.
        platform: platform label.
        ended: when the last session ended, or ``None``.
        began: when the first session ended, if there were several.
        version: version of this package that measured, or an empty string.
        platforms: the latest runs on each platform, this one included.
    """
    made = [entry for entry in entries if entry.run.outcome not in _NOT_RUN]
    skipped = sorted({_title(entry) for entry in entries if entry.run.outcome is Outcome.SKIPPED})
    blocks = [
        "### Memory, Runtime, Storage Requirements",
        _summary(made, skipped, _day_text(began, ended), version),
        "#### Summary time to reproduce",
        _time_answer(made),
        "#### Summary of required storage space",
        _storage_answer(made),
        "#### Computational details",
        _details(made, platform),
        _table(made),
        *(["#### Tested on", render_tested_on(platforms)] if len(platforms) > 1 else []),
    ]
    return "\n\n".join(blocks) + "\n\n" + render_report_sections(entries)


def render_report_sections(entries: Sequence[Entry]) -> str:
    """Render the paragraphs for a replication report as Markdown."""
    made = [entry for entry in entries if entry.run.outcome not in _NOT_RUN]
    blocks = [
        "### For a replication report",
        _replication(made),
        "#### Computing Environment of the Replicator",
        render_environment(made),
        "#### Required changes",
        render_required_changes(entries),
    ]
    return "\n\n".join(blocks) + "\n"


def _day_text(began: dt.datetime | None, ended: dt.datetime | None) -> str:
    if ended is None:
        return ""
    first, last = (f"{moment.astimezone(dt.UTC):%Y-%m-%d}" for moment in (began or ended, ended))
    return f" on {last}" if first == last else f" between {first} and {last}"


def _summary(entries: Sequence[Entry], skipped: Sequence[str], day: str, version: str) -> str:
    tool = f"pytest-lecturecheck {version}" if version else "pytest-lecturecheck"
    count = len({_subject(entry) for entry in entries})
    text = f"{subjects_text(_longest(entries), 'notebook')} {_was(count)} run{day} and measured with {tool}."
    peaks = _bounds(entries, Metric.PEAK_FOOTPRINT)
    peak = max(peaks.values(), key=lambda found: found.value, default=None)
    named = ""
    # A lower bound below one byte says nothing.
    if peak is None:
        text += " Memory was not measured."
    elif shown := size_text(peak):
        text += f" Peak memory: {peak.phrase} {shown} (in {{}})."
        named = span(_title(peak.entry))
    bad = {_subject(entry): _title(entry) for entry in entries if entry.run.outcome is not Outcome.COMPLETED}
    if bad:
        whose = "its values" if len(bad) == 1 else "their values"
        text += f" {len(bad)} did not run to the end, so {whose} are lower bounds: {', '.join(sorted(bad.values()))}."
    sampled = sum(not found.is_upper and found is not peak and key not in bad for key, found in peaks.items())
    if sampled:
        text += f" For {sampled} other{plural(sampled)}, peak memory is a lower bound (≥ in the table)."
    if skipped:
        text += f" {len(skipped)} {_was(len(skipped))} not run: {', '.join(skipped)}."
    return pasted(text).replace("{}", named, 1)


def _singular(entries: Sequence[Entry]) -> str:
    return " or ".join(_kinds(entries))


def _plural(entries: Sequence[Entry]) -> str:
    return " and ".join(f"{kind}s" for kind in _kinds(entries))


def _kinds(entries: Sequence[Entry]) -> list[str]:
    """Return what the entries are: notebooks, programs, or both."""
    found = sorted({"program" if entry.run.is_program else "notebook" for entry in entries})
    return found or ["notebook"]


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _answer(answers: Sequence[tuple[int, str, str]], value: float, *, is_upper: bool) -> str:
    """Return the template's answer that follows from a bound, or an empty string if none does."""
    _, text, at_least = [item for item in answers if item[0] <= max(value, 0)][-1]
    return text if is_upper else at_least


def _time_answer(entries: Sequence[Entry]) -> str:
    longest = _longest(entries)
    total = sum(_seconds(entry) for entry in longest)
    is_upper = all(entry.run.outcome is Outcome.COMPLETED for entry in longest)
    answer = _answer(_TIMES, total, is_upper=is_upper)
    chosen = f"**{answer}**" if answer else f"unknown, because not all {_plural(entries)} ran to the end"
    measured = time_text(total, is_upper=is_upper)
    starts = " including kernel starts" if "notebook" in _kinds(entries) else ""
    shown = f"{'up to' if is_upper else 'at least'} {measured}{starts}" if measured else "less than 0.1 s"
    beside = len({_subject(entry) for entry in longest if entry.run.concurrent_lectures})
    if beside:
        how = f"the sum over all {_plural(entries)}; {beside} ran at the same time as others, which takes longer"
    else:
        how = f"all {_plural(entries)} one after the other" if len(longest) > 1 else f"one {_singular(entries)}"
    return (
        f"Approximate time needed to reproduce the analyses on the machine below: {chosen} (measured: {shown}, {how})."
    )


def _storage_answer(entries: Sequence[Entry]) -> str:
    longest = _longest(entries)
    rest = "The size of the package and its data is not included."
    bounds = [bound_of([entry], Metric.DISK_WRITTEN) for entry in longest]
    known = [found for found in bounds if found is not None]
    if not known:
        return f"Disk writes were not measured. {rest}"
    is_upper = len(known) == len(longest) and all(found.is_upper for found in known)
    total = sum(found.value for found in known)
    answer = _answer(_STORAGE, total, is_upper=is_upper)
    if is_upper and not total:
        return f"The {_plural(entries)} wrote nothing to the disk (**{answer}**). {rest}"
    shown = size_text(MeasuredBound(value=total, is_upper=is_upper, entry=longest[0]))
    chosen = f"**{answer}**" if answer else "this does not decide between the template's answers"
    if not shown:
        return (
            f"Disk writes were not measured for all {_plural(entries)}; no writes were recorded for the others. {rest}"
        )
    return (
        f"The {_plural(entries)} wrote {'up to' if is_upper else 'at least'} {shown} to the disk ({chosen}): all data "
        f"written, including files that were removed or overwritten. {rest}"
    )


def _details(entries: Sequence[Entry], platform: str) -> str:
    machines = list(dict.fromkeys(entry.run.machine for entry in entries if entry.run.machine is not None))
    lines = [f"The code was last run on: {pasted(machine.text)} ({pasted(platform)})." for machine in machines]
    lines = lines or [f"The code was last run on a machine of the class {pasted(platform)}."]
    return " ".join(lines) + _graphics(machines) + _software(entries)


def _graphics(machines: Sequence[Machine]) -> str:
    machine = next((machine for machine in machines if machine.accelerators), None)
    if machine is None:
        return " No GPU was used."
    driver = f", driver {pasted(machine.driver)}" if machine.driver else ""
    cuda = f", CUDA {pasted(machine.cuda)}" if machine.cuda else ""
    return f" GPU: {pasted(', '.join(machine.accelerators))}{driver}{cuda}."


def _software(entries: Sequence[Entry]) -> str:
    found: list[Software] = [entry.run.software for entry in entries if entry.run.software is not None]
    interpreters = sorted({software.interpreter for software in found if software.interpreter})
    packages = sorted(
        {
            (software.distributions.get(name, name), version)
            for software in found
            for name, version in software.packages.items()
        }
    )
    libraries = sorted({line for software in found for line in software.blas})
    text = f" Software: {pasted(', '.join(interpreters))}" if interpreters else ""
    if packages:
        what = "packages that the notebooks imported, directly or through others: "
        text += f"; {what}" if text else f" {what[0].upper()}{what[1:]}"
        text += pasted(", ".join(f"{name} {version}" for name, version in packages))
    if libraries:
        text += f"; linear algebra: {pasted(', '.join(libraries))}"
    return f"{text}." if text else ""


def _table(entries: Sequence[Entry]) -> str:
    longest = {_subject(entry): entry for entry in _longest(entries)}
    has_gpu = any(entry.run.measured(Metric.GPU_LIVE) is not None for entry in entries)
    gpu_title, gpu_rule = (" GPU memory |", "--:|") if has_gpu else ("", "")
    rows = [
        f"| {_singular(entries)} | peak memory | time |{gpu_title} written | result |",
        f"|---|--:|--:|{gpu_rule}--:|---|",
    ]
    for subject, entry in longest.items():
        runs = [item for item in entries if _subject(item) == subject]
        metrics = (Metric.PEAK_FOOTPRINT, *((Metric.GPU_LIVE,) if has_gpu else ()), Metric.DISK_WRITTEN)
        known = [_bound_text(runs, metric) for metric in metrics]
        known.insert(1, _time_field(entry))
        fields = [
            span(_title(entry)),
            *(text if text == NO_VALUE else pasted(text) for text in known),
            pasted(entry.run.outcome.value),
        ]
        rows.append(f"| {' | '.join(fields)} |")
    one = _singular(entries)
    starts = "; the time includes the kernel's start" if "notebook" in _kinds(entries) else ""
    note = (
        "≤ marks an upper bound, rounded up (counted by the operating system); ≥ a lower bound, rounded down (sampled "
        f"while the {one} ran, or of a {one} that did not run to the end). Peak memory is the total of all "
        f"processes of the {one}{starts}."
    )
    return "\n".join(rows) + f"\n\n{note}"


def _time_field(entry: Entry) -> str:
    is_upper = entry.run.outcome is Outcome.COMPLETED
    shown = time_text(_seconds(entry), is_upper=is_upper)
    return f"{'≤' if is_upper else '≥'} {shown}" if shown else NO_VALUE


def _bound_text(entries: Sequence[Entry], metric: Metric) -> str:
    found = bound_of(entries, metric)
    if found is None:
        return NO_VALUE
    if found.is_upper and not found.value:
        return "nothing"
    shown = size_text(found)
    return f"{'≤' if found.is_upper else '≥'} {shown}" if shown else NO_VALUE


def _bounds(entries: Sequence[Entry], metric: Metric) -> dict[tuple[str, str], MeasuredBound]:
    """Return the bound of each notebook that has one."""
    runs: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        runs.setdefault(_subject(entry), []).append(entry)
    found = {subject: bound_of(items, metric) for subject, items in runs.items()}
    return {subject: bound for subject, bound in found.items() if bound is not None}


def _subject(entry: Entry) -> tuple[str, str]:
    return entry.run.lecture, entry.run.variant


def _title(entry: Entry) -> str:
    return f"{entry.run.lecture} [{entry.run.variant}]" if entry.run.variant else entry.run.lecture


def _seconds(entry: Entry) -> float:
    return entry.seconds or entry.wall_seconds


def _longest(entries: Sequence[Entry]) -> list[Entry]:
    """Return the longest run of each notebook, in the order of the session."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        held = found.get(_subject(entry))
        if held is None or _seconds(entry) > _seconds(held):
            found[_subject(entry)] = entry
    return list(found.values())


def _replication(entries: Sequence[Entry]) -> str:
    lines = [pasted(replication_line(entries, noun="notebook")), *_requirements(entries)]
    return "\n".join([lines[0], "", *lines[1:]] if len(lines) > 1 else [*lines, "", "There were no other findings."])


def _requirements(entries: Sequence[Entry]) -> list[str]:
    rows: dict[str, None] = {}
    for entry in entries:
        if entry.verdict.failed:
            rows[f"- {span(entry.location)}: {pasted(entry.headline)}"] = None
        for item in entry.run.findings:
            if item.kind in _REQUIREMENTS:
                place = f"{_title(entry)}: {item.place}" if item.place else _title(entry)
                rows[f"- {span(place)}: {pasted(item.message)}"] = None
        if entry.verdict.kind is VerdictKind.NOT_MEASURED and not entry.verdict.failed:
            rows[f"- {span(_title(entry))}: {pasted(entry.headline)}"] = None
    kept = list(rows)
    more = len(kept) - _FINDINGS
    return kept[:_FINDINGS] + ([f"- and {more} more"] if more > 0 else [])
