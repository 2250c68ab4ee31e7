"""
What measuring costs: the sampler's share of a core, the price of a cell, and what the measured process loses.

Run it on a quiet machine: ``python benchmarks/sampler_cost.py [GiB]`` (size of the large kernel; default 4).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from pytest_lecturecheck.probe.memory import open_memory_probe

SERVE = """
import sys
for line in sys.stdin:
    exec(eval(line), globals())
    print(flush=True)
"""
SETUP = """
import os, threading, time
for _ in range(12): threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
block = bytearray({size})
"""
WORK = """
import mmap
for _ in range(20):
    m = mmap.mmap(-1, 32 << 20)
    for i in range(0, 32 << 20, 4096): m[i] = 1
    m.close()
"""
FORK = """
child = os.fork()
if child == 0: time.sleep(3); os._exit(0)
"""
ROUNDS = 9


class Target:
    """A process with as many threads as a kernel has, and ``size_bytes`` of memory."""

    def __init__(self, size_bytes: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.send(SETUP.format(size=size_bytes))

    def send(self, source: str) -> float:
        """Run ``source`` there, and give the seconds it took."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        started = time.perf_counter()
        self.process.stdin.write(f"{source!r}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        return time.perf_counter() - started

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.communicate()


def cpu_share(seconds: float) -> float:
    """Give the share of a core that this process uses while it waits."""
    started, used = time.perf_counter(), time.process_time()
    time.sleep(seconds)
    return (time.process_time() - used) / (time.perf_counter() - started)


def with_probe(target: Target, action: Callable[[], float]) -> float:
    """Run ``action`` under measurement."""
    probe = open_memory_probe(target.process.pid, run_token="benchmark")
    try:
        probe.begin_cell()
        return action()
    finally:
        probe.end_cell()
        probe.close()


def report(name: str, size_gib: float) -> None:
    """Print all figures for one kernel size."""
    target = Target(int(size_gib * 2**30))
    off = cpu_share(3)
    on = with_probe(target, lambda: cpu_share(3))
    print(f"{name}: CPU of this process {off:.2%} of a core without, {on:.2%} with the sampler")
    target.send(FORK)
    on = with_probe(target, lambda: cpu_share(3))
    print(f"{name}: the same with a forked child, {on:.2%}")
    time.sleep(0.5)
    plain, measured = [], []
    for _ in range(ROUNDS):
        plain.append(target.send(WORK))
        measured.append(with_probe(target, lambda: target.send(WORK)))
    # The fastest of each: what slows a round down besides is other work on this machine.
    print(f"{name}: page-faulting work, measured / not measured: {min(measured) / min(plain):.3f}")
    probe = open_memory_probe(target.process.pid)
    costs = []
    for _ in range(300):
        started = time.perf_counter()
        probe.begin_cell()
        between = time.perf_counter()
        target.send("pass")
        sent = time.perf_counter()
        probe.end_cell()
        costs.append(between - started + time.perf_counter() - sent)
    probe.close()
    print(f"{name}: begin and end of a cell {statistics.median(costs) * 1e6:.0f} us")
    target.end()


def main() -> None:
    """Print the figures for a small and for a large kernel."""
    size_gib = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    report("small kernel", 0.03)
    report(f"{size_gib:g} GiB kernel", size_gib)


if __name__ == "__main__":
    main()
