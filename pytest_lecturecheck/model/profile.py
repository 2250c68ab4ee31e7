"""What a trace of one cell says: when its devices worked, when they waited, and how often they were set to work."""

from __future__ import annotations

from enum import StrEnum

from pytest_lecturecheck.deferred_dataclass import dataclass


class Bound(StrEnum):
    """What probably holds a cell back, as far as a trace tells."""

    LAUNCH = "launch bound"
    """The device waits most of the time, between many short operations: starting them takes longer than they do."""
    COMPUTE = "compute bound"
    """The device works nearly all the time."""
    HOST = "host bound"
    """The device waits most of the time, for something else: Python, files, a compiler."""
    MIXED = "mixed"
    """None of these."""


class ProfileKind(StrEnum):
    """What ``--lecture-profile`` asks for."""

    TRACE = "trace"
    """A trace of ``jax.profiler``: where time goes."""
    MEMORY = "memory"
    """A record of memray: which lines hold the peak; and the levels after each cell."""
    LEVELS = "levels"
    """What stays in memory after each cell, by kind, in the run itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """
    Which cells are to be traced.

    Attributes:
        kind: what is asked for.
        cells: numbers of code cells, traced in the run itself; empty for those that put a lecture over its limits,
            traced in a run of their own.
    """

    cells: frozenset[int] = frozenset()
    kind: ProfileKind = ProfileKind.TRACE

    @property
    def is_for_over(self) -> bool:
        """Return True if the verdict chooses the cells."""
        return not self.cells and self.kind is not ProfileKind.LEVELS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledOp:
    """
    One operation of a device, all its executions together.

    Attributes:
        name: its name in the trace: of a GPU's kernel, or of XLA's operation.
        seconds: time in it, operations inside it left out.
        count: how often it ran.
    """

    name: str
    seconds: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """
    One device during one traced cell.

    Attributes:
        device: name ("GPU 0", "CPU").
        kernel_seconds: time in which at least one operation ran.
        gap_seconds: time between the first and the last operation in which none ran.
        launch_count: how often the host set the device to work: on a GPU kernels and graphs of kernels, on the CPU
            executions of compiled programs.
        op_count: operations that ran (kernels and copies; on the CPU XLA's operations).
        copy_count: of :attr:`op_count`, copies and fills of memory.
        median_op_seconds: median duration of an operation.
        stream_count: streams (on the CPU: threads) that operations ran on.
        bound: what probably holds the cell back on this device.
        top_ops: the operations that took most time, the longest first.
    """

    device: str
    kernel_seconds: float
    gap_seconds: float
    launch_count: int
    op_count: int
    bound: Bound
    copy_count: int = 0
    median_op_seconds: float = 0.0
    stream_count: int = 1
    top_ops: tuple[ProfiledOp, ...] = ()

    @property
    def span_seconds(self) -> float:
        """Return the time from the beginning of the first operation to the end of the last."""
        return self.kernel_seconds + self.gap_seconds

    @property
    def busy_fraction(self) -> float:
        """Return the share of the span in which an operation ran (0..1)."""
        return self.kernel_seconds / self.span_seconds if self.span_seconds else 1.0

    @property
    def launches_per_second(self) -> float | None:
        """Return the launches per second of the span, or ``None`` if it has no length."""
        return self.launch_count / self.span_seconds if self.span_seconds else None

    @property
    def is_cpu(self) -> bool:
        """Return True if it is the CPU, whose launches are executions of programs."""
        return self.device.startswith("CPU")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSummary:
    """
    One traced cell.

    Attributes:
        devices: what each device did, in the order of their names; empty where none did anything.
        cell_seconds: wall time of the cell while it was traced, or ``None``.
        trace: the trace's file, from pytest's rootdir, or an empty string.
        is_cut: whether the trace holds the beginning only: its writer keeps so many events and no more.
    """

    devices: tuple[DeviceProfile, ...] = ()
    cell_seconds: float | None = None
    trace: str = ""
    is_cut: bool = False
