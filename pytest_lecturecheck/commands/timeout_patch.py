"""The patch of ``lecturecheck findings --timeouts``: proposed timeouts in front matter, book and workflows."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.files import MOST_SETTINGS_BYTES, read_plain_bytes
from pytest_lecturecheck.findings.measured import Measured
from pytest_lecturecheck.findings.timeout_edits import with_book_timeout, with_job_timeout, with_own_timeout
from pytest_lecturecheck.findings.timeouts import ProposedTimeouts, propose_timeouts
from pytest_lecturecheck.repository.build_steps import find_builds, is_gate
from pytest_lecturecheck.repository.workflow_file import Job, has_workflows, read_workflows
from pytest_lecturecheck.safe_text import one_line

_BOOKS: Final = ("_config.yml", "lectures/_config.yml", "book/_config.yml", "docs/_config.yml")
_MOST_LECTURE_BYTES: Final = 16 * MOST_SETTINGS_BYTES


def timeout_patch(measured: Measured, root: Path) -> tuple[str, list[str]]:
    """
    Return a patch for ``git apply`` in ``root``, and lines about what it proposes and what has to be set by hand.

    Raises:
        LectureCheckError: no lecture ran to its end, or a workflow cannot be read.
    """
    proposed = propose_timeouts(measured)
    if proposed is None:
        msg = "no lecture ran to its end in these sessions, so no timeout can be proposed"
        raise LectureCheckError(msg)
    count = "1 lecture" if proposed.lecture_count == 1 else f"{proposed.lecture_count} lectures"
    cells = f"cells: {proposed.default_seconds} s for all, from {count}"
    notes = [f"{cells}; jobs: {proposed.job_minutes} min for all lectures one after another"]
    parts = []
    for name, edit in _edits(proposed, root):
        text = _read(root, name)
        changed = None if text is None else edit(text)
        if text is None or changed is None:
            notes.append(f"{one_line(name)}: not changed, set it by hand")
        elif changed != text:
            parts.append(_diff(name, text, changed))
    return "".join(parts), notes


def _edits(proposed: ProposedTimeouts, root: Path) -> Iterator[tuple[str, Callable[[str], str | None]]]:
    for name, seconds in proposed.own_seconds.items():
        yield name, lambda text, seconds=seconds: with_own_timeout(text, seconds)  # type: ignore[misc]
    book = next((name for name in _BOOKS if (root / name).is_file()), None)
    if book is not None:
        yield book, lambda text: with_book_timeout(text, proposed.default_seconds)
    for workflow in read_workflows(root) if has_workflows(root) else ():
        # From the last job to the first, so that lines stay where they are.
        jobs = sorted((job for job in workflow.jobs if _runs_lectures(job)), key=lambda job: -job.line)

        def edit(text: str, jobs: list[Job] = jobs) -> str | None:
            changed: str | None = text
            for job in jobs:
                line = job.timeout_line if job.timeout_minutes is not None else job.runner_line
                changed = None if changed is None else with_job_timeout(changed, line, proposed.job_minutes)
            return changed

        if jobs:
            yield workflow.shown, edit


def _runs_lectures(job: Job) -> bool:
    return any(is_gate(step) or any(find_builds(step)) for step in job.steps)


def _read(root: Path, name: str) -> str | None:
    """Return the text of a file of the repository; a report of others may name any path."""
    try:
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            return None
        return read_plain_bytes(path, most_bytes=_MOST_LECTURE_BYTES).decode("utf-8")
    except (OSError, ValueError):
        return None


def _diff(name: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
