"""
What collecting a large book costs: 3,000 notebooks of 50 KB, against a collector that looks at file names only.

``python benchmarks/collection.py [--repeat N] [--count N]``; the target is at most 1.10 times the lazy collector.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from turns import Contender, print_table, take_turns, warm_up

HERE = Path(__file__).parent
LAZY, OURS = "lazy collector", "lecturecheck"
FOLDERS = 30
NOTEBOOK_BYTES = 50_000


def write_notebooks(folder: Path, count: int, indent: int | None) -> None:
    """Write notebooks of 50 KB into a few folders, indented or each on one line."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": ["y" * 99 + "\n"] * (NOTEBOOK_BYTES // 105)}]
    for number in range(count):
        cells = [
            {"cell_type": "markdown", "id": "a", "metadata": {}, "source": [f"# Lecture {number}"]},
            {
                "cell_type": "code",
                "id": "b",
                "metadata": {},
                "source": ["x = 1"],
                "outputs": outputs,
                "execution_count": 1,
            },
        ]
        kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = {"cells": cells, "metadata": {"kernelspec": kernelspec}, "nbformat": 4, "nbformat_minor": 5}
        path = folder / f"part_{number % FOLDERS:02}" / f"lecture_{number:04}.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(notebook, indent=indent), encoding="utf-8")


def main() -> None:
    """Collect with both and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9, help="turns of each side")
    parser.add_argument("--count", type=int, default=3000, help="number of notebooks")
    parser.add_argument("--peers", action="store_true", help="nbmake too, where it is installed")
    arguments = parser.parse_args()
    for indent, form in ((1, "indented"), (None, "each on one line")):
        compare(arguments, indent, form)


def compare(arguments: argparse.Namespace, indent: int | None, form: str) -> None:
    """Collect notebooks of one form with all sides, in turns, and print the table."""
    with tempfile.TemporaryDirectory(prefix="lecturecheck-benchmark-") as folder:
        write_notebooks(Path(folder), arguments.count, indent)
        python_path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))

        def contender(name: str, plugin: str, *more: str) -> Contender:
            others = [
                f"-pno:{other}" for other in ("lecturecheck", "nbmake", "nbval", "hypothesispytest") if other != plugin
            ]
            command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-pno:cacheprovider", *others, *more]
            return Contender(name=name, command=command, cwd=Path(folder), env={"PYTHONPATH": python_path})

        sides = [
            contender(LAZY, "lazy_collector", "-plazy_collector"),
            contender(OURS, "lecturecheck", "--lecture-budget"),
        ]
        if arguments.peers:
            sides.append(contender("nbmake", "nbmake", "--nbmake"))
        warm_up(sides)
        turns = take_turns(sides, arguments.repeat)
    title = f"collecting {arguments.count} notebooks, {form}"
    print_table(title, turns, LAZY, {OURS: 1.10}, {OURS: 1.15})


if __name__ == "__main__":
    main()
