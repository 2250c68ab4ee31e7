"""Open the probes of a kernel: one for its processes, one for the GPUs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.process.launch import Kernel
from pytest_lecturecheck.model.probe import DeviceProbe, Probe


class ProbeOpener(Protocol):
    """Opens the measurement of kernels."""

    def open_probe(
        self, pid: int, token: str, supervisor_pid: int | None, read_group: Callable[[], int | None] | None
    ) -> Probe:
        """Open the probe of a kernel: its process id, its token, its supervisor, a reader of its group's bytes."""

    def open_remote_probe(self) -> Probe:
        """Open a stand-in for the probe of a kernel on another machine."""

    def open_device_probe(self, pid: int, token: str, supervisor_pid: int | None) -> DeviceProbe | None:
        """Open the GPU probe of a kernel, or return ``None`` if there is no GPU."""

    def note_killed(self, token: str) -> None:
        """Record that the kernel of a run is being killed, because its GPU memory may then come back late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProbes:
    """
    The open probes of one kernel.

    Attributes:
        memory: measures the kernel's processes.
        devices: measures the GPUs, or ``None``.
        devices_since: when the GPUs' timelines begin (``time.perf_counter``).
    """

    memory: Probe
    devices: DeviceProbe | None
    devices_since: float


def open_kernel_probes(opener: ProbeOpener, kernel: Kernel) -> KernelProbes:
    """Open the probes of a kernel; nothing is measured of one that runs on another machine."""
    if not kernel.location.is_here:
        return KernelProbes(memory=opener.open_remote_probe(), devices=None, devices_since=time.perf_counter())
    memory = open_memory_probe(opener, kernel)
    since = time.perf_counter()
    devices = opener.open_device_probe(kernel.pid, kernel.token, kernel.supervisor_pid)
    return KernelProbes(memory=memory, devices=devices, devices_since=since)


def open_memory_probe(opener: ProbeOpener, kernel: Kernel) -> Probe:
    """Open the probe of the processes of a kernel on this machine."""
    read_group = kernel.group.footprint_bytes if kernel.group is not None else None
    return opener.open_probe(kernel.pid, kernel.token, kernel.supervisor_pid, read_group)
