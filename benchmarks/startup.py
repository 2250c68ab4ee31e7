"""
What being installed costs a pytest run that asks nothing of this package: the target is at most 5 ms.

``python benchmarks/startup.py [--repeat N]``. Both sides run one empty test module, in turns; other plugins are off.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from turns import Contender, Turn, take_turns, warm_up

TARGET_MILLISECONDS = 5.0
WITHOUT, WITH = "without", "with"


def main() -> None:
    """Run pytest with and without the plugin, and print the difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=60, help="turns of each side")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lecturecheck-benchmark-") as folder:
        Path(folder, "test_nothing.py").write_text("def test_nothing():\n    pass\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", "-pno:nbmake", "-pno:nbval"]
        sides = [
            Contender(name=WITHOUT, command=[*command, "-pno:lecturecheck"], cwd=Path(folder), env={}),
            Contender(name=WITH, command=command, cwd=Path(folder), env={}),
        ]
        warm_up(sides)
        turns = take_turns(sides, arguments.repeat)
    for attribute in ("wall_seconds", "cpu_seconds"):
        print_difference(attribute, turns[WITHOUT], turns[WITH])


def print_difference(attribute: str, without: list[Turn], with_: list[Turn]) -> None:
    """Print the median of the differences between neighbours, and the difference between the fastest of each side."""
    before, after = ([getattr(turn, attribute) * 1000 for turn in side] for side in (without, with_))
    between = statistics.median(b - a for a, b in zip(before, after, strict=True))
    fastest = min(after) - min(before)
    verdict = "met" if between <= TARGET_MILLISECONDS else "MISSED"
    print(
        f"{attribute}: without {statistics.median(before):.0f} ms, with {statistics.median(after):.0f} ms; difference"
        f" {between:+.1f} ms (fastest {fastest:+.1f} ms)   <= {TARGET_MILLISECONDS:.0f} ms {verdict}"
    )


if __name__ == "__main__":
    main()
