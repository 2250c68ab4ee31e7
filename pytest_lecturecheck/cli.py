"""The ``lecturecheck`` command: budgets and reports without pytest."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck import __version__
from pytest_lecturecheck.commands import compare, readme, report, show
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators
from pytest_lecturecheck.probe.machine import detect_machine, detect_platform
from pytest_lecturecheck.store.budgets import load_folder

_USAGE_ERROR: Final = 2
_OVER_SESSIONS: Final = {"report": report, "compare": compare, "show": show, "readme": readme}
"""Commands over kept sessions."""


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command.

    Returns:
        The exit status: 0, 1 where a comparison found too much, or 2 where something cannot be used as it is.
    """
    parser = argparse.ArgumentParser(
        prog="lecturecheck", description="Budget files, platforms, and what sessions found out, without pytest."
    )
    parser.add_argument("--version", action="version", version=f"pytest-lecturecheck {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("platform", help="print this machine's platform label and what a run could have of it")
    validate = commands.add_parser("validate", help="check budget files, and say every fault with file, line and key")
    validate.add_argument("folder", nargs="?", type=Path, default=Path("lecture-budgets"), metavar="DIR")
    slurm = commands.add_parser(
        "slurm", help="print a line for sbatch for each lecture, with the memory of its budget; nothing is run"
    )
    slurm.add_argument("lectures", nargs="+", type=Path, metavar="LECTURE")
    slurm.add_argument("--platform", metavar="NAME", help="platform label of the budgets, instead of this machine's")
    for name, module in _OVER_SESSIONS.items():
        described = argparse.RawDescriptionHelpFormatter
        added = commands.add_parser(name, help=module.HELP, description=module.DESCRIPTION, formatter_class=described)
        module.add_arguments(added)
    options = parser.parse_args(arguments)
    try:
        over = _OVER_SESSIONS.get(options.command)
        status, lines = over.run(options) if over is not None else (0, _lines(options))
    except LectureCheckError as exc:
        sys.stderr.write(f"lecturecheck: {exc}\n")
        return _USAGE_ERROR
    _write("".join(f"{line}\n" for line in lines))
    return status


def _write(text: str) -> None:
    """Write what the encoding of stdout has; other characters as escapes."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _lines(options: argparse.Namespace) -> list[str]:
    if options.command == "platform":
        return _platform_lines()
    if options.command == "validate":
        return _validate_lines(options.folder)
    from pytest_lecturecheck.submitting import sbatch_lines  # noqa: PLC0415 - reading lectures loads nbformat

    detected = detect_platform(detect_accelerators().model)
    return list(sbatch_lines(options.lectures, root=Path.cwd(), platform=options.platform, detected=detected))


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
