"""
What a real GPU does: the driver's figures beside the allocator's, for several kernels at once, and a few timings.

Starts 1, 2 and 3 processes of JAX on the first card, with and without preallocation, each with 256 MiB of live arrays,
and prints one table: what NVML says that each process holds, what the allocator says is live and held, and how each
process ended. Then the time of a matrix product in single and double precision, and of a small operation (a launch).
Needs a GPU that nobody else uses, and JAX with CUDA; takes about two minutes.

Usage: python benchmarks/gpu_check.py [--save readings.json]
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_lecturecheck.model.device import DeviceUse
from pytest_lecturecheck.model.metric import Measurement
from pytest_lecturecheck.model.probe import RUN_LECTURE_VARIABLE, RUN_TOKEN_VARIABLE
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.probe.gpu.monitor import GpuMonitor, open_gpu_monitor
from pytest_lecturecheck.store.runs import run_to_dict
from pytest_lecturecheck.units import format_size

HOLD = """
import json, sys, time
import jax, jax.numpy as jnp
x = jnp.ones((64, 1024, 1024), jnp.float32).block_until_ready()
stats = jax.local_devices()[0].memory_stats() or sys.exit("JAX does not use the GPU: is its CUDA plugin installed?")
print(json.dumps({"live": stats["bytes_in_use"], "pool": stats.get("pool_bytes"), "limit": stats.get("bytes_limit")}),
      flush=True)
sys.stdin.read()
"""
TIME = """
import json, time
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
def seconds(f, *args, repeat):
    f(*args).block_until_ready()
    start = time.perf_counter()
    for _ in range(repeat):
        y = f(*args)
    y.block_until_ready()
    return (time.perf_counter() - start) / repeat
product, small = jax.jit(jnp.matmul), jax.jit(lambda x: x + 1)
found = {}
for name, dtype in (("f32", jnp.float32), ("f64", jnp.float64)):
    a = jnp.ones((4096, 4096), dtype)
    found[f"matmul 4096 {name}"] = seconds(product, a, a, repeat=10)
found["small operation"] = seconds(small, jnp.ones(8), repeat=2000)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Row:
    """One process among ``kernels`` that ran at once; sizes in bytes, what NVML says as text with its method."""

    kernels: int
    preallocates: bool
    number: int
    nvml: str
    live_bytes: int | None
    pool_bytes: int | None
    limit_bytes: int | None
    ended: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, metavar="FILE", help="also keep the readings, timelines included")
    options = parser.parse_args()
    monitor = open_gpu_monitor()
    if not monitor.devices:
        print(f"no GPU to check: {monitor.reason or 'none is visible'}", file=sys.stderr)
        return 2
    print(f"{', '.join(device.label for device in monitor.devices)}; driver {monitor.driver}, CUDA {monitor.cuda}\n")
    rows, kept = [], []
    for preallocates in (True, False):
        for count in (1, 2, 3):
            found, uses = run_together(monitor, count, preallocates=preallocates)
            rows += found
            kept += uses
            print_rows(found, with_head=len(rows) == len(found))
    timings = time_operations()
    print("\n" + "\n".join(f"{name}: {seconds * 1e6:,.0f} us" for name, seconds in timings.items()))
    if timings:
        print(f"f64 / f32 = {timings['matmul 4096 f64'] / timings['matmul 4096 f32']:.1f}")
    if options.save:
        record = {"rows": [asdict(row) for row in rows], "timings": timings, "runs": kept}
        options.save.write_text(json.dumps(record, indent=1), encoding="utf-8")
    monitor.close()
    return 0


def run_together(monitor: GpuMonitor, count: int, *, preallocates: bool) -> tuple[list[Row], list[dict]]:
    """Run ``count`` processes at once, and look at all of them while they hold their arrays."""
    children, probes = [], []
    for number in range(1, count + 1):
        token = secrets.token_hex(8)
        environment = {
            **os.environ,
            RUN_TOKEN_VARIABLE: token,
            RUN_LECTURE_VARIABLE: f"kernel {number} of {count}",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "true" if preallocates else "false",
        }
        pipe = subprocess.PIPE
        child = subprocess.Popen(
            [sys.executable, "-c", HOLD], env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.PIPE, text=True
        )
        children.append(child)
        probes.append(monitor.open_probe(child.pid, token))
    words = [read_words(child) for child in children]
    time.sleep(0.5)
    seen = [probe.snapshot() if probe is not None else () for probe in probes]
    rows, kept = [], []
    for number, (child, said, uses) in enumerate(zip(children, words, seen, strict=True), start=1):
        ended = "held its arrays" if said else end_of(child)
        rows.append(row_of(count, number, uses, said, ended=ended, preallocates=preallocates))
    for child, probe, number in zip(children, probes, range(1, count + 1), strict=True):
        if child.returncode is None:
            child.communicate()
        if probe is not None:
            _, devices = probe.close()
            run = Run(lecture=f"kernel {number} of {count}", platform="", outcome=Outcome.COMPLETED, devices=devices)
            kept.append(run_to_dict(run))
    return rows, kept


def read_words(child: subprocess.Popen[str]) -> dict[str, int] | None:
    """Give what a process says of its allocator, or ``None`` where it died before."""
    line = child.stdout.readline() if child.stdout is not None else ""
    return json.loads(line) if line.startswith("{") else None


def end_of(child: subprocess.Popen[str]) -> str:
    """Say how a process ended, with its last words."""
    _, stderr = child.communicate()
    return f"ended with {child.returncode}: {' '.join(stderr.split())[-120:]}"


def row_of(
    count: int,
    number: int,
    uses: tuple[DeviceUse, ...],
    said: dict[str, int] | None,
    *,
    ended: str,
    preallocates: bool,
) -> Row:
    used = max((use.used for use in uses if isinstance(use.used, Measurement)), key=lambda m: m.value, default=None)
    said = said or {}
    return Row(
        kernels=count,
        preallocates=preallocates,
        number=number,
        nvml=f"{used.text} {used.method}" if used is not None else "not measured",
        live_bytes=said.get("live"),
        pool_bytes=said.get("pool"),
        limit_bytes=said.get("limit"),
        ended=ended,
    )


def print_rows(rows: list[Row], *, with_head: bool) -> None:
    form = "{:>7} {:>11} {:>6} {:>18} {:>10} {:>10} {:>10}  {}"
    if with_head:
        print(form.format("kernels", "preallocate", "kernel", "NVML", "live", "pool", "limit", "end"))
    for row in rows:
        sizes = [size_text(size) for size in (row.live_bytes, row.pool_bytes, row.limit_bytes)]
        yes = "yes" if row.preallocates else "no"
        print(form.format(row.kernels, yes, row.number, row.nvml, *sizes, row.ended), flush=True)


def size_text(size_bytes: float | None) -> str:
    return "-" if size_bytes is None else format_size(size_bytes)


def time_operations() -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", TIME], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"the timings failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return {}
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
