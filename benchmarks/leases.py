"""
Leases under load: jobs that only sleep, with random demands, run by several workers on one ledger.

Prints the makespan as a ratio to the lower bound that no scheduler can beat: the longest job, or all jobs' use of the
scarcest resource, or all their time divided by the workers, whichever is largest. The same jobs are also started in a
simulation by the admission rule alone, without processes or polling, which tells the price of the rule from the price
of the ledger. Whether the total ever exceeded the capacity is checked from the ledger's own journal. Exits with 1
where it did, or where anything is left.

Usage: python benchmarks/leases.py [--jobs 120] [--workers 4] [--kill 0] [--seed 1]
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_lecturecheck.lease.admission import Admitted, Capacity, Demand, DeviceNeed, Holding, Waiter, admit
from pytest_lecturecheck.lease.ledger import Lease, Ledger
from pytest_lecturecheck.lease.ledger_files import open_ledger_files
from pytest_lecturecheck.lease.ordering import order
from pytest_lecturecheck.units import GIB

CAPACITY = Capacity(host_bytes=24 * GIB, devices={0: 15 * GIB}, core_count=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """
    One simulated lecture.

    Attributes:
        demand: what it takes.
        seconds: how long.
    """

    demand: Demand
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=120)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kill", type=int, default=0, help="workers to kill on the way; others take their place")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faults = []
    print(f"{options.jobs} jobs, {options.workers} workers, {options.kill} of them killed")
    for name, mix in MIXES.items():
        jobs = make_jobs(options.jobs, mix, random.Random(options.seed))
        bound = lower_bound(jobs, options.workers)
        for how, queue in {"as they come": jobs, "planned": planned(jobs, options.workers)}.items():
            rule = simulate(queue, options.workers)
            with tempfile.TemporaryDirectory(prefix="lease-bench-") as folder:
                taken = run(queue, options.workers, options.kill, Path(folder) / "leases")
                faults += [f"{name}, {how}: {fault}" for fault in check(Path(folder) / "leases", len(queue))]
            print(f"{name:9} {how:14} bound {bound:5.1f} s   rule {rule / bound:.3f}   ledger {taken / bound:.3f}")
    print("\n".join(faults) or "never over capacity, and nothing is left")
    return 1 if faults else 0


MIXES = {
    # Share of the machine's memory, in percent, and how often.
    "small": ((3, 5), (10, 4), (25, 1)),
    "mixed": ((5, 5), (20, 3), (60, 1)),
    "large": ((10, 2), (45, 2), (95, 1)),
    "gpu": ((5, 3), (10, 2)),
}


def make_jobs(count: int, mix: Sequence[tuple[int, int]], draw: random.Random) -> list[Job]:
    shares, weights = [item[0] for item in mix], [item[1] for item in mix]
    jobs = []
    for number in range(count):
        share = draw.choices(shares, weights)[0] * draw.uniform(0.8, 1.05)
        devices: tuple[DeviceNeed, ...] = ()
        if mix is MIXES["gpu"] and draw.random() < 0.6:  # noqa: PLR2004 - most of them use the card
            devices = (DeviceNeed(size_bytes=draw.choice([None, 3 * GIB, 6 * GIB])),)
        host_bytes = round(CAPACITY.host_bytes * min(share, 100) / 100)
        demand = Demand(
            label=f"l{number}", host_bytes=host_bytes, devices=devices, core_count=draw.choice([1, 1, 1, 2])
        )
        jobs.append(Job(demand=demand, seconds=draw.uniform(0.1, 1.0)))
    return jobs


def planned(jobs: Sequence[Job], workers: int) -> list[Job]:
    """Order the jobs by times that are up to 30 % wrong, as recorded ones are."""
    draw = random.Random(len(jobs))
    seconds = [job.seconds * draw.uniform(0.7, 1.3) for job in jobs]
    return [jobs[index] for index in order([job.demand for job in jobs], CAPACITY, workers, seconds)]


def lower_bound(jobs: Sequence[Job], workers: int) -> float:
    """Give what no scheduler can beat."""
    total = CAPACITY.devices[0]
    works = [
        sum(job.seconds for job in jobs) / workers,
        sum(job.seconds * job.demand.host_bytes for job in jobs) / CAPACITY.host_bytes,
        sum(job.seconds * job.demand.core_count for job in jobs) / CAPACITY.core_count,
        sum(
            job.seconds * (total if need.size_bytes is None else need.size_bytes)
            for job in jobs
            for need in job.demand.devices
        )
        / total,
    ]
    return max(*works, *(job.seconds for job in jobs))


def simulate(jobs: Sequence[Job], workers: int) -> float:
    """Give the makespan by the rule alone: workers take jobs in turn, and each waits until its job is admitted."""
    queue, now, admissions = list(jobs), 0.0, 0
    held: list[tuple[float, int, Holding]] = []
    waiting: list[tuple[Job, int]] = []
    while queue or waiting or held:
        while queue and len(waiting) + len(held) < workers:
            waiting.append((queue.pop(0), admissions))
        admitted = True
        while admitted:
            admitted = False
            for place, (job, _) in enumerate(waiting):
                ahead = [Waiter(demand=item.demand, passed_count=admissions - since) for item, since in waiting[:place]]
                decision = admit(job.demand, CAPACITY, [item[2] for item in held], ahead)
                if isinstance(decision, Admitted):
                    admissions += 1
                    heapq.heappush(held, (now + job.seconds, admissions, Holding(demand=decision.demand)))
                    del waiting[place]
                    admitted = True
                    break
        if len(waiting) + len(held) < workers and queue:
            continue
        now = heapq.heappop(held)[0]
    return now


def work(folder: Path, jobs: Sequence[Job], next_job: multiprocessing.sharedctypes.Synchronized[int]) -> None:
    ledger = Ledger(folder, CAPACITY)
    while True:
        with next_job.get_lock():
            index = next_job.value
            next_job.value += 1
        if index >= len(jobs):
            return
        lease = ledger.acquire(jobs[index].demand)
        if isinstance(lease, Lease):
            # The child holds the lease as a kernel does, and outlives a killed worker.
            command = ["sleep", f"{jobs[index].seconds:.3f}"]
            with lease, subprocess.Popen(command, pass_fds=[lease.fileno()]):
                pass


def run(jobs: Sequence[Job], workers: int, kill_count: int, folder: Path) -> float:
    """Give the seconds from the first start to the last end, process starts excluded."""
    context = multiprocessing.get_context("fork")
    next_job = context.Value("i", 0)
    started = time.perf_counter()
    processes = [context.Process(target=work, args=(folder, jobs, next_job)) for _ in range(workers)]
    for process in processes:
        process.start()
    draw = random.Random(kill_count)
    for _ in range(kill_count):
        time.sleep(draw.uniform(0.1, 0.6))
        victim = draw.randrange(workers)
        os.kill(processes[victim].pid or 0, signal.SIGKILL)
        processes[victim].join()
        processes[victim] = context.Process(target=work, args=(folder, jobs, next_job))
        processes[victim].start()
    for process in processes:
        process.join()
    ledger = Ledger(folder, CAPACITY)
    while ledger.running():
        time.sleep(0.02)
    return time.perf_counter() - started


def check(folder: Path, job_count: int) -> list[str]:
    """Look through the journal for a total above the capacity, and in the folder for what was left."""
    with open_ledger_files(folder, {}) as files:
        admissions = files.admissions()
    demands = {item.lease: item.holding.demand for item in admissions}
    faults = [
        f"admission {item.number}: more than the capacity"
        for item in admissions
        if not does_fit([demands[name] for name in (item.lease, *item.beside)])
    ]
    left = sorted(path.name for path in folder.iterdir() if path.name not in {"lock", "bell", "journal.jsonl"})
    if left:
        faults.append(f"left: {left}")
    if not job_count * 0.9 <= len(admissions) <= job_count:
        faults.append(f"{len(admissions)} admissions for {job_count} jobs")
    return faults


def does_fit(demands: Sequence[Demand]) -> bool:
    needs = [need.size_bytes for demand in demands for need in demand.devices]
    return (
        sum(demand.host_bytes for demand in demands) <= CAPACITY.host_bytes
        and sum(demand.core_count for demand in demands) <= CAPACITY.core_count
        and sum(size or 0 for size in needs) <= CAPACITY.devices[0]
        and (None not in needs or len(needs) == 1)
    )


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
