"""Functions for use without pytest: measure a process, and explain how one ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis import Cause
from pytest_lecturecheck.diagnosis import diagnose as diagnose_evidence
from pytest_lecturecheck.kernel.process.stderr import stderr_tail
from pytest_lecturecheck.kernel.run.program_errors import find_program_error
from pytest_lecturecheck.model.evidence import Evidence, HostFacts, KernelExit, MemoryFacts
from pytest_lecturecheck.model.metric import Metric, Reading
from pytest_lecturecheck.model.run_conditions import RunConditions
from pytest_lecturecheck.probe.machine import available_memory, detect_machine, read_commit_rule
from pytest_lecturecheck.probe.memory import open_memory_probe


@dataclass(slots=True)
class ProcessMeasurement:
    """
    What was measured of a process and its descendants.

    Attributes:
        readings: by metric; each is a ``Measurement`` with its method, or ``Unavailable`` with the reason. Empty
            until the measurement has ended.
    """

    readings: Mapping[Metric, Reading] = field(default_factory=dict)

    def value(self, metric: str) -> float | None:
        """Return the value of a metric by its name ("peak_footprint_bytes"), or ``None`` if it was not measured."""
        return getattr(self.readings.get(Metric(metric)), "value", None)


@contextmanager
def measure(pid: int) -> Iterator[ProcessMeasurement]:
    """
    Measure a process and its descendants for as long as the ``with`` block lasts.

    On Linux the peak of the process itself is exact, if it still runs when the block ends; see
    docs/explanation/memory.md. It resets the process's high watermark (``VmHWM``).

    Args:
        pid: process id of a running process of this user.

    Yields:
        The measurement, which is filled in when the block ends.

    Raises:
        ProcessLookupError: there is no such process.
    """
    if os.name == "posix":
        # Also a process that has ended, and that its parent has not waited for, still has its number.
        os.kill(pid, 0)
    found = ProcessMeasurement()
    probe = open_memory_probe(pid)
    probe.begin_cell()
    try:
        yield found
    finally:
        measured = probe.end_cell()
        found.readings = {**measured.readings, **probe.close()}


def diagnose(
    returncode: int,
    *,
    output: str = "",
    peak_bytes: int | None = None,
    cap_bytes: int | None = None,
    declared_bytes: int | None = None,
) -> Cause:
    """
    Explain how a program ended, as firmly as the evidence allows.

    Args:
        returncode: as :mod:`subprocess` gives it: negative for a signal.
        output: what the program wrote, or the end of it; tracebacks and errors are found in it.
        peak_bytes: its peak footprint, if it was measured.
        cap_bytes: a memory limit that was set for it.
        declared_bytes: memory that its package declares.

    Returns:
        The cause: ``kind``, ``headline``, ``evidence`` and ``advice``.
    """
    machine, commit = detect_machine(), read_commit_rule()
    is_signal = returncode < 0 and sys.platform != "win32"
    error = None if is_signal else find_program_error(output)
    evidence = Evidence(
        is_program=True,
        cell_number=1,
        error=error,
        exit=KernelExit(
            exit_code=None if is_signal else returncode,
            signal=-returncode if is_signal else None,
            stderr_tail=stderr_tail(output) if error is None else (),
        ),
        memory=MemoryFacts(
            peak_footprint_bytes=peak_bytes,
            available_bytes=available_memory(),
            limit_bytes=machine.usable_memory_bytes,
            limit_source=machine.usable_memory_source,
            ram_bytes=machine.ram_bytes,
            swap_bytes=machine.swap_bytes,
            refuses_when_full=commit.refuses_when_full,
            commit_limit_bytes=commit.limit_bytes,
            declared_bytes=declared_bytes,
        ),
        host=HostFacts(architecture=machine.architecture, core_count=machine.core_count),
        conditions=RunConditions(cap_bytes=cap_bytes, cap_method="set by the caller" if cap_bytes is not None else ""),
    )
    return diagnose_evidence(evidence)
