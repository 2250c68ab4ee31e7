"""``lecturecheck audit``: faults of what surrounds the lectures."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.errors import LectureCheckError

if TYPE_CHECKING:
    from pytest_lecturecheck.repository.workflow_audit import RepositoryTimes

HELP: Final = "place each lecture (CPU, GPU, readers), or find faults of workflows with --ci"
DESCRIPTION: Final = """\
Without --ci: print for every lecture where it belongs (pinned to the CPU, a GPU helps, it shows a GPU, unsafe with
several at once, undecided), and which readers can run it: Binder, Colab, Codespaces, a laptop, and [targets] of the
settings. Runs decide where some are kept, else the source; each line says which. The line of front matter that would
pin it is printed.

With --ci: read .github/workflows, the book's configuration and the budgets, and print why a broken lecture
could pass: each fault with its line, the reason, and the line that mends it. Nothing is run, and nothing is sent.

  lecturecheck audit                      the lectures of this repository
  lecturecheck audit --ci                 the workflows of this repository
  lecturecheck audit --ci --root ../book  those of another one
  lecturecheck audit --ci --json          for other programs

What is found: a first build whose exit status cannot fail, builds whose status gets lost in a pipe or behind another
command, jobs without timeout-minutes or far from the recorded times, spot machines for publishing, a compile cache that
is not kept, reports that are not uploaded if the build fails. Exit status: 0 if nothing was found; 1 if
something was; 2 if something cannot be read."""
_BOOK_FOLDERS: Final = ("", "lectures", "book", "docs", "source", "src")
_MYST_NB_SECONDS: Final = 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--ci", action="store_true", help="look at the workflows of GitHub Actions")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--root", type=Path, metavar="DIR", help="top of the repository (default: here)")


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Print the faults.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: settings or a workflow cannot be read.
    """
    if not options.ci:
        from pytest_lecturecheck.commands.lecture_audit import audit_lectures  # noqa: PLC0415 - reads lectures

        return audit_lectures(options, (options.root or Path.cwd()).resolve())
    from pytest_lecturecheck.repository.workflow_audit import audit_workflows  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.repository.workflow_file import read_workflows  # noqa: PLC0415 - as above
    from pytest_lecturecheck.safe_text import one_line  # noqa: PLC0415 - as above

    root: Path = (options.root or Path.cwd()).resolve()
    workflows = read_workflows(root)
    faults = audit_workflows(workflows, _times(root))
    status = 1 if faults else 0
    if options.json:
        return status, [json.dumps({"schema": 1, "faults": [asdict(fault) for fault in faults]}, indent=2)]
    lines = []
    for fault in faults:
        lines += [
            f"{fault.path}:{fault.line}: {fault.kind}: {one_line(fault.why, 500)}",
            f"    mend: {one_line(fault.mend, 300)}",
        ]
    jobs = sum(len(workflow.jobs) for workflow in workflows)
    counts = f"{_count(len(workflows), 'workflow')} with {_count(jobs, 'job')}: {_count(len(faults), 'fault')}"
    return status, [*lines, counts]


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _times(root: Path) -> RepositoryTimes:
    """Return what book and budgets say about times; a book that cannot be read says nothing here."""
    from pytest_lecturecheck.lecture.book.configuration import read_book  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.repository.workflow_audit import RepositoryTimes  # noqa: PLC0415 - as above

    seconds, origin, raises = None, "", False
    for name in _BOOK_FOLDERS:
        try:
            book = read_book(root / name)
        except LectureCheckError:
            continue
        if book is None or book.source not in {"_config.yml", "conf.py"}:
            continue
        where = f"{name}/" if name else ""
        stated = book.settings.timeout_seconds
        seconds = _MYST_NB_SECONDS if stated is None else stated
        origin = (
            f"{where}{book.settings.origin('timeout_seconds')}" if stated is not None else "the default of the book"
        )
        raises = _raises_errors(root / name / book.source)
        break
    return RepositoryTimes(
        cell_seconds=seconds, cell_origin=origin, whole_seconds=_recorded_seconds(root), raises_errors=raises
    )


def _raises_errors(path: Path) -> bool:
    import re  # noqa: PLC0415 - not for help

    from pytest_lecturecheck.files import MOST_SETTINGS_BYTES, read_plain_text  # noqa: PLC0415 - as above

    try:
        text = read_plain_text(path, most_bytes=MOST_SETTINGS_BYTES, errors="replace")
    except OSError:
        return False
    return re.search(r"^\s*(?:nb_execution_)?raise_on_error\s*[:=]\s*[Tt]rue", text, re.MULTILINE) is not None


def _recorded_seconds(root: Path) -> float | None:
    """Return the longest sum of recorded times of all platforms, or ``None``."""
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.model.metric import Metric  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.budget_file.files import load_folder  # noqa: PLC0415 - as above

    try:
        platforms = load_folder(resolve({}, root, root).budget_folder)
    except LectureCheckError:
        return None
    sums = []
    for budgets in platforms.values():
        walls = [budget.metrics.get(Metric.WALL) for budget in budgets.lectures.values()]
        sums.append(sum(max(wall.seen) for wall in walls if wall is not None and wall.seen))
    return max(sums, default=0.0) or None
