"""Collect the remarks of a session: verdicts that call for action, notes, findings, and more; equal ones are joined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from pytest_lecturecheck.model.variant import title_of
from pytest_lecturecheck.report.device_table import compile_groups, device_lines
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import reported_text
from pytest_lecturecheck.report.memory_text import memory_groups
from pytest_lecturecheck.report.profiles import profile_groups
from pytest_lecturecheck.report.style import Paint, Tone
from pytest_lecturecheck.report.text import display_width, fit_middle, wrap
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.verdict import SHARED_MACHINE, VerdictKind

_INDENT: Final = "  "
_LOCATIONS: Final = 4
_MESSAGE_CHARS: Final = 1000
_QUIET: Final = frozenset({VerdictKind.WITHIN, VerdictKind.FITS, VerdictKind.RECORDED})

Group: TypeAlias = tuple[str, list[str]]
"""Equal remarks: the message and its locations."""

_Remark: TypeAlias = tuple[str, str]
"""A message, and what follows the lecture's name in its location (``: code cell 1, line 12``)."""


def remark_groups(entries: Sequence[Entry]) -> list[tuple[str, list[Group]]]:
    """Return the remarks that are not failures by heading, with equal remarks joined and no empty headings."""
    titled = (
        ("Verdicts", _joined(entries, _verdicts)),
        ("Run again", _group((item.rerun_text, item.name) for item in entries if item.rerun_text)),
        ("Notes", _joined(entries, _notes)),
        ("Findings", _joined(entries, _findings)),
        ("GPUs", _group((line, entry.name) for entry in entries for line in device_lines(entry.run))),
        ("Compiler", compile_groups(entries)),
        (
            "Reported by the lectures",
            _group((reported_text(item), item.name) for item in entries if item.run.reported_values),
        ),
        ("Traced cells", profile_groups(entries)),
        ("Memory of cells", memory_groups(entries)),
    )
    return [(title, groups) for title, groups in titled if groups]


def _verdicts(entry: Entry) -> Iterator[_Remark]:
    """Yield a headline that calls for action; failures have their own text, and good verdicts need none."""
    kind = entry.verdict.kind
    if not entry.verdict.failed and kind not in _QUIET:
        yield entry.headline if entry.headline.startswith(kind.value) else f"{kind.value}: {entry.headline}", ""


def _notes(entry: Entry) -> Iterator[_Remark]:
    """Yield the notes of a passing lecture; a failure's own text has its notes."""
    start = f"{SHARED_MACHINE}: "
    for note in () if entry.verdict.failed else entry.verdict.notes:
        # The names of concurrent lectures move to the location, so that equal notes of many lectures join.
        is_shared = note.startswith(start)
        yield (SHARED_MACHINE, f", with {one_line(note.removeprefix(start))}") if is_shared else (note, "")


def _findings(entry: Entry) -> Iterator[_Remark]:
    """Yield the findings that the headline does not report already."""
    for item in entry.run.findings:
        if item.message not in entry.verdict.headline:
            yield item.message, f": {item.place_beside}" if item.place_beside else ""


def _joined(entries: Sequence[Entry], remarks_of: Callable[[Entry], Iterable[_Remark]]) -> list[Group]:
    """Join the remarks of all lectures; one that is in all runs of a lecture is listed once, without its runs."""
    runs: dict[tuple[str, str], int] = {}
    found: dict[tuple[str, tuple[str, str]], dict[str, list[str]]] = {}
    for entry in entries:
        subject = (entry.run.lecture, entry.run.variant)
        runs[subject] = runs.get(subject, 0) + 1
        for message, suffix in dict.fromkeys(remarks_of(entry)):
            found.setdefault((message, subject), {}).setdefault(suffix, []).append(entry.name)
    pairs: list[tuple[str, str]] = []
    for (message, subject), names_by_suffix in found.items():
        suffixes: dict[str, list[str]] = {}
        for suffix, names in names_by_suffix.items():
            who = [one_line(title_of(*subject))] if len(names) == runs[subject] else names
            for name in who:
                suffixes.setdefault(name, []).append(suffix)
        pairs += [(message, _located(name, those)) for name, those in suffixes.items()]
    return _group(pairs)


def _located(name: str, suffixes: Sequence[str]) -> str:
    """Return all locations of one remark in one lecture (``lectures/a.md: code cell 1, line 12; code cell 3``)."""
    first, *others = suffixes[:_LOCATIONS]
    more = [f"and {len(suffixes) - _LOCATIONS} more"] if len(suffixes) > _LOCATIONS else []
    return "; ".join([name + first, *(suffix.removeprefix(": ") for suffix in others if suffix), *more])


def _group(pairs: Iterable[tuple[str, str]]) -> list[Group]:
    """Join equal messages, in the order of their first occurrence."""
    groups: dict[str, list[str]] = {}
    for message, location in pairs:
        locations = groups.setdefault(one_line(message, _MESSAGE_CHARS), [])
        if location not in locations:
            locations.append(location)
    return list(groups.items())


def render_remarks(title: str, groups: Sequence[Group], *, width: int, paint: Paint) -> list[str]:
    """Render one heading with its remarks; of many locations the first few."""
    lines, indent = ["", paint(Tone.TITLE, title)], _INDENT * 3
    for message, locations in groups:
        lines += wrap(message, width, first=_INDENT, rest=_INDENT)
        for location in locations[:_LOCATIONS]:
            rows = _location_rows(location, width - len(indent))
            lines += [f"{indent}{paint(Tone.LOCATION, row)}" for row in rows]
        if len(locations) > _LOCATIONS:
            lines.append(f"{indent}and {len(locations) - _LOCATIONS} more")
    return lines


def _location_rows(location: str, width: int) -> list[str]:
    """Return a location as rows: a name that is too long is shortened, what follows it is wrapped."""
    if display_width(location) <= width:
        return [location]
    name, separator, rest = location.partition(": ")
    if not separator:
        return [fit_middle(location, width)]
    return wrap(f"{fit_middle(name, max(8, width - 1))}: {rest}", width, rest=_INDENT)
