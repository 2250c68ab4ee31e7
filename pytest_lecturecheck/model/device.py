"""
What is known of GPUs: the devices, who held their memory, and what allocators inside the kernel say.

Values only. NVML fills the first part (``probe/gpu``), the agent inside the kernel the second.
"""

from __future__ import annotations

from enum import StrEnum

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Metric, Reading, Unavailable
from pytest_lecturecheck.units import format_size

_NOT_READ = Unavailable(metric=Metric.GPU_USED, reason="the device was not read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """
    One GPU, or one slice of a GPU that is divided (MIG).

    Attributes:
        index: NVML's index.
        name: model name ("Tesla T4").
        uuid: NVML's identifier of the device or slice; an empty string where it was not given.
        total_bytes: memory of the device, or ``None``.
        is_slice: whether it is a MIG slice of the device ``index``.
        compute_capability: CUDA's version of its instructions ("7.5"), or an empty string.
    """

    index: int
    name: str
    uuid: str = ""
    total_bytes: int | None = None
    is_slice: bool = False
    compute_capability: str = ""

    @property
    def label(self) -> str:
        """Name the device as messages do ("GPU 0 (Tesla T4)")."""
        return f"GPU {self.index} ({self.name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """
    Memory of a device at one moment, whoever holds it.

    Attributes:
        used_bytes: memory in use.
        total_bytes: memory of the device, or ``None``.
    """

    used_bytes: int
    total_bytes: int | None


class HolderKind(StrEnum):
    """What a process that holds memory of a device is to the run."""

    RUNNING_LECTURE = "running lecture"
    """A kernel of another lecture that was running at the time."""
    ENDED_LECTURE = "ended lecture"
    """A process left over from a lecture that has ended: a leftover holder."""
    FOREIGN = "foreign"
    """A process that no lecture started, or one that cannot be looked into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHolder:
    """
    Another process that held memory of a device while a run lasted, or just before or after it.

    Attributes:
        pid: process id as NVML gives it (in a container it may be the host's).
        used_bytes: the most it held, or ``None`` where NVML does not say how much.
        kind: what it is to the run.
        lecture: name of the lecture whose process it is, or an empty string.
        was_there_first: it held memory before this run's processes did.
        ended_seconds: for :attr:`HolderKind.ENDED_LECTURE`: how long before the run's start its lecture had ended, or
            ``None``.
        was_killed: for :attr:`HolderKind.ENDED_LECTURE`: it is the lecture's kernel itself, which had been killed.
    """

    pid: int
    used_bytes: int | None = None
    kind: HolderKind = HolderKind.FOREIGN
    lecture: str = ""
    was_there_first: bool = False
    ended_seconds: float | None = None
    was_killed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSample:
    """
    One moment of a device.

    Attributes:
        seconds: time since the start of the run.
        used_bytes: memory in use on the whole device.
        run_bytes: memory that this run's processes held, or ``None`` where NVML does not tell it apart.
        utilisation_fraction: share of the time in which a kernel ran on the device (0..1), or ``None``.
    """

    seconds: float
    used_bytes: int
    run_bytes: int | None = None
    utilisation_fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """
    One device during one run.

    Attributes:
        device: which.
        used: the most that this run's processes held at once (``sampled``); if processes cannot be distinguished, the
            device's rise as a ``bracket`` from 0 (an upper bound), or why neither is known.
        before_bytes: memory in use on the device when the run started, or ``None``.
        after_bytes: memory in use on the device after the teardown, or ``None``.
        peak_used_bytes: the most in use on the whole device while the run lasted, or ``None``.
        others_peak_bytes: the most that others held while the run lasted, or ``None`` where that is not known.
        is_shared: whether others held memory of the device while the run lasted.
        is_reserved: whether :attr:`used` is an allocator's preallocation, which says nothing about need.
        peak_utilisation_fraction: highest utilisation sampled (0..1), or ``None``.
        holders: others that held memory of it.
        leftovers: processes of this run that still held memory after the teardown.
        timeline: the samples, thinned.
        interval_seconds: interval between two samples as taken, or ``None``.
        fault: why the device could not be read to the end of the run, or an empty string.
    """

    device: Device
    used: Reading = _NOT_READ
    before_bytes: int | None = None
    after_bytes: int | None = None
    peak_used_bytes: int | None = None
    others_peak_bytes: int | None = None
    is_shared: bool = False
    is_reserved: bool = False
    peak_utilisation_fraction: float | None = None
    holders: tuple[DeviceHolder, ...] = ()
    leftovers: tuple[DeviceHolder, ...] = ()
    timeline: tuple[DeviceSample, ...] = ()
    interval_seconds: float | None = None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorUsage:
    """
    What an allocator inside the kernel says about one device, at one moment.

    Attributes:
        library: "JAX", "PyTorch" or "CuPy".
        device: the library's name of the device ("cuda:0").
        live_bytes: memory in use by arrays.
        peak_live_bytes: the most of that since the process began, or ``None`` (CuPy keeps none).
        pool_bytes: memory that the allocator holds from the device, in use or not, or ``None``.
        peak_pool_bytes: the most of that, or ``None``.
        limit_bytes: what the allocator may take from the device, or ``None``.
        largest_free_block_bytes: the largest request that its free blocks can meet, or ``None``.
    """

    library: str
    device: str
    live_bytes: int
    peak_live_bytes: int | None = None
    pool_bytes: int | None = None
    peak_pool_bytes: int | None = None
    limit_bytes: int | None = None
    largest_free_block_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """
    What the compiler planned for one program, from XLA's statistics of the compiled program.

    Attributes:
        program: the program's name ("jit_loglikelihood").
        platform: platform that it was compiled for ("cpu", "gpu").
        argument_bytes: memory of its arguments.
        output_bytes: memory of its results.
        alias_bytes: of :attr:`output_bytes`, what takes the memory of arguments.
        temporary_bytes: memory that it needs only while it runs.
        code_bytes: its machine code.
    """

    program: str
    platform: str = ""
    argument_bytes: int = 0
    output_bytes: int = 0
    alias_bytes: int = 0
    temporary_bytes: int = 0
    code_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Return what all of it takes together."""
        return sum(self.parts.values())

    @property
    def parts(self) -> dict[str, int]:
        """Return what it takes, by the name of the part."""
        return {
            "arguments": self.argument_bytes,
            "results": max(0, self.output_bytes - self.alias_bytes),
            "temporaries": self.temporary_bytes,
            "code": self.code_bytes,
        }

    @property
    def text(self) -> str:
        """Describe the plan: the program, what it asks for, and of which parts that is."""
        listed = ", ".join(f"{format_size(size)} of {name}" for name, size in self.parts.items() if size > 0)
        return f"the compiled program {self.program} asks for {format_size(self.total_bytes)} ({listed})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileTimes:
    """
    What JAX's compiler took in one cell, from ``jax.monitoring``.

    Attributes:
        seconds: union of the time spans of tracing, lowering and backend compilation.
        tracing_seconds: sum of the spans of tracing.
        lowering_seconds: sum of the spans of lowering.
        backend_seconds: sum of the spans of backend compilation (or of reading its result from the cache).
        count: programs compiled (or read from the persistent cache).
        cache_hits: programs read from the persistent cache.
        cache_misses: programs written to the persistent cache.
        unfinished_seconds: of :attr:`seconds`, the time since the beginning of a span that had not ended when the
            kernel was last looked at (it died or was out of time while it compiled).
        plan: the program compiled in this cell for which most memory is planned, or ``None`` where it is not known.
    """

    seconds: float
    tracing_seconds: float = 0.0
    lowering_seconds: float = 0.0
    backend_seconds: float = 0.0
    count: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    unfinished_seconds: float = 0.0
    plan: MemoryPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBuffers:
    """
    Arrays of JAX of one shape that were alive after an out-of-memory error.

    Attributes:
        shape: lengths of the axes ("1024x1024"); empty for a single number.
        dtype: type of the elements.
        device: name of the device ("cuda:0").
        count: number of arrays.
        size_bytes: size of all of them.
        names: the lecture's names for some of them ("paths", "params[...]", "x in step"). Never a value.
    """

    shape: str
    dtype: str
    count: int
    size_bytes: int
    device: str = ""
    names: tuple[str, ...] = ()
