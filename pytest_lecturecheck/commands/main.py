"""The ``lecturecheck`` command: budgets, reports and measurements without pytest."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Final

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
    platform_label,
    readme,
    record,
    record_from,
    recover,
    replay,
    report,
    run,
    show,
    slurm,
    validate,
)
from pytest_lecturecheck.commands.arguments import width
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.report.text import wrap
from pytest_lecturecheck.safe_text import plain

_USAGE_ERROR: Final = 2
_LEAST_COLUMNS: Final = 20
_GROUPS: Final[dict[str, dict[str, ModuleType]]] = {
    "Budgets": {
        "validate": validate,
        "record": record,
        "record-from": record_from,
        "budgets": budgets,
        "readme": readme,
    },
    "Results of sessions": {
        "report": report,
        "explain": explain,
        "compare": compare,
        "show": show,
        "findings": findings,
        "recover": recover,
    },
    "Measurements": {"run": run, "fit": fit, "replay": replay},
    "Machines and CI": {
        "platform": platform_label,
        "plan": plan,
        "slurm": slurm,
        "env": env,
        "audit": audit,
    },
}
"""
The commands, in the order of the help.

A module has ``HELP``, ``DESCRIPTION``, ``add_arguments(parser)`` and ``run(options)``.
"""
_COMMANDS: Final = {name: module for group in _GROUPS.values() for name, module in group.items()}


_PASSING_ON: Final = frozenset({"fit", "replay"})


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command.

    Returns:
        The exit status: 0; 1 if a comparison found too large a change; 2 if something cannot be used.
    """
    columns = max(_LEAST_COLUMNS, width() - 2)
    parser = argparse.ArgumentParser(
        prog="lecturecheck",
        usage="lecturecheck [-h] [--version] COMMAND ...",
        description="\n".join(_overview(columns)),
        epilog="`lecturecheck COMMAND --help` has examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pytest-lecturecheck {__version__}")
    # The description lists the commands by group, which argparse cannot.
    commands = parser.add_subparsers(prog="lecturecheck", dest="command", metavar="COMMAND", help=argparse.SUPPRESS)
    for name, module in _COMMANDS.items():
        command = commands.add_parser(
            name,
            description=_folded(module.DESCRIPTION, columns),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
    _refuse_null_characters(parser, sys.argv[1:] if arguments is None else arguments)
    own, rest = _split_rest(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(own)
    if rest:
        options.pytest = rest
    if options.command is None:
        parser.print_help()
        return 0
    try:
        status: int
        status, lines = _COMMANDS[options.command].run(options)
    except LectureCheckError as exc:
        # Names of lectures and the content of damaged files are not trusted.
        sys.stderr.write(_guarded(plain(f"lecturecheck: {exc}\n")))
        return _USAGE_ERROR
    text = "".join(f"{line}\n" for line in lines)
    _write(text if _is_for_programs(options) else _guarded(text))
    return status


def _split_rest(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """
    Take off what a command passes on to pytest, after ``--``.

    argparse does not find them where an option stands between them and the command's own argument.
    """
    found = list(arguments)
    if not found or found[0] not in _PASSING_ON or "--" not in found:
        return found, []
    position = found.index("--")
    return found[:position], found[position + 1 :]


def _refuse_null_characters(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
    """End with a usage error for what no name or path can hold; the functions of Python raise ``ValueError`` for it."""
    for argument in arguments:
        if "\0" in argument:
            parser.error(
                f"the argument {argument!r} holds a NUL character; expected a name, a path or a number without"
            )


def _is_for_programs(options: argparse.Namespace) -> bool:
    """Return True if a shell or another program reads the output, which must then keep every character."""
    return options.command == "slurm" or any(getattr(options, name, False) for name in ("json", "shell"))


def _guarded(text: str) -> str:
    """Return text without commands to the runner of a CI job: a name of a lecture may look like one."""
    from pytest_lecturecheck.session.github_actions import guard_for  # noqa: PLC0415 - not for help

    return guard_for(os.environ)(text)


def _overview(columns: int) -> Iterator[str]:
    """Yield the lines of the help that list all commands by group."""
    yield "Budget files, kept sessions, measurements and machines, without pytest."
    indent = " " * (max(map(len, _COMMANDS)) + 4)
    for title, group in _GROUPS.items():
        yield from ("", f"{title}:")
        for name, module in group.items():
            first, *rest = wrap(module.HELP, max(_LEAST_COLUMNS, columns - len(indent)))
            yield f"  {name}".ljust(len(indent)) + first
            yield from (indent + line for line in rest)


def _folded(description: str, columns: int) -> str:
    """Wrap prose at the width of the terminal, as argparse does; indented examples stay unchanged."""
    blocks = description.split("\n\n")
    return "\n\n".join(block if block.startswith(" ") else "\n".join(wrap(block, columns)) for block in blocks)


def _write(text: str) -> None:
    """Write to stdout; characters that its encoding lacks are escaped."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


if __name__ == "__main__":
    # `python -m pytest_lecturecheck.commands.main`, for jobs whose PATH lacks the folder of scripts.
    sys.exit(main())
