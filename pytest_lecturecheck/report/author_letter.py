"""
Render a text for asking the authors of a package: what was run, what went wrong, what to change, what to tell us.

An editor sends it, so it is made to be read and edited: plain text with the lines that the report has as Markdown.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.bounds import bound_of, size_text, time_text
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.replication_sections import made_entries
from pytest_lecturecheck.report.required_changes import find_requests
from pytest_lecturecheck.report.terminal.replication import subjects_text
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.verdict import VerdictKind
from pytest_lecturecheck.verdict.joint_failures import JOINT_NOTE

FILE_NAME: Final = "letter-to-authors.txt"
_MOST_LINES: Final = 4
_QUESTIONS: Final = (
    "On which system and processor (x86-64, or ARM such as Apple silicon) did it last run to the end?",
    "How much memory did it take at its peak there, and how was that measured?",
)
_PYTHON_QUESTIONS: Final = (
    "Which versions did it use? The output of `python -V` and `pip freeze` (or `conda list`) is enough.",
    'Which BLAS is below NumPy? `python -c "import numpy; numpy.show_config()"` prints it.',
)
_OTHER_QUESTION: Final = (
    "Which versions did it use? In R, the output of `sessionInfo()` after `library(...)` is enough."
)


def render_author_letter(entries: Sequence[Entry]) -> str:
    """
    Render the text; the greeting and the name below it are left to the editor.

    Args:
        entries: the latest runs of each notebook.
    """
    made = made_entries(entries)
    bad = [entry for entry in made if entry.run.outcome is not Outcome.COMPLETED]
    over = [entry for entry in made if entry.verdict.kind is VerdictKind.NOT_FITTING]
    lines = [*_opening(made, bad), *_problems([*bad, *over])]
    requests = find_requests(entries)
    if requests:
        lines += ["", "We ask you to change the following:", ""]
        for number, request in enumerate(requests, start=1):
            lines += [f"{number}. {request.text}", *(f"   - {one_line(place)}" for place, _ in request.places)]
    named = {place for request in requests if request.is_missing_package for place, _ in request.places}
    # A missing package explains the end; other ends may have a reason that only the other system shows.
    if puzzling := [entry for entry in bad if entry.location not in named]:
        lines += _questions(puzzling)
    return "\n".join(lines) + "\n"


def _questions(entries: Sequence[Entry]) -> Iterator[str]:
    names = ", ".join(dict.fromkeys(one_line(entry.run.lecture) for entry in entries))
    yield from ("", f"To find out why {names} ended differently here, please tell us:", "")
    yield from (f"- {question}" for question in _QUESTIONS)
    if any(not entry.run.is_program for entry in entries):
        yield from (f"- {question}" for question in _PYTHON_QUESTIONS)
    if any(entry.run.is_program for entry in entries):
        yield f"- {_OTHER_QUESTION}"
    yield from ("", "These commands write all of it into files, which we can set beside ours step by step:", "")
    yield "    pip install pytest-lecturecheck"
    notebooks = dict.fromkeys(shlex.quote(one_line(entry.run.lecture)) for entry in entries if not entry.run.is_program)
    if notebooks:
        yield f"    pytest --lecture-budget --lecture-report notebooks.json {' '.join(notebooks)}"
    for number, entry in enumerate((entry for entry in entries if entry.run.is_program), start=1):
        yield f"    lecturecheck run --report program-{number}.json -- {one_line(entry.source) or 'PROGRAM'}"


def _opening(made: Sequence[Entry], bad: Sequence[Entry]) -> Iterator[str]:
    machines = dict.fromkeys(entry.run.machine.text for entry in made if entry.run.machine is not None)
    yield f"We ran {subjects_text(made, 'notebook')} of your package"
    yield f"on {one_line(next(iter(machines), 'a machine that was not recorded'))}."
    yield f"{subjects_text(bad, 'notebook')} did not run to the end." if bad else "All of them ran to the end."


def _problems(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        yield ""
        cell = f", code cell {entry.focus.number}" if entry.focus is not None and not entry.run.is_program else ""
        yield f"{one_line(entry.location)}{cell}"
        yield f"  {entry.headline}"
        bound = bound_of([entry], Metric.PEAK_FOOTPRINT)
        is_whole = entry.run.outcome is Outcome.COMPLETED
        time = time_text(entry.seconds or entry.wall_seconds, is_upper=is_whole)
        if bound is not None and (size := size_text(bound)) and time:
            yield f"  Measured: memory {bound.phrase} {size}, time {'up to' if is_whole else 'at least'} {time}."
        cause = entry.verdict.cause
        yield from (f"  {one_line(line)}" for line in (cause.evidence if cause is not None else ())[:_MOST_LINES])
        yield from (f"  Note: {one_line(note)}" for note in entry.verdict.notes if note.startswith(JOINT_NOTE))
