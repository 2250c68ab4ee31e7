"""macOS: RSS of the kernel process by samples. The footprint (``proc_pid_rusage``) is not implemented yet."""

from __future__ import annotations

from pytest_lecturecheck.probe.memory._psutil import PsutilProbe
from pytest_lecturecheck.probe.port import Probe


def open_probe(pid: int, *, interval_seconds: float) -> Probe:
    """Open the probe of macOS for the process ``pid``."""
    return PsutilProbe(pid, interval_seconds=interval_seconds, system="macOS")
