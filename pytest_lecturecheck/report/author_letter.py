"""
Render a text for asking the authors of a package: what was run, what went wrong, what to change, what to tell us.

An editor sends it, so it is made to be read and edited: plain text with the lines that the report has as Markdown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.bounds import bound_of, size_text, time_text
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import plural
from pytest_lecturecheck.report.replication_sections import made_entries
from pytest_lecturecheck.report.required_changes import find_requests
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.verdict import VerdictKind

FILE_NAME: Final = "letter-to-authors.txt"
_MOST_LINES: Final = 4
_QUESTIONS: Final = (
    "On which system and processor (x86-64, or ARM such as Apple silicon) did it last run to the end?",
    "How much memory did it take at its peak there, and how was that measured?",
    "Which versions did it use? The output of `python -V` and `pip freeze` (or `conda list`) is enough.",
    'Which BLAS is below NumPy? `python -c "import numpy; numpy.show_config()"` prints it.',
)
_COMMANDS: Final = (
    "pip install pytest-lecturecheck",
    "pytest --lecture-budget --lecture-report report.json {names}",
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
    if bad:
        lines += ["", "To find out why it ends differently here, please tell us for each notebook above:", ""]
        lines += [f"- {question}" for question in _QUESTIONS]
        lines += [
            "",
            "These two commands write all of it into one file, which we can set beside ours cell by cell:",
            "",
        ]
        names = " ".join(dict.fromkeys(one_line(entry.run.lecture) for entry in bad if not entry.run.is_program))
        lines += [f"    {command.format(names=names or 'PACKAGE')}" for command in _COMMANDS]
    return "\n".join(lines) + "\n"


def _opening(made: Sequence[Entry], bad: Sequence[Entry]) -> Iterator[str]:
    names = dict.fromkeys(one_line(entry.run.lecture) for entry in made)
    machines = dict.fromkeys(entry.run.machine.text for entry in made if entry.run.machine is not None)
    yield (
        f"We ran {len(names)} notebook{plural(len(names))} or programs of your package"
        if len(names) > 1
        else (f"We ran {next(iter(names), 'nothing')} of your package")
    )
    yield f"on {one_line(next(iter(machines), 'a machine that was not recorded'))}."
    ends = len(dict.fromkeys(entry.run.lecture for entry in bad))
    yield f"{ends} of {len(names)} did not run to the end." if ends else "All of them ran to the end."


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
        yield from (f"  Note: {one_line(note)}" for note in entry.verdict.notes if note.startswith("over several runs"))
