"""
Run the lectures of fixtures/matrix over precisions, sizes, kernels at once and devices, and write the findings.

    python benchmarks/matrix.py                      what this machine can within 20 minutes
    python benchmarks/matrix.py --minutes 5          less
    python benchmarks/matrix.py --only kalman.md --kernels 1   a piece; several in turn add up
    python benchmarks/matrix.py --only none          only the findings of the sessions that are kept
    python benchmarks/matrix.py --sizes 2 --runs 2   a trial

Each part is one session. A part is left out if, by the time that a run took so far, it would not end in time. The last
lines name such parts. Arguments behind -- are handed to pytest.

Every variant runs in several new kernels in turn, the first with an empty compile cache, and some passes in each. With
several kernels at once it runs in new kernels once, and then again in the same ones. NUTS takes longest to
compile, and starts with a filled cache; one variant of it also runs with an empty one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators

HERE = Path(__file__).resolve().parent.parent / "fixtures" / "matrix"
NUTS = "nuts.md"
SIZES = {
    "elementwise.md": (10_000, 100_000, 1_000_000, 10_000_000, 50_000_000),
    "linear_algebra.md": (64, 128, 256, 512, 1024),
    "kalman.md": (100, 300, 1_000, 3_000, 10_000),
    NUTS: (1, 2, 4, 8, 16),
}
SAMPLERS = ("sequential", "vectorized")
PRECISIONS = ("f32", "f64")
FIRST_GUESS_SECONDS = {NUTS: 7.0}


@dataclass(frozen=True)
class Part:
    """One session: a lecture and the axes that it is run over."""

    lecture: str
    axes: dict[str, tuple[object, ...]]
    runs: int = 1
    passes: int = 1
    is_prepared: bool = False
    """Whether its kernels find compiled programs."""

    @property
    def text(self) -> str:
        """Return the axes as an option of pytest."""
        return " ".join(f"{name}={','.join(map(str, values))}" for name, values in self.axes.items())

    @property
    def kernel_count(self) -> int:
        """Return the number of kernels that are started."""
        count = self.runs
        for name, values in self.axes.items():
            count *= sum(values) if name == "concurrency" else len(values)
        return count


def parts(options: argparse.Namespace, gpus: int) -> list[Part]:
    """Return the parts of the matrix, the most telling ones first."""
    device: dict[str, tuple[object, ...]] = {"device": ("cpu", "gpu")} if gpus else {}
    several = tuple(count for count in options.kernels if count > 1)
    found = []
    for name, sizes in SIZES.items():
        is_prepared = name == NUTS
        # The last axis alternates fastest: what is compared with each other runs in turn.
        axes = {**device, "size": sizes[: options.sizes], "precision": PRECISIONS}
        if 1 in options.kernels:
            # Fewer starts and more passes for NUTS, whose imports take longest.
            runs, passes = (2, options.passes + 1) if is_prepared else (options.runs, options.passes)
            found.append(Part(name, axes, runs, passes, is_prepared))
        if several:
            found.append(Part(name, {**axes, "concurrency": several}, 1, 2 * options.passes, is_prepared))
    if 1 in options.kernels:
        middle = SIZES[NUTS][(options.sizes - 1) // 2]
        axes = {**device, "size": (middle,), "precision": PRECISIONS, "sampler": SAMPLERS}
        found.append(Part(NUTS, axes, 2, options.passes + 1, is_prepared=True))
        found.append(Part(NUTS, {**device, "size": (middle,), "precision": PRECISIONS[1:]}, 2))
    if gpus > 1:
        counts = tuple(count for count in (1, 2, 4, 8) if count <= gpus)
        found += [Part(name, {"gpus": counts, "size": values[-1:]}, options.runs) for name, values in SIZES.items()]
    return found


def gpu_count() -> int:
    """Return the number of GPUs that NVML reports."""
    return len(detect_accelerators().names)


def run(part: Part, extra: list[str], *, folder: Path = HERE, cache: Path | None = None) -> int:
    """Run one part as a session."""
    command = [sys.executable, "-m", "pytest", "-q", "--lecture-budget", "--lecture-runs", str(part.runs)]
    command += ["--lecture-passes", str(part.passes), "--lecture-axes", part.text]
    command += ["--lecture-compile-cache", "fresh" if cache is None else "kept", *extra, part.lecture]
    environment = {**os.environ, "PYTEST_ADDOPTS": ""}
    if cache is not None:
        environment |= {
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False).returncode


def fill_cache(cache: Path, folder: Path, part: Part, extra: list[str]) -> None:
    """Compile a part's programs in a session that is not kept: its times are those of compiling."""
    for name in (NUTS, "pytest.ini"):
        shutil.copy(HERE / name, folder)
    axes = {"sampler": SAMPLERS[:1], **part.axes}
    # A vectorized sampler is another program for each number of draws; a sequential one is not.
    axes["size"] = axes["size"] if "vectorized" in axes["sampler"] else axes["size"][:1]
    axes.pop("concurrency", None)
    run(Part(NUTS, axes), extra, folder=folder, cache=cache)


def run_parts(wanted: list[Part], deadline: float, cache: Path, extra: list[str]) -> tuple[list[Part], int]:
    """Run parts as long as there is time; return those left out, and the worst exit status."""
    per_kernel: dict[str, float] = dict(FIRST_GUESS_SECONDS)
    left_out, status = [], 0
    with tempfile.TemporaryDirectory(prefix="lecturecheck-matrix-") as name:
        folder = Path(name)
        for part in wanted:
            guess = per_kernel.get(part.lecture, 3.0) * part.kernel_count
            if time.monotonic() + guess > deadline:
                left_out.append(part)
                continue
            began = time.monotonic()
            print(f"matrix: {part.lecture}: {part.text}, {part.runs} x {part.passes} times", flush=True)
            done = cache / f"filled-{'-'.join(map(str, part.axes.get('sampler', SAMPLERS[:1])))}"
            if part.is_prepared and not done.exists():
                fill_cache(cache, folder, part, extra)
                done.touch()
                print(f"matrix:   {time.monotonic() - began:.0f} s to compile", flush=True)
            code = run(part, extra, cache=cache if part.is_prepared else None)
            per_kernel[part.lecture] = (time.monotonic() - began) / part.kernel_count
            print(f"matrix:   {time.monotonic() - began:.0f} s, exit status {code}", flush=True)
            status = max(status, code)
    return left_out, status


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0, help="time for everything (default: 20)")
    parser.add_argument(
        "--runs", type=int, default=3, help="runs of each variant in new kernels: one cold, others warm"
    )
    parser.add_argument("--passes", type=int, default=3, help="passes in each kernel, the first one counted")
    parser.add_argument("--kernels", type=_numbers, default=(1, 2, 3), help="kernels at once (default: 1,2,3)")
    parser.add_argument("--sizes", type=int, default=5, help="sizes of each lecture, from the smallest")
    parser.add_argument("--only", action="append", choices=[*SIZES, "none"], help="lectures (default: all)")
    parser.add_argument("--cache", type=Path, help="folder for the compiled programs of NUTS (default: a new one)")
    parser.add_argument("--output", type=Path, default=Path("build/matrix"), help="folder of the findings")
    options, extra = parser.parse_known_args()
    extra = [text for text in extra if text != "--"]
    wanted = [part for part in parts(options, gpu_count()) if options.only is None or part.lecture in options.only]
    with tempfile.TemporaryDirectory(prefix="lecturecheck-compiled-") as name:
        cache = options.cache or Path(name)
        cache.mkdir(parents=True, exist_ok=True)
        left_out, status = run_parts(wanted, time.monotonic() + 60 * options.minutes, cache, extra)
    command = [sys.executable, "-m", "pytest_lecturecheck.commands.main", "findings", "--root", str(HERE)]
    subprocess.run([*command, "--output", str(options.output.resolve())], check=False)
    for part in left_out:
        print(f"matrix: left out for lack of time: {part.lecture}: {part.text}")
    return status


if __name__ == "__main__":
    sys.exit(main())
