"""Arguments that the commands over kept sessions share. Printing help loads nothing else of these commands."""

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
_MOST_DIGITS: Final = 6


def add_root(parser: argparse.ArgumentParser) -> None:
    """Add the option that names pytest's rootdir."""
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="pytest's rootdir, which contains .lecturecheck (default: here, or the nearest parent that has one)",
    )


def add_history(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a history."""
    parser.add_argument(
        "--history", type=Path, metavar="FILE", help="a history (.jsonl), instead of the one that the settings name"
    )


def count(text: str) -> int:
    """Return the number of an option that counts; argparse prints the error."""
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS or int(text) < 1:
        msg = f"{text!r} is not a whole number of at least 1"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def width() -> int:
    """Return the width of the terminal in columns."""
    return shutil.get_terminal_size((_WIDTH, 0)).columns
