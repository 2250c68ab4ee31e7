"""The agent's words about GPUs and the compiler, as far as they are what the agent says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes

LIBRARIES: Final = ("JAX", "PyTorch", "CuPy")
_DEVICES: Final = 64
_NAME_CHARS: Final = 60
_ERROR_CHARS: Final = 300
_MOST_BYTES: Final = 2**60
_MOST_SECONDS: Final = 1e9
_MOST_COMPILE_SECONDS: Final = 1e7
"""Four months. A lecture's sum and the limit made of it must stay below the longest time that a budget file holds."""


def clean_allocators(words: object) -> tuple[AllocatorUsage, ...]:
    """Keep the figures of the known libraries; one that is no size is left out of its entry, or with its entry."""
    if not isinstance(words, list):
        return ()
    figures = (_allocator(entry) for entry in words[:_DEVICES] if isinstance(entry, dict))
    return tuple(found for found in figures if found is not None)


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


def clean_compilation(words: object) -> CompileTimes | str | None:
    """Keep what the compiler took; a text says why that is not known, ``None`` that JAX was not imported."""
    if not isinstance(words, dict):
        return None
    if error := clean_text(words.get("error"), _ERROR_CHARS):
        return error
    seconds = _compile_seconds(words.get("seconds"))
    if seconds is None:
        return None
    return CompileTimes(
        seconds=seconds,
        tracing_seconds=_compile_seconds(words.get("tracing_seconds")) or 0.0,
        lowering_seconds=_compile_seconds(words.get("lowering_seconds")) or 0.0,
        backend_seconds=_compile_seconds(words.get("backend_seconds")) or 0.0,
        count=_size(words.get("count")) or 0,
        cache_hits=_size(words.get("cache_hits")) or 0,
        cache_misses=_size(words.get("cache_misses")) or 0,
    )


def _compile_seconds(value: object) -> float | None:
    seconds = clean_seconds(value)
    return seconds if seconds is not None and seconds <= _MOST_COMPILE_SECONDS else None


def clean_errors(words: object) -> dict[str, str]:
    """Keep, for each known library, why its allocator could not be asked."""
    if not isinstance(words, dict):
        return {}
    return {name: clean_text(words[name], _ERROR_CHARS) or "no reason given" for name in LIBRARIES if name in words}


def clean_seconds(value: object) -> float | None:
    """Give ``value`` where it is a time in seconds."""
    # The comparison comes first: NaN fails it, and a whole number without end has no float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_SECONDS:
        return None
    return float(value)


def _size(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_BYTES:
        return None
    return value


def clean_text(value: object, longest: int) -> str:
    """Give ``value`` where it is a text, in one line, cut, without control characters."""
    if not isinstance(value, str):
        return ""
    return " ".join("".join(char if char.isprintable() else " " for char in value[:longest]).split())
