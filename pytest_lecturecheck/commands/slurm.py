"""``lecturecheck slurm``: print an ``sbatch`` command for each lecture; nothing is run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from pytest_lecturecheck.safe_text import plain

HELP: Final = "print an sbatch command for each lecture, with the memory of its budget; nothing is run"
DESCRIPTION: Final = """\
Print, for each lecture, the command that submits it to Slurm as a job of its own, with the memory of its budget and a
margin, and with a GPU if it needs one. Without a budget, memory and time follow from the kept sessions of the platform;
where nothing is known, no memory is requested. The time limit is twice the measured time, and two minutes. Files that
are no lectures are left out. Nothing is submitted; pipe the lines to a shell for that. Call it from pytest's rootdir.

  lecturecheck slurm lectures/*.md             review the lines
  lecturecheck slurm lectures/*.md | sh        submit the jobs
  lecturecheck slurm --script package/*.ipynb > job.sh    one job for a package
  lecturecheck slurm --platform g4dn intro.md  with the budgets of another platform"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the lectures and the platform."""
    parser.add_argument("lectures", nargs="+", type=Path, metavar="LECTURE", help="file of a lecture")
    parser.add_argument("--script", action="store_true", help="print one job script that runs all of them in turn")
    parser.add_argument("--platform", metavar="NAME", help="platform label of the budgets, instead of this machine's")


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """Return the exit status and the commands; what was left out is written to stderr."""
    from pytest_lecturecheck.commands.sbatch_lines import plan_jobs  # noqa: PLC0415 - reading lectures loads nbformat
    from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.probe.machine import detect_platform  # noqa: PLC0415 - as above

    detected = detect_platform(detect_accelerators().model)
    plan = plan_jobs(options.lectures, root=Path.cwd(), platform=options.platform, detected=detected)
    for reason in plan.left_out:
        # Standard output goes to a shell.
        sys.stderr.write(f"lecturecheck: left out: {plain(reason)}\n")
    return 0, plan.script() if options.script else plan.lines()
