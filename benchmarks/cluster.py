"""
Many lectures as steps of one Slurm allocation on one node, one of which needs more memory than its budget gives it.

Checked are: every lecture has the verdict that it must have, the one over its memory is ended by Slurm's limit of its
step and no other lecture dies, and neither step nor process is left. The same lectures without that one run through the
local launcher as well, in turns, so that the price of a step is seen as a ratio. Exits with 1 where something is wrong.

Needs a Slurm that answers (``tests/slurm/slurm_up.sh`` brings one up) and two processors of one of its nodes.

Usage: python benchmarks/cluster.py [--lectures 40] [--workers 4] [--node lc1]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

BUDGET_MIB = 200
HUNGRY = "hungry.ipynb"
TURNS = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lectures", type=int, default=40)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--node", default="lc1")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cluster-") as name:
        folder = Path(name)
        names = write_lectures(folder, options.lectures - 1)
        allocation = ["salloc", "--quiet", "--nodes=1", f"--nodelist={options.node}", "--ntasks=2"]
        workers = ["-n", str(options.workers)]
        write_lecture(folder / HUNGRY, f"x = bytearray({4 * BUDGET_MIB} * 2**20)")
        seconds = run(folder, [*allocation, *session(folder), "--lecture-launcher=slurm", *workers])
        faults = check(folder, names)
        print(f"{len(names) + 1} lectures through Slurm: {seconds:.0f} s")
        (folder / HUNGRY).unlink()
        ratios = []
        for _ in range(TURNS):
            local = run(folder, [*session(folder), *workers])
            steps = run(folder, [*allocation, *session(folder), "--lecture-launcher=slurm", *workers])
            ratios.append(steps / local)
        print(f"through Slurm against local kernels: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
        print(f"median {statistics.median(ratios):.2f}")
        faults += [f"left: {found}" for found in left_behind(folder)]
    print("\n".join(faults) or "every lecture has its verdict, the one over its memory died alone, nothing is left")
    return 1 if faults else 0


def write_lectures(folder: Path, count: int) -> list[str]:
    """Write lectures that hold 60 MiB for a moment, and a budget for each, from which its step's memory follows."""
    names = [f"l{index:03d}.ipynb" for index in range(count)]
    for name in names:
        write_lecture(folder / name, "import time\nx = bytearray(60 * 2**20)\ntime.sleep(0.3)")
    (folder / "pytest.ini").write_text("[pytest]\n")
    limit = f'peak_footprint = {{ limit = "{BUDGET_MIB} MiB" }}'
    entries = [f'[lectures."{name}"]\n{limit}\n' for name in [HUNGRY, *names]]
    budgets = folder / "lecture-budgets" / "cluster.toml"
    budgets.parent.mkdir()
    budgets.write_text('schema = 1\nplatform = "cluster"\n\n' + "\n".join(entries))
    return names


def write_lecture(path: Path, source: str) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path.write_text(json.dumps({"cells": [cell], "metadata": spec, "nbformat": 4, "nbformat_minor": 4}))


def session(folder: Path) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--lecture-budget", "--lecture-platform=cluster", "-q", "--tb=no"]
    return [*command, f"--lecture-report={folder / 'report.json'}"]


def run(folder: Path, command: list[str]) -> float:
    """Run a session to its end; give how long it took."""
    environment = {name: text for name, text in os.environ.items() if name != "CI"}
    began = time.perf_counter()
    with (folder / "out.txt").open("wb") as out:
        subprocess.run(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env=environment, check=False)
    return time.perf_counter() - began


def check(folder: Path, names: list[str]) -> list[str]:
    """Hold the report of the session against what each lecture must have come to."""
    report = json.loads((folder / "report.json").read_text())
    verdicts = {item["run"]["lecture"]: item["verdict"] for item in report["runs"]}
    print(f"verdicts: {dict(Counter(verdict['kind'] for verdict in verdicts.values()))}")
    faults = [f"no word of {name}" for name in [*names, HUNGRY] if name not in verdicts]
    for name, verdict in verdicts.items():
        expected = "died" if name == HUNGRY else "within"
        if verdict["kind"] != expected:
            faults.append(f"{name}: {verdict['kind']}, expected {expected}: {verdict['headline']}")
    said = verdicts.get(HUNGRY, {}).get("headline", "")
    print(f"{HUNGRY}: {said}")
    if not re.search(r"Slurm's memory limit of step \S+, [\d.]+ MiB, was reached", said):
        faults.append(f"{HUNGRY}: the limit of its step is not named")
    return faults


def left_behind(folder: Path) -> list[str]:
    """Give the steps that Slurm still holds, and the processes that still work in the folder."""
    told = subprocess.run(
        ["squeue", "--noheader", "--steps", "--format=%i"], capture_output=True, check=True, text=True
    )
    found = [f"step {name}" for name in told.stdout.split()]
    for process in psutil.process_iter():
        try:
            if process.cwd().startswith(str(folder)):
                found.append(f"process {process.pid} {process.name()}")
        except psutil.Error:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
