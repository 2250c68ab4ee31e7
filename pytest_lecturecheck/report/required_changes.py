"""
Render the changes to ask the authors of a package for, in the words of the AEA Data Editor's replication report.

The sentences are those of https://github.com/AEADataEditor/replication-template: "complete computational requirements"
and its checklist stand in REPLICATION.md under "Missing computational requirements", the others in
sample-language-report.md under "Code". Every request names the notebooks and lines that it rests on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.bounds import bound_of, size_text, time_text
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.readable_markdown import pasted, span
from pytest_lecturecheck.report.replication_sections import made_entries
from pytest_lecturecheck.report.terminal.replication import has_declared, package_comparisons
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.verdict import VerdictKind

_BAD_ENDS: Final = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.DIED})
_UNSTATED: Final = frozenset({FindingKind.MISSING_PROGRAM, FindingKind.INSTALL})
_MISSING_MODULES: Final = frozenset({"ModuleNotFoundError", "ImportError"})
_NO_R_PACKAGE: Final = re.compile(r"there is no package called")
_DEBUG: Final = "Please provide debugged code, addressing the issues identified in this report."
_REQUIREMENTS: Final = "Please amend README to contain complete computational requirements."
_PYTHON: Final = (
    "Please provide a `requirements.txt` or `environment.yml` file to install all Python dependencies. "
    "Please specify all necessary commands."
)
_R: Final = "Please add a setup program that installs all R packages. Please specify all necessary commands."
_MOST_PLACES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """
    One change to ask for.

    Attributes:
        text: the sentence.
        places: what it rests on: a place, and what was found there; unsafe text.
        is_missing_package: whether it is about packages that were not installed.
    """

    text: str
    places: tuple[tuple[str, str], ...]
    is_missing_package: bool = False


def find_requests(entries: Sequence[Entry]) -> tuple[ChangeRequest, ...]:
    """Return the changes that follow from runs of a package; each is required."""
    made = made_entries(entries)
    python = [entry for entry in made if _error_name(entry) in _MISSING_MODULES]
    r = [entry for entry in made if entry.run.evidence is not None and _NO_R_PACKAGE.search(_error_text(entry))]
    broken = [entry for entry in made if entry.run.outcome in _BAD_ENDS and entry not in python and entry not in r]
    needs = [entry for entry in made if entry.verdict.kind is VerdictKind.NOT_FITTING]
    unstated = [
        (", ".join(filter(None, (_title(entry), item.place))), item.message)
        for entry in made
        for item in entry.run.findings
        if item.kind in _UNSTATED
    ]
    package = [("package", item.message) for item in package_comparisons(made) if item.kind is VerdictKind.NOT_FITTING]
    # The template wants the last sentence beside each request for a setup program.
    found = [
        (_PYTHON, _places(python)),
        (_R, _places(r)),
        (_DEBUG, _places(broken)),
        (_REQUIREMENTS, [*_places(python), *_places(r), *_places(needs), *unstated, *(() if needs else package)]),
    ]
    return tuple(
        ChangeRequest(text=text, places=tuple(dict.fromkeys(places)), is_missing_package=text in {_PYTHON, _R})
        for text, places in found
        if places
    )


def render_required_changes(entries: Sequence[Entry]) -> str:
    """Render the changes as Markdown for a replication report, each with what it rests on."""
    blocks = [_change(request) for request in find_requests(entries)]
    made = made_entries(entries)
    if checklist := _checklist(made):
        blocks.append("##### Missing computational requirements\n\n" + "\n".join(checklist))
    if made and not has_declared(made) and not _is_declared_for_failures(made):
        blocks.append(
            "Nothing was declared for these runs (`--lecture-declared-memory`, `--lecture-declared-time`). If the "
            f"README states neither memory nor time, ask for both:\n\n> [REQUIRED] {_REQUIREMENTS}"
        )
    return "\n\n".join(blocks) or "None follow from these runs."


def _is_declared_for_failures(made: Sequence[Entry]) -> bool:
    """Return True if memory was declared for a run that ended badly, which is compared with nothing."""
    found = [entry.run.evidence for entry in made if entry.run.evidence is not None]
    return any(evidence.memory.declared_bytes is not None for evidence in found)


def _change(request: ChangeRequest) -> str:
    shown = [f"- {span(place)}: {pasted(text)}" for place, text in request.places[:_MOST_PLACES]]
    more = len(request.places) - len(shown)
    return "\n".join([f"> [REQUIRED] {request.text}", "", *shown, *([f"- and {more} more"] if more else [])])


def _checklist(made: Sequence[Entry]) -> list[str]:
    """Return the checklist of the report's template; what is missing is checked."""
    modules = sorted({text for entry in made if _error_name(entry) in _MISSING_MODULES if (text := _error_text(entry))})
    packages = sorted({text for entry in made if _NO_R_PACKAGE.search(text := _error_text(entry))})
    lines = ["- [x] Software Requirements"] if modules or packages else []
    for title, found in (("Python", modules), ("R", packages)):
        lines += [f"  - [x] {title}", *(f"    - {pasted(text)}" for text in found)] if found else []
    comparisons = [item for entry in made for item in entry.exceeded.values()]
    exceeded = {item.metric for item in comparisons if item.kind is VerdictKind.NOT_FITTING}
    exceeded |= {item.metric for item in package_comparisons(made) if item.kind is VerdictKind.NOT_FITTING}
    if has_declared(made):
        lines += _resource_lines(made, exceeded)
    return lines


def _resource_lines(made: Sequence[Entry], exceeded: set[Metric]) -> Iterator[str]:
    memory, disk = (bound_of(made, metric) for metric in (Metric.PEAK_FOOTPRINT, Metric.DISK_WRITTEN))
    if Metric.PEAK_FOOTPRINT in exceeded and memory is not None:
        yield "- [x] Computational Requirements specified as follows:"
        yield f"  - memory: {memory.phrase} {size_text(memory)} (in {span(_title(memory.entry))})"
    if Metric.DISK_WRITTEN in exceeded and disk is not None:
        yield f"  - disk: {disk.phrase} {size_text(disk)}"
    if Metric.WALL in exceeded:
        is_whole = all(entry.run.outcome is Outcome.COMPLETED for entry in made)
        total = time_text(sum(entry.seconds or entry.wall_seconds for entry in made), is_upper=is_whole)
        yield "- [x] Time Requirements"
        yield f"  - {'up to' if is_whole else 'at least'} {total} for {len(made)} run{'' if len(made) == 1 else 's'}"


def _error_name(entry: Entry) -> str:
    evidence = entry.run.evidence
    return evidence.error.name if evidence is not None and evidence.error is not None else ""


def _error_text(entry: Entry) -> str:
    evidence = entry.run.evidence
    return one_line(evidence.error.value) if evidence is not None and evidence.error is not None else ""


def _places(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    return [(entry.location, entry.headline) for entry in entries]


def _title(entry: Entry) -> str:
    return f"{entry.run.lecture} [{entry.run.variant}]" if entry.run.variant else entry.run.lecture
