"""
Soak test: many lectures of which a third die in every way there is, under two workers.

Every verdict must be the right one; no process, shared memory, temporary folder or memory group may be left; and
pytest's own memory must stay flat. Prints what it finds and exits with 1 where something is wrong. What other sessions
of the machine have is left alone: processes, segments and folders of this one carry its mark.

Usage: python benchmarks/soak.py [--lectures 200] [--workers 2]
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

MOST_GROWTH = 1.05
"""Memory of pytest and its workers in the second half of the session, relative to the first half."""
GOOD = "good"
MARK = f"soak{os.getpid()}x{secrets.token_hex(4)}"
"""In the environment, names and arguments of whatever this session starts."""
SLEEP_SECONDS = str(300 + os.getpid())
"""Of the processes that take no environment along; as good as unique."""
HARMLESS = "squares = [n * n for n in range(1000)]\nassert len(squares) == 1000"
KINDS = {
    "exit": ("died", "import os\nos._exit(3)"),
    "kill": ("died", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"),
    "abort": ("died", "import os\nos.abort()"),
    "crash": ("died", "import ctypes\nctypes.string_at(0)"),
    "greedy": ("died", "held = []\nwhile True:\n    held.append(bytearray(b'1') * 10_000_000)"),
    "hang": ("timed out", "import time\ntime.sleep(60)"),
    "deaf": (
        "timed out",
        "import time\nwhile True:\n    try:\n        time.sleep(0.1)\n    except BaseException:\n        pass",
    ),
    "error": ("failed", "1 / 0"),
    "leave": ("failed", "import sys\nsys.exit(1)"),
    "orphan": (
        "died",
        f"import os, subprocess\nsubprocess.Popen(['sleep', '{SLEEP_SECONDS}'], start_new_session=True)\nos._exit(4)",
    ),
    "daemon": (
        "failed",
        (
            "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
            f"        os.execve('/bin/sleep', ['sleep', '{SLEEP_SECONDS}'], {{}})\n    os._exit(0)\nos.wait()\n1 / 0"
        ),
    ),
    "segment": (
        "failed",
        (
            "import os\nfrom multiprocessing import resource_tracker, shared_memory\n"
            f"name = '{MARK}-' + str(os.getpid())\n"
            "kept = shared_memory.SharedMemory(name, create=True, size=1_000_000)\n"
            "resource_tracker.unregister(kept._name, 'shared_memory')\nkept.buf[:] = b'1' * kept.size\n1 / 0"
        ),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lectures", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--starts", action="store_true", help="only starts of kernels: every lecture is harmless")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        expected = write_lectures(folder, options.lectures, [GOOD] if options.starts else list(KINDS))
        before = empty_groups()
        started = time.perf_counter()
        sizes = run_session(folder, options.workers)
        seconds = time.perf_counter() - started
        time.sleep(2)
        faults = [*wrong_verdicts(folder, expected), *left_behind(folder, before)]
    print(f"{options.lectures} lectures under {options.workers} workers in {seconds:.0f} s")
    # Libraries are loaded with the first lectures; reports are rendered at the end.
    tenth, half = options.lectures // 10, options.lectures // 2
    early = [size for finished, size in sizes if tenth <= finished < half]
    late = [size for finished, size in sizes if finished >= half]
    if early and late:
        ratio = median(late) / median(early)
        print(f"memory of pytest and its workers: second half / first half = {ratio:.3f}")
        print(f"that is {(median(late) - median(early)) / (options.lectures / 2) / 1024:.0f} KiB for each lecture")
        if ratio > MOST_GROWTH:
            faults.append(f"the memory grows by more than {MOST_GROWTH:g}")
    print("\n".join(faults) or "every verdict is right, and nothing is left")
    return 1 if faults else 0


def write_lectures(folder: Path, count: int, names: list[str]) -> dict[str, str]:
    expected = {}
    for index in range(count):
        kind = names[(index // 3) % len(names)] if index % 3 == 0 else GOOD
        verdict, source = KINDS.get(kind, ("no budget", HARMLESS))
        name = f"l{index:03d}_{kind}.ipynb"
        cells = [
            {"cell_type": "code", "metadata": {}, "source": text, "outputs": [], "execution_count": None}
            for text in ("ready = True", source, "assert ready")
        ]
        document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
        (folder / name).write_text(json.dumps(document), encoding="utf-8")
        expected[name] = verdict
    return expected


def run_session(folder: Path, workers: int) -> list[tuple[int, int]]:
    """Run the session; return how many lectures had finished, and the memory of its processes, once a second."""
    command = [sys.executable, "-m", "pytest", "--lecture-budget", ".", "-q", "-n", str(workers), "--tb=no"]
    # Hypothesis loads all of itself at the end of a session.
    command += ["-p", "no:hypothesispytest"]
    command += ["--lecture-timeout", "2", "--lecture-memory-cap", "300 MB", "--lecture-report", "report.json"]
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    temp = folder / "tmp"
    temp.mkdir()
    environment |= {"SOAK_MARK": MARK, "TMPDIR": str(temp)}
    with (folder / "out.txt").open("w") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, env=environment)
        sizes = []
        while process.poll() is None:
            time.sleep(1)
            finished = finished_count(folder)
            if finished:
                sizes.append((finished, sum(resident_bytes(pid) for pid in pytest_pids(process.pid))))
    return [(finished, size) for finished, size in sizes if size]


def finished_count(folder: Path) -> int:
    """Return how many runs the session has saved; none before the first one, and none once it writes its reports."""
    try:
        saved = next((folder / ".lecturecheck" / "unfinished").glob("*.jsonl"))
        return saved.read_bytes().count(b"\n") - 1
    except (StopIteration, OSError):
        return 0


def pytest_pids(root: int) -> list[int]:
    """Give pytest and its workers, without kernels and the reaper."""
    found = [root]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            command = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        # What execnet starts workers with.
        if int(fields[1]) == root and b"sys.stdin.readline()" in command:
            found.append(int(stat.parent.name))
    return found


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def wrong_verdicts(folder: Path, expected: dict[str, str]) -> list[str]:
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    found = {item["run"]["lecture"]: item["verdict"]["kind"] for item in report["runs"]}
    print("verdicts:", dict(sorted(Counter(found.values()).items())))
    return [
        f"{name}: expected {verdict!r}, found {found.get(name)!r}"
        for name, verdict in expected.items()
        if found.get(name) != verdict
    ]


def left_behind(folder: Path, groups_before: set[str]) -> list[str]:
    """Describe what this session has left on the machine."""
    marked, sleepers = set(), set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"SOAK_MARK={MARK}".encode() in (process / "environ").read_bytes():
                marked.add(process.name)
            if (process / "cmdline").read_bytes() == f"sleep\0{SLEEP_SECONDS}\0".encode():
                sleepers.add(process.name)
        except OSError:
            continue
    found = {
        "marked processes": marked,
        "sleeping processes": sleepers,
        "segments": {path.name for path in Path("/dev/shm").iterdir() if path.name.startswith(MARK)},
        "folders": {path.name for path in (folder / "tmp").iterdir() if path.name.startswith("lc-")},
        "memory groups": empty_groups() - groups_before,
    }
    return [f"left: {what}: {sorted(names)}" for what, names in found.items() if names]


def empty_groups() -> set[str]:
    """Return the memory groups without processes; one in which something runs belongs to another session."""
    found = set()
    for path in Path("/sys/fs/cgroup").rglob("lecturecheck-*"):
        try:
            # A plain user has none, and those of others come and go.
            if os.access(path, os.W_OK) and not (path / "cgroup.procs").read_text().strip():
                found.add(str(path))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
