"""
What running lectures costs, beside a bare nbclient loop and the peers.

``python benchmarks/notebooks.py [--repeat N] [--contender NAME ...] [WORKLOAD ...]``; Linux, with nbmake, nbval and
papermill installed beside this package (``pip install --group bench``). Everybody runs the same files; nobody writes
them back. "lecturecheck" forks its kernels where it can; "spawn" executes each, as everybody else does.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from turns import Contender, FailedTurnError, print_table, take_turns, warm_up

HERE = Path(__file__).parent
BARE, OURS, SPAWN, UNMEASURED, WORKERS = "bare nbclient", "lecturecheck", "spawn", "not measuring", "-n 2"
PEERS = ("nbmake", "nbval")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """
    Notebooks to be run, and what may be asked of us.

    Attributes:
        count: number of notebooks.
        cells: gives the sources of the cells of notebook number n.
        target: highest ratio of wall times to the bare loop.
        cpu_target: highest ratio of CPU times.
        repeat: turns of each contender.
    """

    count: int
    cells: Callable[[int], Sequence[str]]
    target: float
    cpu_target: float
    repeat: int = 5


SCIENTIFIC = (
    "import numpy as np\nimport scipy.linalg\nimport matplotlib.pyplot as plt",
    "a = np.random.default_rng(0).normal(size=(50, 50))\nscipy.linalg.inv(a).shape",
    "fig, ax = plt.subplots()\nax.plot(a[0]);",
)
STREAM = "for i in range(50):\n    print(('x' * 99 + '\\n') * 10_486, end='')"
LINES = "for i in range(200_000):\n    print(i)"

WORKLOADS: Mapping[str, Workload] = {
    "trivial": Workload(count=20, cells=lambda n: (f"x = {n}", "y = x + 1", "print(y)"), target=0.15, cpu_target=0.30),
    "scientific": Workload(count=10, cells=lambda _: SCIENTIFIC, target=0.55, cpu_target=0.65),
    "tiny-cells": Workload(count=1, cells=lambda _: [f"x{i} = {i}" for i in range(500)], target=0.85, cpu_target=0.90),
    "stream": Workload(count=1, cells=lambda _: ("x = 1", STREAM, "x + 1"), target=0.85, cpu_target=0.90),
    "lines": Workload(count=1, cells=lambda _: ("x = 1", LINES, "x + 1"), target=0.85, cpu_target=0.90),
    "displays": Workload(
        count=1,
        cells=lambda _: ("from IPython.display import display", "for i in range(2000): display(i)"),
        target=0.85,
        cpu_target=0.90,
    ),
    "compute": Workload(
        count=1,
        cells=lambda _: ["t = 0\nfor i in range(20_000_000): t += i\nb = bytearray(100_000_000)\ndel b"] * 3,
        target=1.00,
        cpu_target=1.00,
    ),
}


def write_notebooks(folder: Path, workload: Workload) -> list[str]:
    """Write a workload's notebooks and give their names."""
    names = []
    for number in range(workload.count):
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in workload.cells(number)],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        )
        names.append(f"notebook_{number:02}.ipynb")
        nbformat.write(notebook, folder / names[-1])
    return names


def contenders(folder: Path, names: Sequence[str]) -> list[Contender]:
    """Give everybody's command; each pytest has only the plugin that it needs of those compared here."""
    # Hypothesis loads all of itself at the end of a session.
    plugins = ("lecturecheck", *PEERS, "hypothesispytest")

    def pytest(plugin: str, *arguments: str) -> list[str]:
        others = [f"-pno:{name}" for name in plugins if name != plugin]
        return [sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", *others, *arguments, *names]

    ours = ("--lecture-budget",)
    python_path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    commands = {
        BARE: [sys.executable, str(HERE / "bare.py"), *names],
        OURS: pytest("lecturecheck", *ours),
        SPAWN: pytest("lecturecheck", *ours, "--lecture-kernel-start=spawn"),
        UNMEASURED: pytest("lecturecheck", *ours, "-pnull_probe"),
        WORKERS: pytest("lecturecheck", *ours, "-n2"),
        "nbmake": pytest("nbmake", "--nbmake"),
        "nbval": pytest("nbval", "--nbval-lax"),
        "papermill": [sys.executable, str(HERE / "papermill_loop.py"), *names],
    }
    return [
        Contender(name=name, command=command, cwd=folder, env={"PYTHONPATH": python_path})
        for name, command in commands.items()
    ]


def compare(name: str, workload: Workload, *, repeat: int | None, only: Sequence[str]) -> None:
    """Run one workload in turns and print its tables."""
    with tempfile.TemporaryDirectory(prefix="lecturecheck-benchmark-") as folder:
        names = write_notebooks(Path(folder), workload)
        everybody = contenders(Path(folder), names)
        if workload.count == 1:
            everybody = [one for one in everybody if one.name != WORKERS]
        chosen = [one for one in everybody if takes_part(one, only)]
        turns = take_turns(chosen, repeat or workload.repeat)
    print_table(name, turns, BARE, {OURS: workload.target}, {OURS: workload.cpu_target})
    if OURS in turns and WORKERS in turns:
        both = {key: turns[key] for key in (OURS, WORKERS)}
        print_table(f"{name}, two workers against none", both, OURS, {WORKERS: 0.65})
    if OURS in turns and UNMEASURED in turns:
        both = {key: turns[key] for key in (UNMEASURED, OURS)}
        print_table(f"{name}, measured against not measured", both, UNMEASURED, {OURS: 1.01}, {OURS: 1.01})


def warm_up_all(only: Sequence[str]) -> None:
    """Have everybody who takes part run one notebook before the first is timed."""
    with tempfile.TemporaryDirectory(prefix="lecturecheck-benchmark-") as folder:
        names = write_notebooks(Path(folder), Workload(count=1, cells=lambda _: SCIENTIFIC, target=1.0, cpu_target=1.0))
        warm_up([one for one in contenders(Path(folder), names) if takes_part(one, only)])


def takes_part(contender: Contender, only: Sequence[str]) -> bool:
    """Return True for the bare loop and for what was asked for; without a choice, everybody."""
    return contender.name == BARE or not only or contender.name in only


def main() -> int:
    """Run the workloads asked for and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", help=f"of {', '.join(WORKLOADS)}; default: all of them")
    parser.add_argument("--repeat", type=int, help="turns of each contender")
    parser.add_argument("--contender", action="append", metavar="NAME", help="beside the bare loop; default: all")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.workload if name not in WORKLOADS]:
        parser.error(f"unknown workload {unknown[0]!r}; there are {', '.join(WORKLOADS)}")
    try:
        warm_up_all(arguments.contender or ())
        for name in arguments.workload or WORKLOADS:
            compare(name, WORKLOADS[name], repeat=arguments.repeat, only=arguments.contender or ())
    except FailedTurnError as exc:
        print(exc, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
