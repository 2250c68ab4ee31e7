"""
Look up the processes that NVML lists in ``/proc``, and remember them after they have ended.

Only processes that NVML lists are read. Which run a process belongs to follows from the token in its environment, or
from the process tree if it replaced its environment. ``NSpid`` translates ids where the kernel runs in an inner PID
namespace. See proc(5) and pid_namespaces(7).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from pathlib import Path
from typing import Final, Protocol

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.probe import RUN_LECTURE_VARIABLE, RUN_TOKEN_VARIABLE
from pytest_lecturecheck.probe.procfs import Counters, parse_namespace_pids, parse_stat

PROC_ROOT: Final = Path("/proc")
_INITIAL_NAMESPACE: Final = "pid:[4026531836]"
"""Link of the initial PID namespace of a machine (PROC_PID_INIT_INO in the Linux sources)."""
_INIT_NAMES: Final = frozenset({b"systemd", b"init", b"tini", b"dumb-init", b"docker-init", b"catatonit"})
_LONGEST_NAME: Final = 200
_DEEPEST_TREE: Final = 32
_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """
    What is known about a process.

    Attributes:
        is_there: whether it is in ``/proc`` and alive.
        is_orphan: whether its parent ended, so that an init process is its parent now.
        environ: the variables of its environment that matter here; empty where it may not be read.
        start_ticks: start after boot, in clock ticks; with the process id it identifies a process.
    """

    is_there: bool = False
    is_orphan: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    start_ticks: int = 0

    @property
    def token(self) -> str:
        """Return the token of its run, or an empty string; a forked kernel has dashes until it has written its own."""
        return self.environ.get(RUN_TOKEN_VARIABLE, "").strip("-")

    @property
    def lecture(self) -> str:
        """Return the printable name of its lecture, or an empty string."""
        name = self.environ.get(RUN_LECTURE_VARIABLE, "") if self.token else ""
        return "".join(letter for letter in name[:_LONGEST_NAME] if letter.isprintable())


UNKNOWN: Final = ProcessFacts()


class Processes(Protocol):
    """Looks up the processes that NVML lists."""

    @property
    def same_namespace(self) -> bool:
        """Return True if NVML's process ids are known to be those of this PID namespace."""

    def facts(self, pid: int) -> ProcessFacts:
        """Return what is known about ``pid``, also after it has ended."""

    def find_own(
        self, pids: Iterable[int], *, kernel_pid: int, token: str, supervisor_pid: int | None = None
    ) -> AbstractSet[int]:
        """Return those of ``pids`` that belong to the run of the kernel ``kernel_pid``."""


class BareProcesses:
    """
    Processes of a system without ``/proc``.

    Args:
        find_tree: returns the process ids of a kernel's tree, including the kernel's own.
    """

    same_namespace: Final = True

    def __init__(self, find_tree: Callable[[int], AbstractSet[int]] = lambda pid: frozenset((pid,))) -> None:
        self._find_tree = find_tree

    def facts(self, pid: int) -> ProcessFacts:  # noqa: ARG002 - nothing is known about any
        """Return :data:`UNKNOWN`."""
        return UNKNOWN

    def find_own(
        self,
        pids: Iterable[int],
        *,
        kernel_pid: int,
        token: str,  # noqa: ARG002 - as above
        supervisor_pid: int | None = None,  # noqa: ARG002 - as above
    ) -> AbstractSet[int]:
        """Return those of ``pids`` that are in the kernel's tree."""
        asked = frozenset(pids)
        return asked & self._find_tree(kernel_pid) if asked else asked


class ProcProcesses:
    """
    Processes of Linux.

    Args:
        root: ``/proc``, or a recorded tree.
    """

    def __init__(self, root: Path = PROC_ROOT) -> None:
        self._root = os.fspath(root)
        self._known: dict[int, ProcessFacts] = {}
        self.same_namespace = self._link("self/ns/pid") == _INITIAL_NAMESPACE

    def facts(self, pid: int) -> ProcessFacts:
        """Look up a process; its environment is read again until it has a token."""
        stat = self._stat(pid)
        known = self._known.get(pid, UNKNOWN)
        if stat is None or stat.is_zombie:
            # The environment of a dead process cannot be read; what was read while it lived still holds.
            if stat is not None and stat.start_ticks != known.start_ticks:
                return UNKNOWN
            return replace(known, is_there=False)
        # Read again until there is a token: between fork and exec a process has its parent's environment.
        is_marked = known.start_ticks == stat.start_ticks and known.token
        found = ProcessFacts(
            is_there=True,
            is_orphan=self._is_init(stat.parent),
            environ=known.environ if is_marked else self._environ(pid),
            start_ticks=stat.start_ticks,
        )
        self._remember(pid, found)
        return found

    def find_own(
        self, pids: Iterable[int], *, kernel_pid: int, token: str, supervisor_pid: int | None = None
    ) -> AbstractSet[int]:
        """
        Find the run's processes by token, then by tree, then by ids of inner namespaces.

        An orphan is below the supervisor, not below the kernel.
        """
        asked = frozenset(pids)
        roots = {kernel_pid} if supervisor_pid is None else {kernel_pid, supervisor_pid}
        own = {pid for pid in asked if self._is_own(pid, kernel_pid, token, roots)}
        rest = asked - own
        if rest:
            inner = self._namespace_pids(kernel_pid)
            own |= {pid for pid in rest if pid in inner and not self.facts(pid).is_there}
        return own

    def _is_own(self, pid: int, kernel_pid: int, token: str, roots: AbstractSet[int]) -> bool:
        facts = self.facts(pid)
        if facts.token:
            return facts.token == token
        # If the process with the kernel's id has no token, this /proc is that of another namespace.
        return self.facts(kernel_pid).token == token and self._is_below(pid, roots)

    def _is_below(self, pid: int, roots: AbstractSet[int]) -> bool:
        for _ in range(_DEEPEST_TREE):
            if pid in roots:
                return True
            stat = self._stat(pid)
            if stat is None or stat.parent <= 1:
                return False
            pid = stat.parent
        return False

    def _namespace_pids(self, pid: int) -> frozenset[int]:
        return frozenset(parse_namespace_pids(self._read(f"{pid}/status")))

    def _remember(self, pid: int, facts: ProcessFacts) -> None:
        self._known.pop(pid, None)
        self._known[pid] = facts
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def _environ(self, pid: int) -> dict[str, str]:
        return parse_environ(self._read(f"{pid}/environ"))

    def _is_init(self, pid: int) -> bool:
        # A user's systemd and container inits are subreapers: orphans become their children, not those of process 1.
        return pid == 1 or self._read(f"{pid}/comm").strip() in _INIT_NAMES

    def _stat(self, pid: int) -> Counters | None:
        return parse_stat(self._read(f"{pid}/stat"))

    def _read(self, name: str) -> bytes:
        try:
            with open(f"{self._root}/{name}", "rb") as file:  # noqa: PTH123 - read ten times a second; Path costs more than the read
                return file.read()
        except OSError:
            return b""

    def _link(self, name: str) -> str:
        try:
            return os.readlink(f"{self._root}/{name}")  # noqa: PTH115 - as above
        except OSError:
            return ""


_KEPT: Final = frozenset({RUN_TOKEN_VARIABLE, RUN_LECTURE_VARIABLE, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})


def parse_environ(text: bytes) -> dict[str, str]:
    """Parse ``/proc/PID/environ``; only the variables in use are kept."""
    pairs = (item.decode(errors="replace").partition("=") for item in text.split(b"\0"))
    return {name: value for name, _, value in pairs if name in _KEPT}
