"""Watch what a lecture leaves on the machine: processes, shared memory, files, killed children."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pytest_lecturecheck.kernel.process.teardown import Leftover, find_run_processes
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.shared_memory import LeftoverSources, SharedMemoryWatch
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.units import format_size

_NAME_CHARS: Final = 120
_NAMES: Final = 10
_UNWATCHED: Final = (
    "somebody killed the kernel's supervisor and the server of kernels; processes that the lecture had started just "
    "before may still run"
)
_BYPRODUCTS: Final = frozenset({"__pycache__", ".ipynb_checkpoints", ".pytest_cache"})


class LeftoverWatch:
    """
    Notes what appears while a lecture runs, so that leftovers can be attributed to a cell.

    Args:
        session: the kernel.
        sources: finds processes and shared memory.
        folder: the kernel's working folder; ``None`` if it is a temporary one, which goes with all its files.
        lecture: the lecture's own file.
    """

    def __init__(self, session: KernelSession, sources: LeftoverSources, folder: Path | None, lecture: Path) -> None:
        """Record the state before the first cell."""
        self._attached = session
        self._sources = sources
        self._folder = folder
        self._files = _names_in(folder)
        self._lecture = lecture
        self._had_lecture = lecture.is_file()
        self._shared_memory = SharedMemoryWatch(sources, self._run_processes)
        self._process_cells: dict[int, int] = {}
        self._kernel_pids: frozenset[int] = frozenset()
        self._kill_count = 0
        self._findings: list[Finding] = []

    def note_ready(self) -> None:
        """Record the kernel's own processes, before the first cell: they are never the lecture's."""
        self._kernel_pids = frozenset(self._other_processes())

    def look(self, cell_number: int) -> None:
        """Record what appeared during a cell; call this while its processes still exist."""
        self._shared_memory.look(cell_number)
        for pid in self._other_processes():
            self._process_cells.setdefault(pid, cell_number)
        group = self._attached.kernel.group
        kill_count = group.oom_kill_count() if group is not None else 0
        if group is not None and kill_count > self._kill_count and not self._attached.has_ended:
            message = (
                f"a child process was killed for memory at the cap of {format_size(group.limit_bytes)}; "
                "the kernel itself went on"
            )
            self._findings.append(
                Finding(kind=FindingKind.PROCESS, message=message, cell_number=cell_number, fails_when_strict=True)
            )
        self._kill_count = kill_count

    def _other_processes(self) -> Iterable[int]:
        """Return the run's processes; empty if there is no sign of any but the kernel."""
        kernel = self._attached.kernel
        if kernel.group is not None and kernel.supervisor_pid is None:
            return kernel.group.pids()
        snapshot = self._attached.probe.snapshot()
        if snapshot is None or snapshot.process_count == 1:
            return ()
        return self._run_processes()

    def _run_processes(self) -> Iterable[int]:
        kernel = self._attached.kernel
        return find_run_processes(kernel, self._sources.find_marked)(kernel.token)

    def report(self, killed: tuple[Leftover, ...]) -> Iterator[Finding]:
        """
        Report what was left when the kernel had ended.

        Args:
            killed: the processes that had to be killed.
        """
        yield from self._findings
        killed = tuple(process for process in killed if process.pid not in self._kernel_pids)
        # First those that nobody has ended.
        killed = tuple(sorted(killed, key=lambda process: process.other_user is None))
        for process in killed[:_NAMES]:
            yield self._process_finding(process)
        if len(killed) > _NAMES:
            message = f"left {len(killed) - _NAMES} more processes running; they were killed"
            yield Finding(kind=FindingKind.PROCESS, message=message)
        if self._attached.kernel.provisioner.has_lost_server:
            yield Finding(kind=FindingKind.PROCESS, message=_UNWATCHED, fails_when_strict=True)
        yield from self._shared_memory.report()
        if self._had_lecture and not self._lecture.is_file():
            message = "the lecture's own file was removed while it ran (by it, or by what ran beside it)"
            yield Finding(kind=FindingKind.FILES, message=message, fails_when_strict=True)
        new = sorted(_names_in(self._folder) - self._files)
        if new:
            shown = ", ".join(repr(name[:_NAME_CHARS]) for name in new[:_NAMES])
            more = f" and {len(new) - _NAMES} more" if len(new) > _NAMES else ""
            message = (
                f"appeared in the folder while the lecture ran (from it, or from what ran beside it): {shown}{more}"
            )
            yield Finding(kind=FindingKind.FILES, message=message)

    def _process_finding(self, process: Leftover) -> Finding:
        end = "it was killed"
        if process.other_user is not None:
            end = f"it runs as {process.other_user[:_NAME_CHARS]} and still runs: this session may not end it"
        message = (
            f"left a process running: pid {process.pid}, {process.name[:_NAME_CHARS]!r}, "
            f"{format_size(process.rss_bytes)}; {end}"
        )
        return Finding(
            kind=FindingKind.PROCESS,
            message=message,
            cell_number=self._process_cells.get(process.pid),
            fails_when_strict=process.other_user is not None,
        )


def _names_in(folder: Path | None) -> set[str]:
    if folder is None:
        return set()
    try:
        return {path.name for path in folder.iterdir()} - _BYPRODUCTS
    except OSError:
        return set()
