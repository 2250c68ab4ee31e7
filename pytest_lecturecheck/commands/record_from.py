"""``lecturecheck record-from``: write budgets from JSON reports that CI has already produced."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.commands.arguments import add_root, count, width
from pytest_lecturecheck.errors import LectureCheckError

if TYPE_CHECKING:
    from pytest_lecturecheck.commands.session_recording import PlannedRecording, SelectedRuns

HELP: Final = "write budgets from the JSON reports of several CI jobs, without running anything"
DESCRIPTION: Final = """\
Record the runs of several JSON reports as budgets, as pytest --lecture-record does: the same limits, the same lectures
left out, limits set by hand kept. A machine that is paid by the minute then need not run everything three times.
Each report goes to the budget file of its platform. A run that is in two files counts once.

  lecturecheck record-from jobs/*/report.json      lectures with at least 3 complete runs
  lecturecheck record-from a.json --least-runs 1   fewer runs: a rare high value may be missing
  lecturecheck record-from *.json --dry-run        show the changes, and write nothing
  lecturecheck record-from *.json --patch b.patch  write the changes as a patch for git apply, and no budget file

A lecture is left out and named if one of its runs failed, or if a finding failed it under --lecture-strict. Runs that
were skipped or stopped by hand do not count. lecturecheck record does the same for one kept session.
Exit status: 0; 2 if nothing can be recorded or a file cannot be used."""
_LEAST_RUNS: Final = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "reports", nargs="+", type=Path, metavar="REPORT", help="a JSON file that --lecture-report wrote"
    )
    parser.add_argument(
        "--least-runs",
        type=count,
        default=_LEAST_RUNS,
        metavar="N",
        help=f"fewest complete runs of a lecture over all reports (default: {_LEAST_RUNS})",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the changes, and write nothing")
    parser.add_argument("--patch", type=Path, metavar="FILE", help="write a patch instead of budget files")
    add_root(parser)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Record the reports.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: no lecture has enough runs, or a file cannot be read or written.
    """
    from pytest_lecturecheck.commands.session_lookup import root_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.commands.session_recording import plan_recording, save_recording, select_runs  # noqa: PLC0415 - as above
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.budget_file.files import budget_path  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.session_history import read_session  # noqa: PLC0415 - as above

    root: Path = root_of(options)
    settings = resolve({}, root, root)
    selected = select_runs([read_session(path) for path in options.reports], options.least_runs)
    if not any(item.recordable_count for item in selected):
        raise LectureCheckError(_why_nothing(selected, len(options.reports), options.least_runs))
    plans = [
        plan_recording(budget_path(settings.budget_folder, item.platform), item, settings.tolerance)
        for item in selected
    ]
    lines: list[str] = []
    for plan in plans:
        shown = plan.path.relative_to(root).as_posix() if plan.path.is_relative_to(root) else str(plan.path)
        lines += [*([f"{plan.selected.platform}:"] if len(plans) > 1 else []), *plan.lines(width())]
        if plan.before == plan.after:
            lines.append(f"budgets in {shown} are unchanged")
        elif options.dry_run or options.patch is not None:
            lines.append(f"nothing written to {shown} ({'--dry-run' if options.dry_run else '--patch'})")
        else:
            save_recording(plan, settings.tolerance)
            lines.append(f"budgets written to {shown}")
    if options.patch is not None and not options.dry_run:
        lines.append(_write_patch(options.patch, plans))
    return 0, lines


def _why_nothing(selected: Sequence[SelectedRuns], report_count: int, least: int) -> str:
    few = {name: count for item in selected for name, count in item.too_few.items()}
    reports = "1 report" if report_count == 1 else f"{report_count} reports"
    if not few:
        return f"{reports}: no lecture has complete runs only, so there is nothing to record"
    most = max(few.values())
    return (
        f"{reports}: no lecture has {least} complete runs (at most {most}), so there is nothing to record; name more "
        f"reports, or accept fewer with --least-runs {most}"
    )


def _write_patch(path: Path, plans: Sequence[PlannedRecording]) -> str:
    from pytest_lecturecheck.store.atomic import write_text_atomically  # noqa: PLC0415 - only for a patch
    from pytest_lecturecheck.store.budget_file.budget_patch import budget_patch  # noqa: PLC0415 - as above

    text = "".join(budget_patch(plan.path, plan.after) for plan in plans)
    try:
        write_text_atomically(path, text, follows_links=False)
    except OSError as exc:
        msg = f"{path}: cannot be written: {exc.strerror or exc}"
        raise LectureCheckError(msg) from exc
    return f"patch written to {path}; git apply {path} at the top of the repository" if text else f"{path} is empty"
