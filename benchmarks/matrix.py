"""
Run the lectures of fixtures/matrix over precisions, sizes, kernels at once and devices, and write the findings.

    python benchmarks/matrix.py                      what this machine can within 20 minutes
    python benchmarks/matrix.py --minutes 5          less
    python benchmarks/matrix.py --sizes 2 --runs 2   a trial

Each part is one session. A part is left out if, by the time that a run took so far, it would not end in time. The last
lines name such parts. Arguments behind -- are handed to pytest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators

HERE = Path(__file__).resolve().parent.parent / "fixtures" / "matrix"
SIZES = {
    "elementwise.md": (10_000, 100_000, 1_000_000, 10_000_000, 50_000_000),
    "linear_algebra.md": (64, 128, 256, 512, 1024),
    "kalman.md": (100, 300, 1_000, 3_000, 10_000),
    "nuts.md": (4, 8, 16, 32, 64),
}
FIRST_GUESS_SECONDS = {"nuts.md": 15.0}


@dataclass(frozen=True)
class Part:
    """One session: a lecture and the axes that it is run over."""

    lecture: str
    axes: dict[str, tuple[object, ...]]
    runs: int

    @property
    def text(self) -> str:
        """Return the axes as an option of pytest."""
        return " ".join(f"{name}={','.join(map(str, values))}" for name, values in self.axes.items())

    @property
    def run_count(self) -> int:
        """Return the number of runs."""
        count = self.runs
        for values in self.axes.values():
            count *= len(values)
        return count

    @property
    def kernel_count(self) -> int:
        """Return the number of kernels that are started."""
        return self.run_count * sum(self.axes.get("concurrency", (1,))) // len(self.axes.get("concurrency", (1,)))


def parts(sizes: int, runs: int, gpus: int) -> list[Part]:
    """Return the parts of the matrix, the most telling ones first."""
    device = {"device": ("cpu", "gpu")} if gpus else {}
    precision = {"precision": ("f32", "f64")}
    plain = [name for name in SIZES if name != "nuts.md"]
    middle = {name: (values[len(values) // 2],) for name, values in SIZES.items()}
    found = [Part(name, {**device, **precision, "size": SIZES[name][:sizes]}, runs) for name in plain]
    samplers = ("vectorized", "sequential")
    found.append(Part("nuts.md", {**device, **precision, "sampler": samplers, "size": SIZES["nuts.md"][:1]}, runs))
    at_once = {**device, "concurrency": (1, 2, 3)}
    for wanted in ("f64", "f32"):
        found += [Part(name, {**at_once, "precision": (wanted,), "size": middle[name]}, runs) for name in plain]
    if gpus > 1:
        counts = tuple(count for count in (1, 2, 4, 8) if count <= gpus)
        found += [Part(name, {"gpus": counts, "size": SIZES[name][-1:]}, runs) for name in plain]
    found.append(Part("nuts.md", {**at_once, "precision": ("f64",), "size": SIZES["nuts.md"][:1]}, runs))
    found.append(Part("nuts.md", {**device, **precision, "size": SIZES["nuts.md"][1:sizes]}, runs))
    return [part for part in found if part.run_count]


def gpu_count() -> int:
    """Return the number of GPUs that NVML reports."""
    return len(detect_accelerators().names)


def run(part: Part, extra: list[str]) -> int:
    """Run one part as a session."""
    command = [sys.executable, "-m", "pytest", "-q", "--lecture-budget", "--lecture-runs", str(part.runs)]
    command += ["--lecture-axes", part.text, *extra, part.lecture]
    print(f"matrix: {part.lecture}: {part.text}, {part.runs} runs each", flush=True)
    quiet = {**os.environ, "PYTEST_ADDOPTS": ""}
    return subprocess.run(command, cwd=HERE, env=quiet, stdout=subprocess.DEVNULL, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0, help="time for everything (default: 20)")
    parser.add_argument("--runs", type=int, default=6, help="runs of each variant: one cold, the others warm")
    parser.add_argument("--sizes", type=int, default=5, help="sizes of each lecture, from the smallest")
    parser.add_argument("--output", type=Path, default=Path("build/matrix"), help="folder of the findings")
    options, extra = parser.parse_known_args()
    extra = [text for text in extra if text != "--"]
    deadline = time.monotonic() + 60 * options.minutes
    per_kernel: dict[str, float] = dict(FIRST_GUESS_SECONDS)
    left_out, status = [], 0
    for part in parts(options.sizes, options.runs, gpu_count()):
        guess = per_kernel.get(part.lecture, 4.0) * part.kernel_count
        if time.monotonic() + guess > deadline:
            left_out.append(part)
            continue
        began = time.monotonic()
        code = run(part, extra)
        per_kernel[part.lecture] = (time.monotonic() - began) / part.kernel_count
        print(f"matrix:   {time.monotonic() - began:.0f} s, exit status {code}", flush=True)
        status = max(status, code)
    command = [sys.executable, "-m", "pytest_lecturecheck.commands.main", "findings", "--root", str(HERE)]
    subprocess.run([*command, "--output", str(options.output.resolve())], check=False)
    for part in left_out:
        print(f"matrix: left out for lack of time: {part.lecture}: {part.text}")
    return status


if __name__ == "__main__":
    sys.exit(main())
