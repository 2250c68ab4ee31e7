"""The ``lecturecheck`` command: budgets and reports without pytest."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck import __version__
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators
from pytest_lecturecheck.probe.machine import detect_machine, detect_platform
from pytest_lecturecheck.store.budgets import load_folder

_USAGE_ERROR: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command.

    Returns:
        The exit status: 0, or 2 where something cannot be used as it is.
    """
    parser = argparse.ArgumentParser(
        prog="lecturecheck", description="Check budget files and name platforms, without pytest."
    )
    parser.add_argument("--version", action="version", version=f"pytest-lecturecheck {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("platform", help="print this machine's platform label and what a run could have of it")
    validate = commands.add_parser("validate", help="check budget files, and say every fault with file, line and key")
    validate.add_argument("folder", nargs="?", type=Path, default=Path("lecture-budgets"), metavar="DIR")
    options = parser.parse_args(arguments)
    try:
        lines = _platform_lines() if options.command == "platform" else _validate_lines(options.folder)
    except LectureCheckError as exc:
        sys.stderr.write(f"lecturecheck: {exc}\n")
        return _USAGE_ERROR
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _platform_lines() -> list[str]:
    found = detect_accelerators()
    machine = detect_machine(accelerators=found.names, driver=found.driver, cuda=found.cuda)
    fault = [f"the GPU cannot be used here: {found.reason}"] if found.is_fault else []
    return [detect_platform(found.model), machine.text, *fault]


def _validate_lines(folder: Path) -> list[str]:
    if not folder.is_dir():
        msg = f"{folder}: there is no such folder; expected the folder of the budget files"
        raise LectureCheckError(msg)
    budgets = load_folder(folder)
    return [f"{label}: {len(found.lectures)} budgets" for label, found in sorted(budgets.items())] or [
        "no budget files"
    ]
