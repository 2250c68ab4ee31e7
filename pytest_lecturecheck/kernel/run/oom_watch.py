"""Count the OOM kills that happen while a kernel runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from pytest_lecturecheck.kernel.process.launch import Kernel
from pytest_lecturecheck.model.evidence import OomKill


class OomRecords(Protocol):
    """Reads what the system records about OOM kills."""

    def read_counters(self, group_folder: Path | None) -> Any:
        """Return the current counters, with those of a run's memory group if there is one."""

    def compare_counters(self, before: Any, after: Any) -> tuple[OomKill, ...]:
        """Return the kills between two states of the counters."""

    def read_system_log(self, pids: Iterable[int], since: float) -> tuple[str, ...]:
        """Return lines of the system's log about the end of these processes since a moment of ``time.monotonic``."""


class OomWatch:
    """
    Compares the counters now with those when the kernel started.

    Args:
        records: reads the counters and the log.
        kernel: the kernel.
    """

    def __init__(self, records: OomRecords, kernel: Kernel) -> None:
        """Read the counters."""
        self._records = records
        self._kernel = kernel
        self._before = records.read_counters(self._group_folder)

    @property
    def _group_folder(self) -> Path | None:
        return self._kernel.group.folder if self._kernel.group is not None else None

    def kills(self) -> tuple[OomKill, ...]:
        """Return the kills since the kernel's start."""
        return self._records.compare_counters(self._before, self._records.read_counters(self._group_folder))

    def log_lines(self, since: float) -> tuple[str, ...]:
        """Return lines of the system's log about the end of the kernel since a moment of ``time.monotonic``."""
        return tuple(self._records.read_system_log([self._kernel.pid], since))
