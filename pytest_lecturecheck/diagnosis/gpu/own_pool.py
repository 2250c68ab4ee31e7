"""
Ends for want of GPU memory that the lecture's own process held: in its pool's cached blocks, or in its arrays.

What allocators said is as of a cell's end, and PyTorch's error as of the failure. Where the peak in use and the request
fit under the limit together, the lecture cannot have filled it; where only the last value in use does, it most likely
did not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.crash_places import crash_lines
from pytest_lecturecheck.diagnosis.gpu.advice import advise_on_fragments, advise_on_race
from pytest_lecturecheck.diagnosis.gpu.allocator_settings import set_fraction
from pytest_lecturecheck.diagnosis.gpu.ends import DeviceEnd, read_end
from pytest_lecturecheck.diagnosis.gpu.gpu_wording import decimal, device_label, device_lines, mebibytes, of_card
from pytest_lecturecheck.diagnosis.gpu.holders import (
    devices_of,
    is_short,
    others_bytes,
    others_of,
    run_bytes,
    share,
    sum_bytes,
    total_bytes,
)
from pytest_lecturecheck.diagnosis.requests import MemoryRequest
from pytest_lecturecheck.diagnosis.wording import all_lines, both_units, error_text, in_brackets, within
from pytest_lecturecheck.model.device import DeviceUse, HolderKind
from pytest_lecturecheck.model.device_plan import CONTEXT_BYTES, DEFAULT_FRACTION
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.units import format_size

_LIBRARIES: Final = {"XLA": "JAX"}
_MOST_OF_CARD: Final = 0.6
_NOTABLE: Final = 0.05
_NEARLY_ALL: Final = 0.9
_MOST_DEFAULT: Final = DEFAULT_FRACTION + 0.02
_MOST_FRACTION: Final = 0.95
_ANOTHER_HOLDER: Final = "another process may hold the GPU's memory; nvidia-smi shows which"
_NEED_LESS: Final = (
    "have the cell need less memory (smaller batches, float32, arrays deleted as soon as they are done with), "
    "or take a card with more"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    """A pool at the failure; ``is_certain``: no more than ``live_bytes`` was in use at any time."""

    library: str
    live_bytes: int
    held_bytes: int | None
    limit_bytes: int
    largest_bytes: int | None
    is_certain: bool


def find_fragmented_pool(evidence: Evidence) -> Cause | None:
    """Recognise a request that would have fitted beside the arrays, but not beside the pool's cached blocks."""
    end = read_end(evidence)
    if end is None or end.size_bytes is None or end.has_own_limit:
        return None
    for pool in _pools(evidence, end):
        if (headline := _fragments_text(pool, end.size_bytes)) is None:
            continue
        return Cause(
            kind=CauseKind.FRAGMENTED_POOL,
            headline=f"fragmented GPU pool: {headline}{in_brackets(evidence)}",
            evidence=_lines(evidence, end),
            advice=tuple(advise_on_fragments(evidence, pool.library)),
        )
    return None


def _fragments_text(pool: _Pool, request_bytes: int) -> str | None:
    if _is_filled(pool, request_bytes):
        return None
    held, largest = pool.held_bytes, pool.largest_bytes
    parts = [f"live {decimal(pool.live_bytes)}"]
    if held is not None:
        parts.append(f"pool held {decimal(held)}")
    parts += [f"request {decimal(request_bytes)}", f"limit {decimal(pool.limit_bytes)}"]
    likely = "" if pool.is_certain else "most likely "
    if largest is not None and largest < request_bytes:
        parts.append(f"largest free block {decimal(largest)}")
    elif held is None or held + request_bytes <= pool.limit_bytes:
        return None
    return f"{', '.join(parts)}: {likely}the pool's cached blocks, not the lecture, filled the card"


def _is_filled(pool: _Pool, request_bytes: int) -> bool:
    """Return True if the memory in use filled the pool: then the few cached blocks are not to blame."""
    is_beyond = pool.live_bytes + request_bytes > pool.limit_bytes
    return is_beyond or pool.live_bytes >= _NEARLY_ALL * pool.limit_bytes


def _pools(evidence: Evidence, end: DeviceEnd) -> Iterator[_Pool]:
    """Return the pools of the library that failed, the most reliable values first."""
    request = end.request
    if request is None:
        return
    library = _LIBRARIES.get(request.library, request.library)
    if request.live_bytes is not None and request.pool_bytes is not None and request.free_bytes is not None:
        yield _Pool(
            library=library,
            live_bytes=request.live_bytes,
            held_bytes=request.pool_bytes,
            limit_bytes=request.pool_bytes + request.free_bytes,
            largest_bytes=None,
            is_certain=True,
        )
        return
    for usage in evidence.allocators:
        if usage.limit_bytes is None or library not in {"", usage.library}:
            continue
        peak = usage.peak_live_bytes
        # After an abort the report is older than the cell: what the cell had in use is not known.
        certain = peak is not None and not end.is_abort
        fits = peak is not None and peak + (request.size_bytes or 0) <= usage.limit_bytes
        yield _Pool(
            library=usage.library,
            live_bytes=peak if peak is not None and fits else usage.live_bytes,
            held_bytes=usage.pool_bytes,
            limit_bytes=usage.limit_bytes,
            largest_bytes=usage.largest_free_block_bytes,
            is_certain=certain and fits,
        )


def find_filled_card(evidence: Evidence) -> Cause | None:
    """Explain any other lack of GPU memory, with the sizes of the card: plain out of memory."""
    end = read_end(evidence)
    if end is None or end.request is None or not (evidence.devices or evidence.allocators):
        return None
    uses = devices_of(evidence, end)
    # Words that leave open whose memory it was may be about the host's.
    if not end.names_device and not any(is_short(use, end) for use in uses):
        return None
    facts = tuple(_facts(evidence, end, uses))
    text = "; ".join((_refused_text(evidence, end, end.request), *facts))
    return Cause(
        kind=CauseKind.DEVICE_OUT_OF_MEMORY,
        headline=text if end.is_abort else f"{text}{in_brackets(evidence)}",
        evidence=_lines(evidence, end),
        advice=tuple(_advice(evidence, end, uses)),
    )


def _refused_text(evidence: Evidence, end: DeviceEnd, request: MemoryRequest) -> str:
    size = request.size_bytes
    if end.is_abort:
        asked = f", asked {both_units(size)}" if size is not None else ""
        return f"kernel aborted (SIGABRT){within(evidence)}; it was out of GPU memory{asked}"
    asked = f": asked {both_units(size)}" if size is not None else ""
    return f"{request.library} out of memory{asked} on the device"


def _facts(evidence: Evidence, end: DeviceEnd, uses: tuple[DeviceUse, ...]) -> Iterator[str]:
    """Compare the request with the whole card, with the pool's limit, and with what was in use."""
    request, size = end.request, end.size_bytes
    if request is not None and end.has_own_limit:
        held = request.pool_bytes if request.pool_bytes is not None else request.used_bytes
        beside = f", with {format_size(held)} in it" if held is not None else ""
        yield f"the limit of {format_size(request.own_limit_bytes or 0)} that was set for the pool refused it{beside}"
        return
    if beyond := _beyond(end, uses):
        yield f"that is more than the {mebibytes(total_bytes(beyond) or 0)} that {device_label(beyond)} has in all"
        return
    # PyTorch's limit is what others leave; JAX's is its own.
    others = any(_have_others(use) for use in uses) and request is not None and request.free_bytes is not None
    for pool in () if others else _pools(evidence, end):
        if size is not None and _is_filled(pool, size):
            yield (
                f"live {decimal(pool.live_bytes)} of a limit of {decimal(pool.limit_bytes)}: "
                "the lecture itself filled it"
            )
            break
    for use in uses:
        yield from _card_facts(use)


def _beyond(end: DeviceEnd, uses: tuple[DeviceUse, ...]) -> DeviceUse | None:
    """Return the largest device if the request exceeds every device, or ``None``."""
    sizes = [total_bytes(use) for use in uses]
    known = [size for size in sizes if size is not None]
    if end.size_bytes is None or not known or len(known) < len(sizes) or end.size_bytes <= max(known):
        return None
    return uses[sizes.index(max(known))]


def _card_facts(use: DeviceUse) -> Iterator[str]:
    """Return who held most of the card."""
    run, others = run_bytes(use), others_bytes(use)
    if others is not None and _have_others(use):
        yield f"others held {of_card(others, use)} of {device_label(use)}"
    elif run is not None and (share(run, use) or 0) >= _MOST_OF_CARD:
        reserved = ", reserved by preallocation" if use.is_reserved else ""
        yield f"this lecture had {of_card(run, use)} of {device_label(use)}{reserved}"


def _have_others(use: DeviceUse) -> bool:
    return (share(others_bytes(use) or 0, use) or 0) >= _NOTABLE


def _advice(evidence: Evidence, end: DeviceEnd, uses: tuple[DeviceUse, ...]) -> Iterator[str]:
    if end.has_own_limit:
        yield (
            "have the cell need less memory, or raise the limit that was set for the pool (CuPy: set_limit, "
            "CUPY_GPU_MEMORY_LIMIT; PyTorch: set_per_process_memory_fraction)"
        )
        return
    if _beyond(end, uses) is not None:
        yield "have the cell ask for less at once: no setting makes it fit"
        return
    shared = [
        use
        for use in uses
        if is_short(use, end) and (share(sum_bytes(others_of(use, HolderKind.RUNNING_LECTURE)), use) or 0) >= _NOTABLE
    ]
    if shared:
        yield from advise_on_race(evidence, end, shared[0])
        return
    if uses and all(others_bytes(use) is None for use in uses):
        yield _ANOTHER_HOLDER
    yield _NEED_LESS
    yield from _advise_on_limit(evidence, end, uses)


def _advise_on_limit(evidence: Evidence, end: DeviceEnd, uses: tuple[DeviceUse, ...]) -> Iterator[str]:
    """Point to the part of the card that JAX leaves alone by default, where the request would fit into it."""
    totals = [total for use in uses if (total := total_bytes(use)) is not None]
    if len(totals) != 1 or end.size_bytes is None or set_fraction(evidence.conditions.environment) is not None:
        return
    total = totals[0]
    for usage in evidence.allocators:
        limit, live = usage.limit_bytes, usage.live_bytes
        if usage.library != "JAX" or limit is None or not limit <= _MOST_DEFAULT * total:
            continue
        if limit < live + end.size_bytes <= min(_MOST_FRACTION * total, total - CONTEXT_BYTES):
            yield (
                f"or, where it has the card for itself, XLA_PYTHON_CLIENT_MEM_FRACTION={_MOST_FRACTION}: "
                f"JAX kept to {decimal(limit)} of {decimal(total)}"
            )
            return


def _lines(evidence: Evidence, end: DeviceEnd) -> tuple[str, ...]:
    said = (error_text(evidence.error),) if evidence.error is not None else crash_lines(evidence)
    return (*said, *device_lines(evidence, devices_of(evidence, end)), *all_lines(evidence))
