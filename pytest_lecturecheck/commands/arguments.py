"""What all commands over kept sessions have on their command lines. Printing help loads no more of them than this."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Final

RUN_HELP: Final = (
    "a kept session: last, last~1 (the one before it), the first digits of a commit, the beginning or the end of its "
    "name in .lecturecheck/runs; or a JSON file that --lecture-report wrote"
)
_WIDTH: Final = 100


def add_root(parser: argparse.ArgumentParser) -> None:
    """Let the folder be named where pytest was called."""
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="pytest's rootdir, which holds .lecturecheck (default: this folder, or the nearest one above that has it)",
    )


def width() -> int:
    """Give the columns that there are."""
    return shutil.get_terminal_size((_WIDTH, 0)).columns
