"""
How far a lecture gets beyond its memory cap where only the watchdog holds it.

Each run allocates and fills memory at full speed. The peak is that of the system (``ru_maxrss``), which the kernel's
supervisor reports after its end. Run it as a user who may not create memory groups. Exits with 1 where a run
exceeded its cap by more than 64 MiB.

Usage: python benchmarks/cap.py [--runs 5]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import nbformat.v4

from pytest_lecturecheck.config.options import DEFAULTS
from pytest_lecturecheck.kernel.launchers.supervised import SupervisedProcess
from pytest_lecturecheck.model.lecture import Cell, Lecture, LectureFormat
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.probe.machine import detect_machine
from pytest_lecturecheck.session.workbench import Workbench
from pytest_lecturecheck.units import MIB

CAP_BYTES = 400 * MIB
MOST_BEYOND_BYTES = 64 * MIB
SOURCES = {
    "one block": "held = bytearray(b'1') * 8_000_000_000",
    "blocks of 10 MB": "held = []\nwhile True:\n    held.append(bytearray(b'1') * 10_000_000)",
    "blocks of 10 MB in a child": (
        "import os\nif os.fork() == 0:\n    held = []\n    while True:\n"
        "        held.append(bytearray(b'1') * 10_000_000)\nos.wait()\nwhile True: pass"
    ),
    "one block of huge pages": (
        "import ctypes, mmap\nheld = mmap.mmap(-1, 8_000_000_000)\nheld.madvise(mmap.MADV_HUGEPAGE)\n"
        "ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(held)), 1, len(held))"
    ),
    "small objects": "held = []\nwhile True:\n    held.append([])",
}


def lecture(folder: Path, source: str) -> Lecture:
    """Return a lecture of one cell."""
    return Lecture(
        path=folder / "lecture.md",
        name="lecture.md",
        format=LectureFormat.MYST,
        kernel_name=None,
        language="python",
        cells=(Cell(index=0, number=1, source=source, line=1),),
        settings=RunSettings(),
        findings=(),
        document=nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    ended: list[SupervisedProcess] = []
    close = SupervisedProcess.close

    def note(process: SupervisedProcess) -> None:
        ended.append(process)
        close(process)

    SupervisedProcess.close = note  # type: ignore[method-assign]
    bench = Workbench(
        platform="cap",
        machine=detect_machine(),
        on_kernel=lambda _pid: None,
        on_progress=lambda _progress: None,
        on_wait=lambda: None,
    )
    settings = replace(DEFAULTS, timeout_seconds=60.0, memory_cap_bytes=CAP_BYTES)
    worst = 0
    with tempfile.TemporaryDirectory(prefix="cap-") as name:
        for title, source in SOURCES.items():
            rows = []
            for _ in range(options.runs):
                run = bench.run(lecture(Path(name), source), settings, 1)
                evidence = run.evidence
                stop = evidence.memory.watchdog_stop if evidence is not None else None
                if stop is None:
                    print(f"{title}: {run.outcome.value}, {run.reason or run.conditions.cap_method}")
                    return 1
                peak = ended[-1].peak_rss_bytes or 0
                worst = max(worst, peak - CAP_BYTES, stop.footprint_bytes - CAP_BYTES)
                rows.append(f"{stop.footprint_bytes / MIB:.0f}/{peak / MIB:.0f}")
            print(f"{title}: reading / peak of the kernel in MiB: {', '.join(rows)}", flush=True)
    bench.close()
    load = os.getloadavg()[0]
    print(f"cap {CAP_BYTES // MIB} MiB, at most {worst / MIB:.0f} MiB beyond it; load {load:.1f}")
    return int(worst > MOST_BEYOND_BYTES)


if __name__ == "__main__":
    sys.exit(main())
