"""Check the part of the agent's payload that is about GPUs and the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes, MemoryPlan

LIBRARIES: Final = ("JAX", "PyTorch", "CuPy")
_DEVICES: Final = 64
_NAME_CHARS: Final = 60
_PLAN_SIZES: Final = ("argument_bytes", "output_bytes", "alias_bytes", "temporary_bytes", "code_bytes")
_ERROR_CHARS: Final = 300
_MOST_BYTES: Final = 2**60
_MOST_SECONDS: Final = 1e9
_MOST_COMPILE_SECONDS: Final = 1e7
"""Four months. A lecture's sum and the limit derived from it must stay below the longest time of a budget file."""


def clean_allocators(payload: object) -> tuple[AllocatorUsage, ...]:
    """Return the usage that known libraries reported; values that are no size are dropped."""
    if not isinstance(payload, list):
        return ()
    entries = (_allocator(entry) for entry in payload[:_DEVICES] if isinstance(entry, dict))
    return tuple(found for found in entries if found is not None)


def _allocator(entry: Mapping[object, object]) -> AllocatorUsage | None:
    library, live_bytes = entry.get("library"), _size(entry.get("live_bytes"))
    if library not in LIBRARIES or live_bytes is None:
        return None
    return AllocatorUsage(
        library=str(library),
        device=clean_text(entry.get("device"), _NAME_CHARS) or "a device without a name",
        live_bytes=live_bytes,
        peak_live_bytes=_size(entry.get("peak_live_bytes")),
        pool_bytes=_size(entry.get("pool_bytes")),
        peak_pool_bytes=_size(entry.get("peak_pool_bytes")),
        limit_bytes=_size(entry.get("limit_bytes")),
        largest_free_block_bytes=_size(entry.get("largest_free_block_bytes")),
    )


def clean_compilation(payload: object) -> CompileTimes | str | None:
    """Return the compile times, a text that explains why there are none, or ``None`` if JAX was not imported."""
    if not isinstance(payload, dict):
        return None
    if error := clean_text(payload.get("error"), _ERROR_CHARS):
        return error
    seconds = _compile_seconds(payload.get("seconds"))
    if seconds is None:
        return None
    return CompileTimes(
        seconds=seconds,
        tracing_seconds=_compile_seconds(payload.get("tracing_seconds")) or 0.0,
        lowering_seconds=_compile_seconds(payload.get("lowering_seconds")) or 0.0,
        backend_seconds=_compile_seconds(payload.get("backend_seconds")) or 0.0,
        count=_size(payload.get("count")) or 0,
        cache_hits=_size(payload.get("cache_hits")) or 0,
        cache_misses=_size(payload.get("cache_misses")) or 0,
        plan=_plan(payload.get("plan")),
    )


def _plan(payload: object) -> MemoryPlan | None:
    """Return what the compiler planned for a program, or ``None`` where a part of it is not a size."""
    if not isinstance(payload, dict):
        return None
    sizes = {name: _size(payload.get(name)) for name in _PLAN_SIZES}
    if any(size is None for size in sizes.values()):
        return None
    return MemoryPlan(
        program=clean_text(payload.get("program"), _NAME_CHARS) or "a program",
        platform=clean_text(payload.get("platform"), _NAME_CHARS),
        **{name: size or 0 for name, size in sizes.items()},
    )


def _compile_seconds(value: object) -> float | None:
    seconds = clean_seconds(value)
    return seconds if seconds is not None and seconds <= _MOST_COMPILE_SECONDS else None


def clean_errors(payload: object) -> dict[str, str]:
    """Return, for each known library, why its allocator could not be queried."""
    if not isinstance(payload, dict):
        return {}
    return {name: clean_text(payload[name], _ERROR_CHARS) or "no reason given" for name in LIBRARIES if name in payload}


def clean_seconds(value: object) -> float | None:
    """Return ``value`` if it is a time in seconds, else ``None``."""
    # Compare before converting: NaN fails the comparison, and a huge whole number has no float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_SECONDS:
        return None
    return float(value)


def _size(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_BYTES:
        return None
    return value


def clean_text(value: object, longest: int) -> str:
    """Return ``value`` as one line of at most ``longest`` characters without control characters; empty if no text."""
    if not isinstance(value, str):
        return ""
    return " ".join("".join(char if char.isprintable() else " " for char in value[:longest]).split())
