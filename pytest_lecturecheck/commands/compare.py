"""``lecturecheck compare``: two sides, lecture by lecture."""

from __future__ import annotations

import argparse
import math
from typing import Final

from pytest_lecturecheck.commands.arguments import add_root, width
from pytest_lecturecheck.errors import LectureCheckError

HELP: Final = "compare two sessions, two platforms, or a session with a budget file"
DESCRIPTION: Final = """\
Compare two sides, lecture by lecture. The largest changes come first, then differences of environment: OS, processor,
cores, memory, huge pages, BLAS, versions. Where both sides are sessions with one lecture in common, or with --lecture,
the two runs are set side by side cell by cell: the first cell whose need diverges, and what differs underneath, with
the likeliest suspect first and the way to rule out each.

  lecturecheck compare last~1 last                       the last two sessions
  lecturecheck compare 0f3c2a1 last                      what a commit changed, if a session at it is kept
  lecturecheck compare main.json branch.json             two commits, each with its --lecture-report file
  lecturecheck compare linux-x86_64-cpu darwin-arm64-cpu two platforms, by their budget files
  lecturecheck compare linux-x86_64-cpu last             the last session and the recorded values
  lecturecheck compare mac.json linux.json --lecture solve.ipynb
                                                         one lecture on two systems, cell by cell
  lecturecheck compare last~1 last --fail-over 1.2       fail if a value grew by more than a factor of 1.2

A side is a kept session (last, last~1, a commit, part of its name), a .json file of --lecture-report, a .toml budget
file, or the label of a platform that has one. Of repeated runs the highest values are compared. Values that were
measured by different methods (an exact peak and a sampled one) are not compared. With --fail-over, differences of up
to 16 MiB or 1 s are ignored, and so are times of different classes of machine. Exit status: 0; 1 if --fail-over found
something; 2 if a side cannot be read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("before", metavar="A", help="the first side")
    parser.add_argument("after", metavar="B", help="the second side")
    parser.add_argument(
        "--fail-over", type=_factor, metavar="FACTOR", help="exit with 1 if a value grew by more than this factor"
    )
    parser.add_argument(
        "--lecture", metavar="NAME", help="only this lecture (path from rootdir, or the end of it), cell by cell"
    )
    add_root(parser)


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 1):
        msg = f"{text!r} is not a factor of at least 1, such as 1.2"
        raise argparse.ArgumentTypeError(msg)
    return value


def run(options: argparse.Namespace) -> tuple[int, list[str]]:
    """
    Compare two sides.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: a side cannot be read.
    """
    from pytest_lecturecheck.commands.session_lookup import has_colour, side_of  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.report.terminal.session_diff_table import exceeding, render_comparison  # noqa: PLC0415 - as above

    before, after = side_of(options, options.before), side_of(options, options.after)
    if options.lecture is not None:
        before, after = (side.only(options.lecture) for side in (before, after))
        if not (before.lectures and after.lectures):
            msg = f"{options.lecture!r} is not on both sides; lecturecheck compare A B without --lecture lists them"
            raise LectureCheckError(msg)
    most: float | None = options.fail_over
    lines = render_comparison(before, after, width=width(), colour=has_colour(), most=most)
    return (1 if most is not None and exceeding(before, after, most) else 0), lines
