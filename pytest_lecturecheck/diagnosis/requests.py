"""
Read the memory that was asked for out of the texts of errors.

An error counts only where its class and its text agree: a plain ``ValueError: ran out of memory cards`` is no statement
about memory. Texts as raised by NumPy (``numpy/_core/_exceptions.py``), XLA (``RESOURCE_EXHAUSTED``; the CPU client
says "allocating", the device's allocator "while trying to allocate"), CuPy (``cupy/cuda/memory.pyx``), PyTorch
(``c10/cuda/CUDACachingAllocator.cpp``, ``c10/core/impl/alloc_cpu.cpp``), RMM (``rmm/detail/error.hpp``), Numba and
TensorFlow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import UnitError
from pytest_lecturecheck.units import parse_size

_READ_LENGTH: Final = 4000
_LARGEST_SIZE: Final = 2**63 - 1
_BINARY_LETTERS: Final = frozenset("KMGT")


class MemoryPlace(StrEnum):
    """Where memory was asked for."""

    HOST = "host"
    DEVICE = "device"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """
    A request that was refused.

    Attributes:
        library: whose allocator speaks ("XLA", "CuPy").
        place: whose memory it wanted.
        size_bytes: what it asked for, or ``None`` where the text does not say.
        used_bytes: what its process or pool held, or ``None``.
        limit_bytes: what the device or pool has in all, or ``None``.
        live_bytes: what its pool had given to arrays, or ``None``.
        pool_bytes: what its pool held, in use or not, or ``None``.
        free_bytes: what was free on the device, or ``None``.
        own_limit_bytes: a limit that was set for the pool, below what the device has, or ``None``.
    """

    library: str
    place: MemoryPlace
    size_bytes: int | None = None
    used_bytes: int | None = None
    limit_bytes: int | None = None
    live_bytes: int | None = None
    pool_bytes: int | None = None
    free_bytes: int | None = None
    own_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """One form of text: the classes that may carry it, what it looks like, and what it says."""

    names: frozenset[str]
    pattern: re.Pattern[str]
    library: str
    place: MemoryPlace


_SIZE: Final = r"(?P<size>[0-9][0-9.,]*\s*(?:bytes?|[KMGTP]i?B|B))"
# Where the bytes stand beside a rounded size, they count; those of XLA's pool (BFC) are rounded up to its blocks.
_EXACT_SIZE: Final = rf"{_SIZE}(?: \((?:rounded to )?(?P<exact>[0-9]{{1,20}})(?: ?bytes|B)?\))?"
_XLA: Final = frozenset({"JaxRuntimeError", "XlaRuntimeError", "RuntimeError"})
_CUPY: Final = frozenset({"OutOfMemoryError", "CUDARuntimeError", "CUDADriverError"})
_TORCH: Final = frozenset({"OutOfMemoryError", "RuntimeError", "AcceleratorError", "DistBackendError"})


def _form(names: Iterable[str], pattern: str, library: str, place: MemoryPlace) -> _Form:
    return _Form(names=frozenset(names), pattern=re.compile(pattern, re.DOTALL), library=library, place=place)


# The first that matches decides. "RuntimeError" is in the sets because older releases raised it; the patterns that
# may go with it start with a text that nobody writes by accident.
_FORMS: Final = (
    _form(
        _XLA,
        # Repeated once for each computation that depends on the one that failed.
        r"(?:INTERNAL: .*?)?(?:(?:INTERNAL|RESOURCE_EXHAUSTED|Resource exhausted): |Error dispatching computation: )+"
        rf"Out of memory allocating {_SIZE}.*",
        "XLA",
        MemoryPlace.HOST,
    ),
    _form(
        _XLA,
        rf"(?:RESOURCE_EXHAUSTED|Resource exhausted|INTERNAL): .*?[Oo]ut of memory while trying to allocate {_SIZE}.*",
        "XLA",
        MemoryPlace.DEVICE,
    ),
    # What stands between the GPU's pool and a program, the pool itself, the constants of a program, and TPUs.
    _form(
        _XLA,
        r"(?:RESOURCE_EXHAUSTED|Resource exhausted|INTERNAL): .*?[Ff]ailed to allocate "
        rf"(?:request for {_EXACT_SIZE} on device ordinal [0-9]+.*|(?P<constant>[0-9]+ bytes) for new constant.*)",
        "XLA",
        MemoryPlace.DEVICE,
    ),
    _form(
        _XLA,
        rf"RESOURCE_EXHAUSTED: .*?Allocator \(GPU_.*?ran out of memory trying to allocate {_EXACT_SIZE}.*",
        "XLA",
        MemoryPlace.DEVICE,
    ),
    _form(
        _XLA,
        r"RESOURCE_EXHAUSTED: .*?Attempting to (?:allocate|reserve) (?P<size>[0-9.]+[KMGT]?)\b"
        r".*? That was not possible\..*",
        "XLA",
        MemoryPlace.DEVICE,
    ),
    # The driver's own word, wherever it came up: pools, libraries, CUDA graphs.
    _form(
        _XLA,
        rf"[A-Z_]{{5,24}}: .*?(?:[Ff]ailed to allocate {_EXACT_SIZE}.*)?"
        r"(?:CUDA_ERROR_OUT_OF_MEMORY\b|hipErrorOutOfMemory\b|Cuda failure (?:[0-9]+ )?'out of memory').*",
        "XLA",
        MemoryPlace.DEVICE,
    ),
    # XLA's CPU kernels do not pass the allocation's size on.
    _form(_XLA, r"INTERNAL: .*YNNPACK operation failed.*", "XLA", MemoryPlace.HOST),
    _form(_XLA, rf"RESOURCE_EXHAUSTED: .*?[Ff]ailed to allocate {_SIZE}.*", "XLA", MemoryPlace.UNKNOWN),
    _form(_XLA, r"RESOURCE_EXHAUSTED: .*[Oo]ut of memory.*", "XLA", MemoryPlace.UNKNOWN),
    _form(
        _TORCH,
        rf"(?:CUDA|HIP|XPU|MPS backend) out of memory.*?Tried to allocate {_SIZE}.*",
        "PyTorch",
        MemoryPlace.DEVICE,
    ),
    _form(
        _TORCH,
        rf".*DefaultCPUAllocator: (?:can't allocate|not enough) memory: you tried to allocate {_SIZE}.*",
        "PyTorch",
        MemoryPlace.HOST,
    ),
    _form(_CUPY, rf"[Oo]ut of memory (?:allocating|to allocate) {_SIZE}.*", "CuPy", MemoryPlace.DEVICE),
    _form(_CUPY, r"cudaErrorMemoryAllocation: out of memory.*", "CuPy", MemoryPlace.DEVICE),
    _form(_CUPY, r"CUDA_ERROR_OUT_OF_MEMORY: out of memory.*", "CuPy", MemoryPlace.DEVICE),
    # The driver's own pool (backend:cudaMallocAsync), the driver's word now and in old versions, and NCCL's.
    _form(
        _TORCH,
        rf"Allocation on device .*?would exceed allowed memory\..*?Requested\s*: {_SIZE}.*",
        "PyTorch",
        MemoryPlace.DEVICE,
    ),
    _form(
        _TORCH,
        r"(?:CUDA error: out of memory|cuda runtime error \(2\) : out of memory at ).*"
        r"|NCCL .*Cuda failure (?:[0-9]+ )?'out of memory'.*",
        "PyTorch",
        MemoryPlace.DEVICE,
    ),
    # RMM, the pool of cuDF and cuML, translates std::bad_alloc into Python's MemoryError.
    _form(
        {"MemoryError"},
        r"std::bad_alloc: (?:out_of_memory: (?:CUDA error|RMM failure)\b|CUDA error at: .*cudaErrorMemoryAllocation).*",
        "RMM",
        MemoryPlace.DEVICE,
    ),
    _form({"CudaAPIError", "CudaSupportError"}, r".*CUDA_ERROR_OUT_OF_MEMORY.*", "Numba", MemoryPlace.DEVICE),
    _form({"ResourceExhaustedError"}, r".*OOM when allocating tensor.*device:GPU.*", "TensorFlow", MemoryPlace.DEVICE),
    _form({"ResourceExhaustedError"}, r".*device:GPU.*failed to allocate memory.*", "TensorFlow", MemoryPlace.DEVICE),
    _form({"ResourceExhaustedError"}, r".*OOM when allocating tensor.*", "TensorFlow", MemoryPlace.HOST),
)
# CuPy; PyTorch, its newer and its older texts.
_USED: Final = re.compile(
    rf"allocated so far: {_SIZE}|bytes \(total {_SIZE.replace('size', 'cupy')}\)"
    rf"|this process has {_SIZE.replace('size', 'torch')} memory in use"
    rf"|{_SIZE.replace('size', 'old')} already allocated"
)
_LIMIT: Final = re.compile(
    rf"limit set to: {_SIZE}|total capaci?ty of {_SIZE.replace('size', 'torch')}"
    rf"|{_SIZE.replace('size', 'old')} total capacity"
)
# PyTorch, its newer and its older texts; the last is CuPy's.
_LIVE: Final = re.compile(
    rf"allocated memory {_SIZE} is allocated by PyTorch|{_SIZE.replace('size', 'old')} already allocated"
)
_CACHED: Final = re.compile(
    rf"{_SIZE} is reserved by PyTorch but unallocated|free; {_SIZE.replace('size', 'old')} cached\)"
)
_POOL: Final = re.compile(rf"{_SIZE} reserved in total by PyTorch")
_FREE: Final = re.compile(rf"of which {_SIZE} is free|already allocated; {_SIZE.replace('size', 'old')} free")
_OWN_LIMIT: Final = re.compile(rf"{_SIZE} allowed;|limit set to: {_SIZE.replace('size', 'cupy')}")
_NUMPY: Final = re.compile(
    rf"Unable to allocate {_SIZE} for an array with shape \((?P<shape>[0-9, ]*)\) and data type (?P<dtype>\S+)"
)
_NUMPY_UNKNOWN_DTYPE: Final = re.compile(rf"Unable to allocate {_SIZE}.*", re.DOTALL)
# Arrow's pool, which PyArrow raises as a MemoryError of its own.
_ARROW: Final = re.compile(r"(?:m|re)alloc of size (?P<size>[0-9]{1,20}) failed\.?")
# R counts in units of 1,024 and writes them with a small b; rpy2 and IRkernel keep R's "Error in f(x): ".
_R_VECTOR: Final = re.compile(
    r"(?:Error(?: in [^\n]{1,400}?)?\s?: )?"
    r"cannot allocate (?:vector|memory block) of size (?P<size>[0-9.]+ ?[KMGT])b.*",
    re.DOTALL,
)
_DTYPE_BITS: Final = re.compile(r"(?:u?int|float|complex)([0-9]{1,3})")
_DEVICE_NOT_USABLE: Final = re.compile(
    r"DNN library initialization failed|CUDNN_STATUS_INTERNAL_ERROR|dnn != nullptr|best cudnn convolution algorithm"
    r"|CU(?:DNN|BLAS|SOLVER|SPARSE|RAND)_STATUS_(?:NOT_INITIALIZED|ALLOC_FAILED|ALLOCATION_FAILED)|CUFFT_ALLOC_FAILED"
    r"|CUSOLVER_STATUS_INTERNAL_ERROR(?:\Z|.*cusolver(?:Dn|Sp)?Create)|(?:cu|gpu)(?:blas|sparse|solver(?:Dn|Sp))Create.*failed"
    r"|[Ff]ailed to create cublas handle|CUDA_ERROR_DEVICE_UNAVAILABLE|devices? (?:is|are) busy or unavailable"
)
_GPU_LIBRARIES: Final = (
    _XLA
    | _TORCH
    | _CUPY
    | {"CudaAPIError", "InternalError", "CUBLASError", "CUDNNError", "CuDNNError", "CUSOLVERError", "CUSPARSEError"}
    | {"CuSparseError", "CURANDError", "CuFFTError", "LinAlgError", "_LinAlgError"}
)
_STDERR_MEMORY: Final = re.compile(
    r"RESOURCE_EXHAUSTED|bad_alloc|[Oo]ut of memory|OUT_OF_MEMORY|[Cc]annot allocate memory|cudaErrorMemoryAllocation"
)
_STDERR_SIZE: Final = re.compile(
    rf"(?:allocation of|allocate request for|allocat(?:e|ing)|tried to allocate|request(?:ed)?(?: of)?|asked(?: for)?) "
    rf"{_EXACT_SIZE}"
)
_STDERR_DEVICE: Final = re.compile(r"\bGPU\b|GPU_[0-9]|\bCUDA\b|CUDA_|\bcuda|\bHIP\b|device:GPU")


def parse_request(name: str, value: str) -> MemoryRequest | None:
    """
    Read a library's own out-of-memory error.

    Args:
        name: the exception's class name, with or without its module.
        value: the exception's message.

    Returns:
        The request, or ``None`` where class and text do not both say that memory ran out.
    """
    class_name, text = name.rsplit(".", 1)[-1], value[:_READ_LENGTH].strip()
    for form in _FORMS:
        if class_name in form.names and (match := form.pattern.fullmatch(text)):
            return MemoryRequest(
                library=form.library,
                place=form.place,
                size_bytes=_matched_size(match),
                used_bytes=_first_size(_USED, text),
                limit_bytes=_first_size(_LIMIT, text),
                live_bytes=_first_size(_LIVE, text),
                pool_bytes=_pool_bytes(text),
                free_bytes=_first_size(_FREE, text),
                own_limit_bytes=_first_size(_OWN_LIMIT, text),
            )
    return None


def _pool_bytes(text: str) -> int | None:
    live, cached = _first_size(_LIVE, text), _first_size(_CACHED, text)
    return live + cached if live is not None and cached is not None else _first_size(_POOL, text)


def parse_array_size(value: str) -> int | None:
    """
    Read the bytes that NumPy, Arrow or R could not get; exactly, from shape and data type, where they are known.

    Returns:
        The bytes, or ``None`` where the message is of none of them.
    """
    text = value[:_READ_LENGTH].strip()
    if match := _NUMPY.fullmatch(text):
        bits = _DTYPE_BITS.fullmatch(match["dtype"])
        if bits is not None:
            shape = [int(number) for number in match["shape"].replace(",", " ").split()]
            size_bytes = math.prod(shape) * (int(bits[1]) // 8)
            if size_bytes <= _LARGEST_SIZE:
                return size_bytes
    if match := _ARROW.fullmatch(text):
        return int(match["size"]) if int(match["size"]) <= _LARGEST_SIZE else None
    match = _NUMPY_UNKNOWN_DTYPE.fullmatch(text) or _R_VECTOR.fullmatch(text)
    return _size(match["size"]) if match else None


def means_device_not_usable(name: str, value: str) -> bool:
    """Return True if a GPU library could not be set up or used, as happens where another process holds the GPU."""
    class_name = name.rsplit(".", 1)[-1]
    return class_name in _GPU_LIBRARIES and _DEVICE_NOT_USABLE.search(value[:_READ_LENGTH]) is not None


def parse_stderr(lines: Iterable[str]) -> MemoryRequest | None:
    """
    Read the last lines of a native allocator.

    Returns:
        The request with its size where one line states it, or ``None`` where no line speaks of memory.
    """
    kept = [line[:_READ_LENGTH] for line in lines]
    if last_memory_line(kept) is None:
        return None
    sizes = (match for line in kept if (match := _STDERR_SIZE.search(line)))
    size = next((size for match in sizes if (size := _matched_size(match)) is not None), None)
    on_device = any(_STDERR_DEVICE.search(line) for line in kept)
    cpp = any("bad_alloc" in line for line in kept)
    place = MemoryPlace.DEVICE if on_device else MemoryPlace.HOST if cpp else MemoryPlace.UNKNOWN
    return MemoryRequest(library="C++" if cpp else "", place=place, size_bytes=size)


def last_memory_line(lines: Iterable[str]) -> int | None:
    """Return the 0-based number of the last line that speaks of exhausted memory, or ``None``."""
    found = (number for number, line in enumerate(lines) if _STDERR_MEMORY.search(line[:_READ_LENGTH]))
    return max(found, default=None)


def _first_size(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return _size(next(filter(None, match.groups()))) if match is not None else None


def _matched_size(match: re.Match[str]) -> int | None:
    found = match.groupdict()
    if (exact := found.get("exact")) and int(exact) <= _LARGEST_SIZE:
        return int(exact)
    text = found.get("size") or found.get("constant")
    return _size(text) if text else None


def _size(text: str) -> int | None:
    """Read ``2684354560 bytes``, ``149. GiB``, ``7.45GiB`` and XLA's ``7.50G`` (GiB); ``None`` for anything else."""
    match = re.fullmatch(r"([0-9][0-9,]*)(\.[0-9]*)?[.,]?\s*([A-Za-z]+)", text)
    if match is None:
        return None
    whole, part, unit = match[1].replace(",", ""), (match[2] or "").rstrip("."), match[3]
    if unit in _BINARY_LETTERS:
        unit += "iB"
    try:
        return parse_size(f"{whole}{part} {unit}")
    except UnitError:
        return None
