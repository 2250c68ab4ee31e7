"""What is in a cell's memory: what stayed after it by kind, and which lines hold its peak."""

from __future__ import annotations

from enum import StrEnum

from pytest_lecturecheck.deferred_dataclass import dataclass


class PartKind(StrEnum):
    """The kinds of memory that are told apart after a cell."""

    ARRAY = "array"
    """A buffer of NumPy, pandas, PyTorch or JAX in the machine's memory."""
    DEVICE_ARRAY = "array on a device"
    OBJECT = "object"
    HISTORY = "output history"
    """What only IPython's output history keeps alive."""
    FIGURES = "figures not closed"
    MAPPED_FILE = "mapped file"
    SHARED_MEMORY = "shared memory"
    THREAD_STACKS = "stacks of threads"
    ALLOCATOR = "kept by the allocator"
    """Memory that the C library's allocator has free and has not returned to the system."""

    @property
    def states_number(self) -> bool:
        """Return True if the name of a part states how many there are, and is no name of the lecture."""
        return self in {PartKind.FIGURES, PartKind.THREAD_STACKS}


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPart:
    """
    One part of the memory after a cell.

    Attributes:
        kind: what it is.
        name: the lecture's name for it, a file's name, or an empty string. Never a value.
        size_bytes: its size.
        grown_bytes: how much larger it is than after the cell before.
        type_name: class of the object, or an empty string.
        is_estimated: whether it has too many objects to look at each.
    """

    kind: PartKind
    size_bytes: int
    name: str = ""
    grown_bytes: int = 0
    type_name: str = ""
    is_estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownType:
    """
    A class with more objects than after the cell before.

    Attributes:
        name: the class with its module.
        count: objects that the garbage collector knows.
        grown_count: how many more these are than before.
    """

    name: str
    count: int
    grown_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLevels:
    """
    The memory of the kernel's process after a cell.

    Attributes:
        parts: the largest parts, the largest first; a buffer with several names is counted for the first.
        types: the classes that grew most.
        level_bytes: resident memory, or ``None`` where the system does not say.
        stayed_bytes: how much more that is than after the cell before.
        allocated_bytes: what the C library's allocator has handed out, or ``None`` where it does not say.
        reason: why there are no values, or an empty string.
        is_alone: whether no level was taken before the cell: sizes are those of all that is in memory.
    """

    parts: tuple[LevelPart, ...] = ()
    types: tuple[GrownType, ...] = ()
    level_bytes: int | None = None
    stayed_bytes: int | None = None
    allocated_bytes: int | None = None
    reason: str = ""
    is_alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakLine:
    """
    One line that holds memory at the peak of a cell.

    Attributes:
        place: the line of the lecture, or of a module of its own ("code cell 2, line 41", "paths.py:12 in draw").
        size_bytes: memory that this line had allocated and not freed at the peak.
        allocation_count: number of its allocations then.
        source: text of the line, or an empty string.
        inner: the frame below it that allocated, if that is in a package ("numpy/_core/numeric.py:190 in ones").
        caller: the line of the cell that led there, if the line is elsewhere.
        cell_line: 1-based line of the cell's source, if the line is in the cell that was profiled.
    """

    place: str
    size_bytes: int
    allocation_count: int = 0
    source: str = ""
    inner: str = ""
    caller: str = ""
    cell_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakProfile:
    """
    What memray recorded of one cell.

    Attributes:
        peak_bytes: allocations of the cell that were alive at its peak; with several processes the sum of their peaks.
        lines: the lines with most of them, the largest first.
        process_count: processes that were recorded: the kernel and its forks.
        flame_graph: the file of the flame graph, from pytest's rootdir, or an empty string.
        cell_seconds: wall time of the cell under the profiler, or ``None``.
        footprint_bytes: peak footprint of the cell under the profiler, or ``None``.
        is_cut: whether the process ended before the record did.
        full_bytes: the size at which the record was stopped before the cell had ended, or ``None``.
    """

    peak_bytes: int
    lines: tuple[PeakLine, ...] = ()
    process_count: int = 1
    flame_graph: str = ""
    cell_seconds: float | None = None
    footprint_bytes: int | None = None
    is_cut: bool = False
    full_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """
    The arrays of JAX that were live at the highest level of a cell, by the line that made them.

    Attributes:
        peak_bytes: size of all of them. Temporary memory of a program that runs is not part of it.
        lines: the lines that made most of them, the largest first.
        devices: names of the devices that hold them ("cuda:0").
        record: the file of the profile for pprof, from pytest's rootdir, or an empty string.
    """

    peak_bytes: int
    lines: tuple[PeakLine, ...] = ()
    devices: tuple[str, ...] = ()
    record: str = ""
