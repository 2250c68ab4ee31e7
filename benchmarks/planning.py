"""
Plan 10,000 made-up lectures on 100 machines: how long that takes, and how close to the lower bound the plan comes.

    python benchmarks/planning.py
    python benchmarks/planning.py --lectures 1000 --machines 10
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from pytest_lecturecheck.lease.admission import Capacity
from pytest_lecturecheck.lease.fleet_plan import PlannedJob, PlannedMachine, plan_fleet

GB = 10**9
MOST_SECONDS = 10.0
MOST_RATIO = 1.15


def lectures(count: int, seed: int) -> list[PlannedJob]:
    """Return lectures as repositories have them: most are short and small, some are long or large."""
    draw = random.Random(seed)
    return [
        PlannedJob(
            name=f"{number:05}",
            seconds=min(1800.0, draw.lognormvariate(3.0, 1.0)),
            host_bytes=int(min(24.0, draw.lognormvariate(-0.5, 0.9)) * GB),
            core_count=draw.choice((1, 1, 1, 2, 4)),
        )
        for number in range(count)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lectures", type=int, default=10_000)
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    capacity = Capacity(host_bytes=32 * GB, devices={}, core_count=8)
    machines = [PlannedMachine(name=str(number), capacity=capacity) for number in range(options.machines)]
    is_met = True
    for seed in range(options.seeds):
        jobs = lectures(options.lectures, seed)
        began = time.perf_counter()
        plan = plan_fleet(jobs, machines)
        seconds = time.perf_counter() - began
        ratio = plan.makespan_seconds / plan.lower_bound_seconds
        is_met = is_met and seconds < MOST_SECONDS and ratio <= MOST_RATIO
        print(f"seed {seed}: {seconds:.2f} s; {ratio:.4f} of the lower bound")
    print(f"target: under {MOST_SECONDS:g} s, at most {MOST_RATIO} of the lower bound: {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
