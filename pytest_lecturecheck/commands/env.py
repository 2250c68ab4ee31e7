"""``lecturecheck env``: the variables that kernels of the gate get, for whoever builds the book afterwards."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_lecturecheck.commands.arguments import count
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureCheckError, SettingsError

if TYPE_CHECKING:
    from pytest_lecturecheck.config.environment import EnvironmentContext
    from pytest_lecturecheck.config.options import SessionSettings

HELP: Final = "print the variables that lectures get in a session, so that the book's build gets the same"
DESCRIPTION: Final = """\
Print the environment variables that kernels of a session get: the profile, [env] of the settings file, and what follows
from them on this machine. A book that is built with the same variables runs its code in the same world. Variables that
hold for single lectures (gpu: cpu, a profile of their own) cannot be set for a build; they are listed as notes.

  lecturecheck env                        a list to read
  eval "$(lecturecheck env --shell)"      in a shell, before the build
  lecturecheck env --github               in a step of GitHub Actions: for all later steps of the job
  lecturecheck env --json                 for other programs
  lecturecheck env --profile jax-ci       with a profile that the settings file does not choose

Call it from pytest's rootdir, or name that with --root. Exit status: 0; 2 if the settings cannot be used, or if
--github is given and GITHUB_ENV is not set."""
_VARIABLE: Final = "GITHUB_ENV"
_LEFT_OUT_FOLDERS: Final = frozenset({"__pycache__", "_build", "node_modules", "site-packages"})
_MOST_FILES: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LectureVariables:
    """Variables of one lecture that differ from those of all others, and where that was stated."""

    lecture: str
    variables: dict[str, str]
    origin: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--github", action="store_true", help="append to the file that GITHUB_ENV names")
    form.add_argument("--shell", action="store_true", help="print lines for a POSIX shell")
    form.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--profile", metavar="NAME", help="environment profile, instead of the one in the settings")
    parser.add_argument(
        "-n", dest="kernels", type=count, default=1, metavar="N", help="kernels that run at once (default: 1)"
    )
    parser.add_argument("--root", type=Path, metavar="DIR", help="pytest's rootdir (default: here)")


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Print variables.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: the settings cannot be used, or the variables cannot be written.
    """
    from pytest_lecturecheck.config.environment import kernel_environment  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - as above
    from pytest_lecturecheck.repository.variable_text import render_github, render_shell  # noqa: PLC0415 - as above

    root: Path = (options.root or Path.cwd()).resolve()
    settings = resolve({}, root, root)
    profile: str | None = options.profile or settings.for_all_lectures.env_profile
    context = _context(root, settings, max(1, options.kernels))
    variables = kernel_environment(settings.environment, profile, None, context)
    single = list(_single_lectures(root, settings, profile, context))
    if options.json:
        return 0, [json.dumps(_document(profile, variables, single), indent=2)]
    notes = [_note(item) for item in single]
    if options.shell or options.github:
        # Standard output goes to a shell, or into a log where the notes are read as well.
        sys.stderr.writelines(f"lecturecheck: {note}\n" for note in notes)
    if options.shell:
        return 0, render_shell(variables)
    if options.github:
        return 0, _write_github(render_github(variables), variables)
    lines = [f"{name}={json.dumps(text)}" for name, text in sorted(variables.items())]
    return 0, [*(lines or [f"no variables are set for kernels (profile: {profile or 'none'})"]), *notes]


def _context(root: Path, settings: SessionSettings, kernels: int) -> EnvironmentContext:
    from pytest_lecturecheck.config.environment import EnvironmentContext  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.own_folder import NAME  # noqa: PLC0415 - as above

    return EnvironmentContext(
        kernel_count=kernels,
        device_bytes=detect_accelerators().smallest_bytes,
        cache_folder=str(root / NAME / "jax-cache"),
        inherited=frozenset(os.environ),
        jax_memory=settings.jax_memory,
    )


def _single_lectures(
    root: Path, settings: SessionSettings, profile: str | None, context: EnvironmentContext
) -> Iterator[LectureVariables]:
    """Yield the lectures whose own table changes their variables."""
    from pytest_lecturecheck.config.environment import kernel_environment  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.lecture.reading import read_lecture  # noqa: PLC0415 - as above

    common = kernel_environment(settings.environment, profile, None, replace(context, inherited=frozenset()))
    for path in _files_with_settings(root, settings):
        name = path.relative_to(root).as_posix()
        try:
            own = read_lecture(path, name=name, root=root).settings
            chosen = own.env_profile or profile
            found = kernel_environment(settings.environment, chosen, own.gpu, replace(context, inherited=frozenset()))
        except LectureCheckError:
            # A session reports it, with file and line.
            continue
        changed = {key: text for key, text in found.items() if common.get(key) != text}
        if changed:
            origin = own.origin("gpu" if own.gpu is not None else "env_profile")
            yield LectureVariables(lecture=name, variables=changed, origin=origin)


def _files_with_settings(root: Path, settings: SessionSettings) -> Iterator[Path]:
    from pytest_lecturecheck.lecture.selection import LECTURE_SUFFIXES, contains_at_ends  # noqa: PLC0415 - not for help

    seen = 0
    for parent, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in _LEFT_OUT_FOLDERS and not name.startswith("."))
        for name in sorted(names):
            seen += 1
            path = Path(parent, name)
            if path.suffix.lower() in LECTURE_SUFFIXES | settings.suffixes and contains_at_ends(path, b"lecturecheck"):
                yield path
        if seen > _MOST_FILES:
            return


def _write_github(text: str, variables: dict[str, str]) -> list[str]:
    from pytest_lecturecheck.files import append_plain  # noqa: PLC0415 - not for help

    target = os.environ.get(_VARIABLE, "")
    if not target:
        msg = f"--github needs a step of GitHub Actions: {_VARIABLE} is not set; elsewhere use --shell"
        raise SettingsError(msg)
    try:
        append_plain(target, text.encode())
    except OSError as exc:
        msg = f"the file that {_VARIABLE} names cannot be written: {exc}"
        raise SettingsError(msg) from exc
    return [f"set for later steps: {', '.join(variables) or 'nothing'}"]


def _note(item: LectureVariables) -> str:
    shown = ", ".join(f"{name}={text}" for name, text in sorted(item.variables.items()))
    return f"note: only {item.lecture} gets {shown} ({item.origin}); a build cannot be given that"


def _document(profile: str | None, variables: dict[str, str], single: list[LectureVariables]) -> dict[str, Any]:
    return {
        "schema": 1,
        "profile": profile,
        "variables": variables,
        "lectures": [{"lecture": item.lecture, "variables": item.variables, "origin": item.origin} for item in single],
    }
