"""The ``lecturecheck`` command: budgets and reports without pytest."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_lecturecheck import __version__
from pytest_lecturecheck.commands import (
    audit,
    budgets,
    compare,
    env,
    explain,
    findings,
    fit,
    plan,
    readme,
    record,
    record_from,
    recover,
    report,
    run,
    show,
    validate,
)
from pytest_lecturecheck.commands.arguments import width
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.report.text import wrap
from pytest_lecturecheck.safe_text import plain

if TYPE_CHECKING:
    from pytest_lecturecheck.model.device import Device

_USAGE_ERROR: Final = 2
_LEAST_COLUMNS: Final = 20
_MODULES: Final = {
    "validate": validate,
    "report": report,
    "compare": compare,
    "explain": explain,
    "show": show,
    "readme": readme,
    "findings": findings,
    "plan": plan,
    "record": record,
    "record-from": record_from,
    "budgets": budgets,
    "recover": recover,
    "env": env,
    "audit": audit,
    "run": run,
    "fit": fit,
}
"""Commands with a module of their own."""
_PLATFORM: Final = """\
Print the label of this machine's budgets (the name of their file in lecture-budgets), and what a run can use of it:
system, processor, cores, memory, limits, GPUs. For each GPU: compute capability, how slow float64 is, and whether it
meets what the installed JAX needs.

  lecturecheck platform                        linux-x86_64-cpu, and a line about the machine
  pytest --lecture-platform NAME ...           use another label for a session"""
_SLURM: Final = """\
Print, for each lecture, the command that submits it to Slurm as a job of its own, with the memory of its budget and a
margin, and with a GPU if it needs one. Without a budget, no memory is requested. Files that are no lectures are left
out. Nothing is submitted; pipe the lines to a shell for that. Call it from pytest's rootdir.

  lecturecheck slurm lectures/*.md             review the lines
  lecturecheck slurm lectures/*.md | sh        submit the jobs
  lecturecheck slurm --platform g4dn intro.md  with the budgets of another platform"""


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command.

    Returns:
        The exit status: 0; 1 if a comparison found too large a change; 2 if something cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog="lecturecheck", description="Budget files, platforms and kept sessions, without pytest."
    )
    parser.add_argument("--version", action="version", version=f"pytest-lecturecheck {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add(commands, "platform", "print this machine's platform label and what a run can use of it", _PLATFORM)
    slurm = _add(
        commands,
        "slurm",
        "print an sbatch command for each lecture, with the memory of its budget; nothing is run",
        _SLURM,
    )
    slurm.add_argument("lectures", nargs="+", type=Path, metavar="LECTURE", help="file of a lecture")
    slurm.add_argument("--platform", metavar="NAME", help="platform label of the budgets, instead of this machine's")
    for name, module in _MODULES.items():
        module.add_arguments(_add(commands, name, module.HELP, module.DESCRIPTION))
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        over = _MODULES.get(options.command)
        status, lines = over.run(options) if over is not None else (0, _lines(options))
    except LectureCheckError as exc:
        # Names of lectures and the content of damaged files are not trusted.
        sys.stderr.write(f"lecturecheck: {plain(str(exc))}\n")
        return _USAGE_ERROR
    _write("".join(f"{line}\n" for line in lines))
    return status


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, line: str, description: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=line,
        description=_folded(description, max(_LEAST_COLUMNS, width() - 2)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _folded(description: str, columns: int) -> str:
    """Wrap prose at the width of the terminal, as argparse does; indented examples stay unchanged."""
    blocks = description.split("\n\n")
    return "\n\n".join(block if block.startswith(" ") else "\n".join(wrap(block, columns)) for block in blocks)


def _write(text: str) -> None:
    """Write to stdout; characters that its encoding lacks are escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _lines(options: argparse.Namespace) -> list[str]:
    if options.command == "platform":
        return _platform_lines()
    from pytest_lecturecheck.commands.slurm import sbatch_lines  # noqa: PLC0415 - reading lectures loads nbformat
    from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.probe.machine import detect_platform  # noqa: PLC0415 - as above

    detected = detect_platform(detect_accelerators().model)
    lines, left_out = sbatch_lines(options.lectures, root=Path.cwd(), platform=options.platform, detected=detected)
    for reason in left_out:
        # Standard output goes to a shell.
        sys.stderr.write(f"lecturecheck: left out: {plain(reason)}\n")
    return lines


def _platform_lines() -> list[str]:
    from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.probe.machine import detect_machine, detect_platform  # noqa: PLC0415 - as above

    found = detect_accelerators()
    machine = detect_machine(accelerators=found.names, driver=found.driver, cuda=found.cuda)
    fault = [f"the GPU cannot be used here: {found.reason}"] if found.is_fault else []
    return [detect_platform(found.model), machine.text, *_card_lines(found.devices, found.driver), *fault]


def _card_lines(devices: Sequence[Device], driver: str | None) -> list[str]:
    """Return what the installed JAX needs of each card, and whether the card has it."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - not for help

    from pytest_lecturecheck.diagnosis.gpu.preflight import CUDA_FLOORS, preflight_lines  # noqa: PLC0415 - as above

    packages = {}
    for floor in CUDA_FLOORS:
        with contextlib.suppress(PackageNotFoundError):
            packages[floor.package] = version(floor.package)
    return list(preflight_lines(devices, driver, packages))


if __name__ == "__main__":
    # `python -m pytest_lecturecheck.commands.main`, for jobs whose PATH lacks the folder of scripts.
    sys.exit(main())
