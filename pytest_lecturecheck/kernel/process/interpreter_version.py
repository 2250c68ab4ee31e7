"""Ask the interpreter of a plain program for its version, after the program has ended."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path, PurePath
from typing import Final

from pytest_lecturecheck.safe_text import one_line

_KNOWN: Final = re.compile(r"(?:R|Rscript|julia|octave(?:-cli)?|(?:python|pypy)[0-9.]*)(?:\.exe)?", re.IGNORECASE)
"""Interpreters that print their version for ``--version`` and do nothing else."""
_SECONDS: Final = 10.0
_MOST_CHARS: Final = 120


@functools.cache
def read_interpreter_version(program: str, folder: Path) -> str:
    """
    Return what an interpreter calls itself ("Rscript (R) version 4.2.2"); empty for other programs.

    Args:
        program: the first word of a command.
        folder: the folder in which the command ran.
    """
    if _KNOWN.fullmatch(PurePath(program).name) is None:
        return ""
    try:
        found = subprocess.run(  # noqa: S603 - the interpreter that has just been run
            [program, "--version"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    lines = found.stdout.decode("utf-8", "replace").strip().split("\n")
    return one_line(lines[0].strip(), _MOST_CHARS)
