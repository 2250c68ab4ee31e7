"""
Interrupt a recording session at many moments, and check what it leaves.

At each moment a session with a few short lectures and one long one is sent a signal. After SIGTERM, budgets of the
lectures that had finished, the report and the kept session must be there. After SIGKILL, `lecturecheck recover` must
keep every run that had finished, and budgets must be written from it. No process may be left. Exits with 1 where
something is wrong.

Usage: python benchmarks/interruptions.py [--moments 20] [--begin 0] [--seconds 12] [--workers 0]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

PLATFORM = "interrupted"
NAMES = tuple(f"l{index}" for index in range(6))
COMMAND = "from pytest_lecturecheck.commands.main import main; raise SystemExit(main())"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--begin", type=float, default=0.0, help="seconds after the start when the moments begin")
    parser.add_argument("--seconds", type=float, default=12.0, help="the moments are spread over this time")
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()
    faults: list[str] = []
    longest = 0.0
    for number in (signal.SIGTERM, signal.SIGKILL):
        for moment in range(options.moments):
            seconds = options.begin + options.seconds * (moment + 1) / options.moments
            with tempfile.TemporaryDirectory(prefix="interrupted-") as name:
                folder = Path(name)
                write_lectures(folder)
                took = interrupt(folder, number, seconds, options.workers)
                longest = max(longest, took) if number == signal.SIGTERM else longest
                check = check_end if number == signal.SIGTERM else check_recovery
                found = [*check(folder), *left_processes(folder)]
            faults += [f"{number.name} after {seconds:.1f} s: {fault}" for fault in found]
    print(f"{2 * options.moments} interruptions; the longest end after SIGTERM took {longest:.1f} s")
    print("\n".join(faults) or "everything that had finished is kept, and nothing is left running")
    return 1 if faults else 0


def write_lectures(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name in NAMES:
        source = "x = bytearray(10 << 20)" if name != NAMES[-1] else "import time\ntime.sleep(600)"
        cell = {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        document = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
        (folder / f"{name}.ipynb").write_text(json.dumps(document), encoding="utf-8")


def interrupt(folder: Path, number: signal.Signals, seconds: float, workers: int) -> float:
    """Start a session, send it a signal after some time, and return how long it took to end."""
    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", "-q"]
    command += ["--lecture-record", "--lecture-runs=1", f"--lecture-platform={PLATFORM}", "--lecture-no-leases"]
    command += ["--lecture-report=report.json", *(["-n", str(workers)] if workers else [])]
    environment = {name: text for name, text in os.environ.items() if name != "CI"}
    with (folder / "out.txt").open("wb") as out:
        session = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env=environment)
    time.sleep(seconds)
    began = time.monotonic()
    session.send_signal(number)
    session.wait(timeout=120)
    return time.monotonic() - began


def finished(folder: Path) -> set[str]:
    """Return the lectures whose runs the session had saved, or that its kept session holds as recorded."""
    found = set()
    for path in (folder / ".lecturecheck" / "unfinished").glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            found.add(json.loads(line)["run"]["lecture"])
    return found


def kept(folder: Path) -> dict[str, str]:
    """Return the outcome of each lecture in the kept sessions."""
    outcomes = {}
    for path in (folder / ".lecturecheck" / "runs").glob("*.json"):
        for item in json.loads(path.read_text(encoding="utf-8"))["runs"]:
            outcomes[item["run"]["lecture"]] = item["run"]["outcome"]
    return outcomes


def budgets(folder: Path) -> str:
    path = folder / "lecture-budgets" / f"{PLATFORM}.toml"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def check_end(folder: Path) -> list[str]:
    """Check what a session leaves that was told to end."""
    outcomes, text = kept(folder), budgets(folder)
    output = (folder / "out.txt").read_text(errors="replace")
    faults = [
        f"{name} completed and has no budget"
        for name, outcome in outcomes.items()
        if outcome == "completed" and f'"{name}"' not in text
    ]
    if left := finished(folder):
        faults.append(f"left for recovery: {sorted(left)}")
    if outcomes and not (folder / "report.json").exists():
        faults.append("there is no report")
    if "Traceback" in output:
        faults.append(f"a traceback: {output[-400:]}")
    return faults


def check_recovery(folder: Path) -> list[str]:
    """Check that a session that was killed can be recovered, and that the next one runs."""
    saved = finished(folder)
    for words in (["recover"], ["record", "last"]) if saved else (["recover"],):
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *words], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            return [f"{' '.join(words)} failed: {done.stdout}{done.stderr}"]
    text = budgets(folder)
    faults = [f"{name} had finished and has no budget" for name in sorted(saved) if f'"{name}"' not in text]
    return faults + [f"{name} is not in the kept session" for name in sorted(saved - kept(folder).keys())]


def left_processes(folder: Path) -> list[str]:
    """Return the processes that still run in the folder some seconds after the end."""
    deadline = time.monotonic() + 10
    while True:
        found = [
            f"left: {process.pid} {' '.join(process.info['cmdline'] or [])[:80]}"
            for process in psutil.process_iter(["cwd", "cmdline"])
            if process.info["cwd"] and Path(process.info["cwd"]).is_relative_to(folder)
        ]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
