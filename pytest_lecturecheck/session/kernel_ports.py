"""The real ports of kernels: what :class:`~pytest_lecturecheck.kernel.run.ports.Ports` reads through the probe room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from pytest_lecturecheck.model.evidence import OomKill
from pytest_lecturecheck.model.probe import CommitRule, DeviceProbe, Probe, SharedSegment
from pytest_lecturecheck.probe import machine, marked_processes, oom, system_v_memory
from pytest_lecturecheck.probe.gpu.monitor import GpuMonitor
from pytest_lecturecheck.probe.memory import open_memory_probe
from pytest_lecturecheck.probe.remote import RemoteProbe


class MachineProbes:
    """
    Opens the probes of kernels on this machine.

    Args:
        gpus: the GPUs of this machine.
        on_kernel: called with the process id of each kernel that is measured.
    """

    def __init__(self, gpus: GpuMonitor, on_kernel: Callable[[int], None]) -> None:
        """Open nothing yet."""
        self._gpus = gpus
        self._on_kernel = on_kernel

    def open_probe(
        self, pid: int, token: str, supervisor_pid: int | None, read_group: Callable[[], int | None] | None
    ) -> Probe:
        """Open the probe of a kernel's processes."""
        self._on_kernel(pid)
        return open_memory_probe(pid, run_token=token, supervisor_pid=supervisor_pid, read_group=read_group)

    @staticmethod
    def open_remote_probe() -> Probe:
        """Open the stand-in for a kernel on another machine."""
        return RemoteProbe()

    def open_device_probe(self, pid: int, token: str, supervisor_pid: int | None) -> DeviceProbe | None:
        """Open the GPU probe of a kernel."""
        return self._gpus.open_probe(pid, token, supervisor_pid=supervisor_pid)

    def note_killed(self, token: str) -> None:
        """Notify the GPU monitor that a kernel is being killed."""
        self._gpus.note_killed(token)


class MachineMemory:
    """
    Reads memory, load and limits of this machine.

    Args:
        core_count: cores that runs can use, or ``None``.
    """

    def __init__(self, core_count: int | None) -> None:
        """Read nothing yet."""
        self._core_count = core_count

    @staticmethod
    def available_bytes() -> int | None:
        """Return the memory that is available now."""
        return machine.available_memory()

    def load_average(self) -> float | None:
        """Return the processes that wanted a core during the last minute."""
        return oom.read_load_average(core_count=self._core_count)

    @staticmethod
    def ulimit(pid: int) -> tuple[int, str] | None:
        """Return the smallest limit of ``ulimit`` on a process's memory, and its name."""
        return machine.read_ulimit(pid)

    @staticmethod
    def commit_rule() -> CommitRule:
        """Return whether the system refuses allocations when memory runs out, and from which amount on."""
        return machine.read_commit_rule()


class MachineOomRecords:
    """Reads the OOM counters and the log of this machine."""

    @staticmethod
    def read_counters(group_folder: Path | None) -> Any:
        """Return the current counters."""
        return oom.read_oom_counters(cap_folder=group_folder)

    @staticmethod
    def compare_counters(before: Any, after: Any) -> tuple[OomKill, ...]:
        """Return the kills between two states of the counters."""
        return oom.compare_oom_counters(before, after)

    @staticmethod
    def read_system_log(pids: Iterable[int], since: float) -> tuple[str, ...]:
        """Return lines of the system's log about these processes."""
        return oom.read_kernel_log(pids, since_seconds=since)


class MachineLeftovers:
    """Finds processes and shared memory of runs on this machine."""

    @staticmethod
    def find_marked(token: str) -> Iterable[int]:
        """Return the processes that carry a run's token."""
        return marked_processes.find_marked(token)

    @staticmethod
    def list_shared_memory() -> Mapping[str, SharedSegment]:
        """Return the segments of shared memory, POSIX and System V."""
        others = {name: found.segment for name, found in system_v_memory.list_system_v_memory().items()}
        return {**marked_processes.list_shared_memory(), **others}

    @staticmethod
    def find_mapped(names: AbstractSet[str], pids: Iterable[int] | None) -> AbstractSet[str]:
        """Return those of the segments that one of these processes maps."""
        pids = None if pids is None else list(pids)
        return marked_processes.find_mapped(names, pids) | system_v_memory.find_used(names, pids)

    @staticmethod
    def remove_shared_memory(name: str) -> bool:
        """Remove a segment."""
        is_gone = system_v_memory.remove_system_v_memory(name)
        return marked_processes.remove_shared_memory(name) if is_gone is None else is_gone
