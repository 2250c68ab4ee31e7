"""``lecturecheck budgets diff``: what a branch changes in the budgets, for the review of a pull request."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck.commands.arguments import add_root

if TYPE_CHECKING:
    from pytest_lecturecheck.budget.limits import PlatformBudgets

HELP: Final = "show as Markdown what a branch changes in the budget files"
DESCRIPTION: Final = """\
Compare the budget files with those of a commit: which lecture grew on which platform, by how much, in which cell, which
limits a person has set, which lectures were added or removed. The files are those of the working folder, committed or
not. Nothing is run and nothing is written.

  lecturecheck budgets diff origin/main            Markdown, for a comment on a pull request or a job summary
  lecturecheck budgets diff HEAD~1 --json          for programs; sizes in bytes, times in seconds
  lecturecheck budgets diff origin/main >> "$GITHUB_STEP_SUMMARY"

Exit status: 0, whatever differs; 2 if a file cannot be used or there is no such commit."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(dest="action", metavar="diff", required=True)
    diff = actions.add_parser(
        "diff", help=HELP, description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    diff.add_argument("reference", metavar="REF", help="a branch, a tag or a commit, for example origin/main")
    diff.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    add_root(diff)


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Compare the budgets.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: a budget file has faults, or git has no such commit.
    """
    from pytest_lecturecheck.budget.budget_comparison import compare_budgets  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.budget.limits import PlatformBudgets  # noqa: PLC0415 - as above
    from pytest_lecturecheck.commands.session_lookup import root_of  # noqa: PLC0415 - as above
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - as above
    from pytest_lecturecheck.report.budget_review import render_budget_review, render_budget_review_json  # noqa: PLC0415 - as above
    from pytest_lecturecheck.repository.git import find_commit  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.budget_file.files import load_folder  # noqa: PLC0415 - as above

    root: Path = root_of(options)
    folder = resolve({}, root, root).budget_folder
    commit = find_commit(root, options.reference)
    before, after = _at(folder, commit, options.reference), load_folder(folder)
    differences = [
        difference
        for label in sorted({*before, *after})
        for difference in compare_budgets(
            before.get(label) or PlatformBudgets(platform=label), after.get(label) or PlatformBudgets(platform=label)
        )
    ]
    if options.json:
        text = render_budget_review_json(differences, reference=options.reference, commit=commit)
    else:
        text = render_budget_review(differences, reference=options.reference)
    return 0, text.rstrip("\n").split("\n")


def _at(folder: Path, commit: str, reference: str) -> dict[str, PlatformBudgets]:
    from pytest_lecturecheck.repository.committed_files import read_committed  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.store.budget_file.files import parse_budgets  # noqa: PLC0415 - as above

    found = read_committed(folder, commit, ".toml")
    parsed = [parse_budgets(Path(f"{reference}:{folder.name}/{name}"), data) for name, data in sorted(found.items())]
    return {budgets.platform: budgets for budgets in parsed}
