"""What a bad end means, as a value."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass


class CauseKind(StrEnum):
    """The closed set of causes."""

    CELL_ERROR = "cell error"
    INPUT_REQUESTED = "input requested"
    EXIT_REQUESTED = "exit requested"
    NETWORK = "no answer from the network"
    REQUEST_REFUSED = "memory request refused"
    """One request was refused at once; the process itself was small."""
    MEMORY_EXHAUSTED = "memory exhausted"
    """The process had climbed to the limit."""
    LIBRARY_LIMIT = "limit inside a library"
    """A library said MemoryError while memory was free."""
    HOST_OUT_OF_MEMORY = "out of host memory"
    """A library's own allocator could not get host memory."""
    DEVICE_OUT_OF_MEMORY = "out of device memory"
    PREALLOCATION_RACE = "GPU preallocation race"
    """Another process had reserved most of the card; this run got what was left."""
    LEFTOVER_HOLDER = "leftover holder of GPU memory"
    """A process of a lecture that had ended still held memory of the card."""
    OTHER_TENANT = "GPU memory held by another program"
    FRAGMENTED_POOL = "fragmented GPU pool"
    """The allocator's cached blocks filled the card, not what the lecture had in use."""
    DRIVER_ERROR = "GPU driver error"
    """The GPU, its driver or its runtime failed; nothing says that memory ran out."""
    LIBRARY_OUT_OF_MEMORY = "library out of memory"
    """The same; the error does not say whether of the host or of a device."""
    DEVICE_NOT_USABLE = "device not usable"
    TIMED_OUT = "timed out"
    """Over its time limit; what it was doing is not known, or mixed."""
    TIMED_OUT_COMPUTING = "timed out computing"
    TIMED_OUT_WAITING = "timed out waiting"
    TIMED_OUT_COMPILING = "timed out compiling"
    """Its time went into compiling programs (JAX, Numba, PyTorch), not into running them."""
    TIMED_OUT_PAGING = "timed out paging"
    TIMED_OUT_STARVED = "timed out starved"
    """It wanted to compute, and other processes had the cores."""
    TIMED_OUT_UNINTERRUPTIBLE = "timed out uninterruptible"
    """It was computing and took no notice of the interrupt."""
    NEVER_READY = "kernel never ready"
    DIED_AT_START = "kernel died at start"
    SHADOWED = "shadowed by a file"
    """A file beside the lecture took the place of a module that the kernel needs to start."""
    OOM_KILLED = "killed by the OOM killer"
    STOPPED_AT_CAP = "stopped at the memory cap"
    """Stopped by us: the run exceeded its cap, or was about to exhaust the machine."""
    CHILD_OOM_KILLED = "child process killed by the OOM killer"
    CHILD_ENDED = "child process ended"
    """A worker process ended abruptly, not the kernel; that it was for memory is not shown."""
    KILLED = "killed from outside"
    ENDED_BY_SCHEDULER = "ended by the scheduler"
    """A batch scheduler ended the kernel's step, for its time limit or for reasons that are not the lecture's."""
    NATIVE_OUT_OF_MEMORY = "native allocator out of memory"
    NATIVE_CRASH = "native crash"
    ENDED_BY_SIGNAL = "ended by a signal"
    EXITED = "kernel exited"
    NO_ANSWER = "no answer from the kernel"
    """The kernel's process lives, and the reply to a cell can never come."""
    UNKNOWN = "unknown"


_ONLY_WHAT: Final = frozenset(
    {
        CauseKind.CELL_ERROR,
        CauseKind.DIED_AT_START,
        CauseKind.NATIVE_CRASH,
        CauseKind.ENDED_BY_SIGNAL,
        CauseKind.EXITED,
        CauseKind.UNKNOWN,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """
    What a bad end means.

    Attributes:
        kind: the cause.
        headline: one line: what happened, in which code cell and line, with the values that show it.
        evidence: the observations it rests on, one line each.
        advice: what to do about it, one line each; empty where nothing general can be said.
    """

    kind: CauseKind
    headline: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def explains(self) -> bool:
        """Return True if the cause says why, not only what happened."""
        return self.kind not in _ONLY_WHAT
