"""
Many lectures at once: real sessions under xdist on one ledger, while workers and kernels are killed.

Two sessions run side by side, one of them with ``-x`` and a lecture that fails; workers and kernels of the first are
killed at random. Checked are: every lecture of the first session has a verdict, or is told to have gone down with its
worker; the total of what lectures held was never over the capacity (from the ledger's own journal); no process, lease
or folder is left. Then an undisturbed session is held against the lower bound that no scheduler can beat: all items'
use of the scarcest resource, or their time divided by what runs at once. Exits with 1 where something is wrong.

Usage: python benchmarks/crowd.py [--lectures 300] [--workers 4] [--seed 1]
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

from pytest_lecturecheck.lease.admission import Demand
from pytest_lecturecheck.lease.ledger_files import open_ledger_files
from pytest_lecturecheck.units import MIB

KILLED: Counter[str] = Counter()
CAPACITY_BYTES = 1000 * MIB
SIZES = (100, 200, 300, 450)
"""What a lecture holds, in MiB, by its budget; it takes far less, so that the machine is not the limit."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lectures", type=int, default=300)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="crowd-") as name:
        folder = Path(name)
        sizes = write_lectures(folder / "first", options.lectures, draw)
        write_lectures(folder / "second", 20, draw, failing=5)
        (folder / "runtime").mkdir(mode=0o700)
        faults = disturbed(folder, options.workers, draw)
        calm = folder / "calm"
        sizes = write_lectures(calm, max(20, options.lectures // 5), draw)
        span, bound = undisturbed(calm, folder / "runtime", options.workers, sizes)
        faults += check_ledger(folder / "runtime" / "lecturecheck-leases")
        time.sleep(2)
        faults += [f"left: {found}" for found in left_behind(folder)]
    print(f"an undisturbed session of {len(sizes)} lectures took {span / bound:.2f} of the lower bound")
    print("\n".join(faults) or "never over the capacity, every lecture has a verdict, and nothing is left")
    return 1 if faults else 0


def write_lectures(folder: Path, count: int, draw: random.Random, failing: int | None = None) -> dict[str, int]:
    """Write lectures that sleep, and a budget for each by hand, from which its demand follows."""
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    sizes, entries = {}, []
    for index in range(count):
        name = f"l{index:03d}.ipynb"
        source = "1 / 0" if index == failing else f"import time\ntime.sleep({draw.uniform(0.2, 1.0):.2f})"
        cell = {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        document = {"cells": [cell], "metadata": spec, "nbformat": 4, "nbformat_minor": 4}
        (folder / name).write_text(json.dumps(document))
        sizes[name] = draw.choice(SIZES)
        entries.append(f'[lectures."{name}"]\npeak_footprint = {{ limit = "{sizes[name]} MiB" }}\n')
    budgets = folder / "lecture-budgets" / "crowd.toml"
    budgets.parent.mkdir()
    budgets.write_text('schema = 1\nplatform = "crowd"\n\n' + "\n".join(entries))
    return sizes


def start(folder: Path, runtime: Path, *args: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", "--lecture-budget", "--lecture-platform=crowd", "-q", "--tb=no"]
    command += [f"--lecture-capacity={CAPACITY_BYTES // MIB} MiB", "--lecture-report=report.json", *args]
    environment = {name: text for name, text in os.environ.items() if name != "CI"}
    environment["XDG_RUNTIME_DIR"] = str(runtime)
    with (folder / "out.txt").open("wb") as out:
        return subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env=environment)


def disturbed(folder: Path, workers: int, draw: random.Random) -> list[str]:
    """Run both sessions while workers and kernels of the first are killed; give what is wrong with the results."""
    runtime = folder / "runtime"
    first = start(folder / "first", runtime, "-n", str(workers), "--max-worker-restart=10")
    second = start(folder / "second", runtime, "-n", "2", "-x")
    killer = threading.Thread(target=kill_some, args=(first.pid, draw), daemon=True)
    killer.start()
    second.wait()
    first.wait()
    if not (folder / "first" / "report.json").exists():
        print((folder / "first" / "out.txt").read_text(errors="replace")[-4000:])
        return [f"the first session ended with {first.returncode} and wrote no report"]
    report = json.loads((folder / "first" / "report.json").read_text())
    seen = {item["run"]["lecture"] for item in report["runs"]}
    expected = {path.name for path in (folder / "first").glob("*.ipynb")}
    verdicts: dict[str, int] = {}
    for item in report["runs"]:
        verdicts[item["verdict"]["kind"]] = verdicts.get(item["verdict"]["kind"], 0) + 1
    print(f"killed in the first session: {dict(KILLED)}; its verdicts: {verdicts}")
    if not (KILLED["kernels"] and KILLED["workers"]):
        return ["nothing was killed"]
    return [f"no word of {name}" for name in sorted(expected - seen)]


def kill_some(root: int, draw: random.Random) -> None:
    """Kill a worker every ten seconds, five at most, and a kernel every two."""
    workers_left, ticks = 5, 0
    with suppress(psutil.Error):
        session = psutil.Process(root)
        while session.is_running() and session.status() != psutil.STATUS_ZOMBIE:
            time.sleep(2)
            ticks += 1
            tree = session.children(recursive=True)
            kernels = [process for process in tree if is_kernel(process)]
            workers = [process for process in session.children() if is_worker(process)]
            if kernels:
                kill(draw.choice(kernels))
                KILLED["kernels"] += 1
            if ticks % 5 == 0 and workers and workers_left:
                workers_left -= 1
                kill(draw.choice(workers))
                KILLED["workers"] += 1


def is_kernel(process: psutil.Process) -> bool:
    """Return True for a kernel; what forks kernels has the same command, and dashes in the place of a token."""
    with suppress(psutil.Error):
        token = process.environ().get("LECTURECHECK_RUN", "-")
        return not token.startswith("-")
    return False


def is_worker(process: psutil.Process) -> bool:
    """Return True for a worker of pytest-xdist, which execnet starts with this command."""
    with suppress(psutil.Error):
        return any("sys.stdin.readline()" in part for part in process.cmdline())
    return False


def kill(process: psutil.Process) -> None:
    with suppress(psutil.Error):
        process.send_signal(signal.SIGKILL)


def undisturbed(folder: Path, runtime: Path, workers: int, sizes: dict[str, int]) -> tuple[float, float]:
    """Give the span of a session, from its first lecture's start to its last one's end, and the lower bound of it."""
    start(folder, runtime, "-n", str(workers)).wait()
    runs = json.loads((folder / "report.json").read_text())["runs"]
    seconds = {item["run"]["lecture"]: item["seconds"] for item in runs}
    with open_ledger_files(runtime / "lecturecheck-leases", {}) as files:
        own = [item for item in files.admissions() if item.holding.demand.label in sizes][-len(sizes) :]
    moments = [item.holding.started for item in own]
    ends = [as_seconds(item.holding.started) + seconds[item.holding.demand.label] for item in own]
    span = max(ends) - min(as_seconds(moment) for moment in moments)
    cores = min(workers, os.cpu_count() or 1)
    memory = sum(sizes[name] * MIB * seconds[name] for name in sizes) / CAPACITY_BYTES
    return span, max(sum(seconds.values()) / cores, memory, *seconds.values())


def as_seconds(moment: str) -> float:
    return dt.datetime.fromisoformat(moment).timestamp()


def check_ledger(folder: Path) -> list[str]:
    """Look through the ledger's journal for a total above the capacity, and in its folder for what was left."""
    with open_ledger_files(folder, {}) as files:
        admissions = files.admissions()
    demands: dict[str, Demand] = {item.lease: item.holding.demand for item in admissions}
    faults = []
    for item in admissions:
        together = [demands[name] for name in (item.lease, *item.beside) if name in demands]
        total = sum(demand.host_bytes for demand in together)
        if total > CAPACITY_BYTES:
            faults.append(f"admission {item.number}: {total / CAPACITY_BYTES:.2f} of the capacity")
    left = sorted(path.name for path in folder.iterdir() if path.name not in {"lock", "bell", "journal.jsonl"})
    print(f"{len(admissions)} admissions in the ledger's journal")
    return [*faults, *([f"left in the ledger: {left}"] if left else [])]


def left_behind(folder: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd().startswith(str(folder)):
                found.append(f"process {process.pid} {process.name()}")
    return found


if __name__ == "__main__":
    sys.exit(main())
