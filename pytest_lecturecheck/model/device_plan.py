"""
How a card is divided among kernels that run on it at once. Pure arithmetic.

JAX takes its share of the card when it first uses it (``XLA_PYTHON_CLIENT_MEM_FRACTION`` of the whole card, 75 % by
default), whatever it needs afterwards. A share is therefore right when all kernels' shares fit on the card together,
and beside each the memory that its CUDA context takes outside of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from pytest_lecturecheck.units import GIB, MIB

DEFAULT_FRACTION: Final = 0.75
"""JAX's share of a card where nothing else is set (docs.jax.dev, "GPU memory allocation")."""
CONTEXT_BYTES: Final = 512 * MIB
"""
What one kernel takes of a card outside its allocator's pool: CUDA context, loaded code, handles of cuBLAS and cuDNN.

An assumption: 0.3 to 0.5 GiB is usual, and it grows with the card.
"""
ASSUMED_TOTAL_BYTES: Final = 15 * GIB
"""The card that is planned for where none is known: a Tesla T4, the smallest one in common use for builds."""
_STEPS: Final = 100
_HEADROOM: Final = Fraction(3, 2)


def memory_fraction(
    kernel_count: int, *, live_peaks_bytes: Sequence[int] = (), total_bytes: int | None = None
) -> float:
    """
    Work out ``XLA_PYTHON_CLIENT_MEM_FRACTION`` for kernels that run on one card at once.

    Each kernel gets an equal part of the card, less :data:`CONTEXT_BYTES`, rounded down to two digits:
    ``kernel_count x (fraction x total_bytes + CONTEXT_BYTES) <= total_bytes`` holds always. Three kernels on a card of
    15 GiB get 0.30 each.

    Args:
        kernel_count: kernels that may be on the card at once.
        live_peaks_bytes: the highest memory in use by arrays, of every lecture that will run with this fraction. Where
            they are known, no kernel gets more than 1.5 times the highest of them (a pool needs more than is live in
            it, because it breaks into pieces); the rest of the card stays free for libraries with pools of their own.
            Pass none rather than some: a lecture that is left out may need more. They never raise the fraction;
            :func:`does_fit` says whether it is enough for them.
        total_bytes: memory of the card; ``None`` plans for :data:`ASSUMED_TOTAL_BYTES`.

    Returns:
        The fraction, from 0 to :data:`DEFAULT_FRACTION`, in steps of 0.01. It is 0 where so many kernels leave less
        than one step to each of them: run fewer at once.

    Raises:
        ValueError: ``kernel_count`` or ``total_bytes`` is not positive.
    """
    total = _checked_total(kernel_count, total_bytes)
    steps = min(_even_share(kernel_count, total) * _STEPS // total, int(DEFAULT_FRACTION * _STEPS))
    if (highest := max(live_peaks_bytes, default=0)) > 0:
        steps = min(steps, -(-highest * _HEADROOM * _STEPS // total))
    return max(0, int(steps)) / _STEPS


def does_fit(kernel_count: int, need_bytes: int, total_bytes: int) -> bool:
    """Return True if that many kernels, each with ``need_bytes`` and a CUDA context, fit on the card at once."""
    return need_bytes <= _even_share(kernel_count, _checked_total(kernel_count, total_bytes))


def count_fitting(need_bytes: int, total_bytes: int) -> int:
    """Return how many kernels, each with ``need_bytes`` and a CUDA context, fit on the card at once."""
    return max(0, _checked_total(1, total_bytes) // (max(0, need_bytes) + CONTEXT_BYTES))


def _even_share(kernel_count: int, total_bytes: int) -> Fraction:
    return Fraction(total_bytes, kernel_count) - CONTEXT_BYTES


def _checked_total(kernel_count: int, total_bytes: int | None) -> int:
    total = ASSUMED_TOTAL_BYTES if total_bytes is None else total_bytes
    if kernel_count < 1 or total < 1:
        msg = f"{kernel_count} kernels on a card of {total} bytes: expected at least 1 of each"
        raise ValueError(msg)
    return total
