"""Windows: RSS (working set) of the kernel process by samples. Private commit is not implemented yet."""

from __future__ import annotations

from pytest_lecturecheck.probe.memory._psutil import PsutilProbe
from pytest_lecturecheck.probe.port import Probe


def open_probe(pid: int, *, interval_seconds: float) -> Probe:
    """Open the probe of Windows for the process ``pid``."""
    return PsutilProbe(pid, interval_seconds=interval_seconds, system="Windows")
