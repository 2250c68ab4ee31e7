"""Made-up sessions of a matrix, on a CPU and on a GPU that does not exist; nothing in them was measured."""

import random

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.profile import Bound, DeviceProfile, ProfileSummary
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.verdict import VerdictKind
from support.made_cohorts import cohort, kernel
from support.made_entries import MACHINE, MIB, failed, verdict
from support.made_sessions import KeptRun, cell, kept, replace, session_of

CPU, GPU = "made-up-cpu", "made-up-gpu"
GPU_MACHINE = replace(MACHINE, accelerators=("made up",))
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def kept_in(variant, seconds, *, repeat=2, lecture="work.md", platform=CPU, machine=None):
    """A complete run of a variant; its first one is cold, compiles for half a second, and reads from the disk."""
    is_cold = repeat == 1
    more = {Metric.COMPILE: 0.5 if is_cold else 0.0, Metric.DISK_READ: 64 * MIB if is_cold else 0}
    more[Metric.READ_CALLS] = 65 * MIB
    keys = {"variant": variant, "repeat": repeat, "platform": platform, "compile_cache": "cold" if is_cold else "warm"}
    keys["machine"] = machine or (GPU_MACHINE if platform == GPU else MACHINE)
    return kept(lecture, 300, seconds + more[Metric.COMPILE], more=more, **keys)


def rounds(variant, seconds, *, noise=0.0, seed=0, count=6, **rest):
    draw = random.Random(f"{variant} {seed}")
    return [kept_in(variant, seconds * (1 + noise * draw.uniform(-1, 1)), repeat=n + 1, **rest) for n in range(count)]


def cpu_session():
    runs = []
    for size in SIZES:
        runs += rounds(f"precision=f32,size={size}", size * 1e-6, noise=0.02)
        runs += rounds(f"precision=f64,size={size}", size * 2e-6, noise=0.02)
    for sampler, seconds in (("sequential", 8.0), ("vectorized", 4.0)):
        runs += rounds(f"sampler={sampler}", seconds, lecture="nuts.md", noise=0.02)
    runs += [kept("alone.md", 400, 3.0, platform=CPU)]
    for count in (2, 3):
        ends = [Outcome.COMPLETED] * 2 + [Outcome.DIED] * (count - 2)
        joined = cohort(*(kernel("alone.md", end) for end in ends), name=f"c={count}")
        runs.append(KeptRun(run=replace(joined.run, platform=CPU), verdict=verdict(VerdictKind.WITHIN, "")))
    entry = failed()
    runs.append(KeptRun(run=replace(entry.run, platform=CPU), verdict=entry.verdict))
    return session_of(*runs, name="made-up-on-a-cpu", platform=CPU)


def gpu_session():
    runs = []
    for size in SIZES:
        for precision, factor in (("f32", 1.0), ("f64", 8.0)):
            seconds = 0.02 + size * 1e-7 * factor
            runs += rounds(f"precision={precision},size={size}", seconds, noise=0.02, platform=GPU)
    for count, seconds in ((1, 8.0), (2, 5.0), (4, 1.5)):
        runs += rounds(f"gpus={count}", seconds, lecture="wide.md", platform=GPU)
    runs.append(traced())
    return session_of(*runs, name="made-up-on-a-gpu", platform=GPU)


def traced():
    device = DeviceProfile(
        device="GPU 0", kernel_seconds=1.0, gap_seconds=3.0, launch_count=7, op_count=9, bound=next(iter(Bound))
    )
    traced_cell = replace(cell(1, 12, 300, 10, 4.0), profile=ProfileSummary(devices=(device,), cell_seconds=4.0))
    run = Run(lecture="traced.md", platform=GPU, outcome=Outcome.COMPLETED, cells=(traced_cell,), is_profiled=True)
    return KeptRun(run=run, verdict=verdict(VerdictKind.PROFILED, ""))


__all__ = ["CPU", "GPU", "GPU_MACHINE", "MIB", "SIZES", "cpu_session", "gpu_session", "kept_in", "rounds"]
