"""What the variables set for a kernel say about its use of GPU memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from pytest_lecturecheck.safe_text import one_line

# The first is JAX's newer name for the second.
_FRACTION: Final = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_PREALLOCATE: Final = "XLA_PYTHON_CLIENT_PREALLOCATE"
_ALLOCATOR: Final = "XLA_PYTHON_CLIENT_ALLOCATOR"
_PREFIXES: Final = ("XLA_", "TF_", "JAX_PLATFORM", "PYTORCH_", "CUDA_", "CUPY_")


def is_without_preallocation(environment: Mapping[str, str]) -> bool:
    """Return True if JAX was set to take memory only as it needs it."""
    off = environment.get(_PREALLOCATE, "").strip().lower() in {"false", "0"}
    return off or environment.get(_ALLOCATOR, "").strip() == "platform"


def set_fraction(environment: Mapping[str, str]) -> float | None:
    """Return the share of the card that JAX was set to take (0..1), or ``None`` for its default."""
    for name in _FRACTION:
        try:
            fraction = float(environment.get(name, ""))
        except ValueError:
            continue
        if math.isfinite(fraction) and 0 < fraction <= 1:
            return fraction
    return None


def setting_lines(environment: Mapping[str, str]) -> Iterator[str]:
    """Name the variables that were set for the kernel and bear on GPU memory, in one line."""
    found = (f"{name}={value}" for name, value in sorted(environment.items()) if name.startswith(_PREFIXES))
    if text := one_line(", ".join(found)):
        yield f"set for the kernel: {text}"
