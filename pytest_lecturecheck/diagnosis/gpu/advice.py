"""Advice about ends that lacked GPU memory, with the sizes worked out for this card."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.diagnosis.gpu.allocator_settings import is_without_preallocation, set_fraction
from pytest_lecturecheck.diagnosis.gpu.ends import DeviceEnd
from pytest_lecturecheck.diagnosis.gpu.gpu_wording import mebibytes
from pytest_lecturecheck.diagnosis.gpu.holders import others_of, total_bytes
from pytest_lecturecheck.model.device import DeviceHolder, DeviceUse, HolderKind
from pytest_lecturecheck.model.device_plan import CONTEXT_BYTES, count_fitting, does_fit, memory_fraction
from pytest_lecturecheck.model.evidence import Evidence

_RUN_IN_TURN: Final = "run GPU lectures one at a time"
_HALVES: Final = "compute that batch in halves, join the results along the batch axis, and keep the split"


def advise_on_race(evidence: Evidence, end: DeviceEnd, use: DeviceUse) -> Iterator[str]:
    """Advise lectures that run at once on how to share a card."""
    either = ""
    if not is_without_preallocation(evidence.conditions.environment):
        yield "set XLA_PYTHON_CLIENT_PREALLOCATE=false for the kernels: each then takes memory when it needs it"
        either = "or "
    count, total = _kernel_count(evidence, use), total_bytes(use)
    if total is None:
        yield f"{either}{_RUN_IN_TURN}"
        return
    need, fraction = _need_bytes(evidence, end), memory_fraction(count, total_bytes=total)
    if need is not None and not does_fit(count, need, total):
        # The need is a lower bound: what does not fit for it does not fit at all.
        at_once = count_fitting(need, total)
        do_fit = f", {at_once} do" if at_once > 1 else ""
        yield (
            f"this lecture needs {mebibytes(need)} or more: {count} kernels with so much, and "
            f"{mebibytes(CONTEXT_BYTES)} for the CUDA context of each, do not fit into {mebibytes(total)}{do_fit}"
        )
        yield f"run at most {at_once} GPU lectures at a time" if at_once > 1 else _RUN_IN_TURN
        return
    if fraction > 0:
        instead = f", not {old:.2f}" if (old := set_fraction(evidence.conditions.environment)) is not None else ""
        yield (
            f"{either}XLA_PYTHON_CLIENT_MEM_FRACTION={fraction:.2f}{instead}: {count} kernels with "
            f"{mebibytes(fraction * total)} each, and {mebibytes(CONTEXT_BYTES)} for the CUDA context of each, "
            f"fit into {mebibytes(total)}"
        )
        either = "or "
    yield f"{either}{_RUN_IN_TURN}"


def _kernel_count(evidence: Evidence, use: DeviceUse) -> int:
    """Return how many kernels share the card: the number the session may run, or the number observed."""
    return max(evidence.host.session_kernel_count or 1, len(others_of(use, HolderKind.RUNNING_LECTURE)) + 1)


def _need_bytes(evidence: Evidence, end: DeviceEnd) -> int | None:
    """Return a lower bound of the lecture's need on a device, from its live peak and the refused request."""
    known = [max(usage.live_bytes, usage.peak_live_bytes or 0) for usage in evidence.allocators]
    if end.size_bytes is not None:
        known.append(end.size_bytes)
    return max(known, default=0) or None


def advise_on_leftovers(holders: tuple[DeviceHolder, ...]) -> Iterator[str]:
    """Advise on processes that a lecture left behind."""
    pids = [str(holder.pid) for holder in holders]
    one = len(pids) == 1
    named, same = (f"pid {pids[0]}", "it is") if one else (f"pids {', '.join(pids)}", "they are")
    yield f"end {named} (kill {' '.join(pids)}), once a look has shown that {same} still the same"
    yield "or wait until that memory is back before the next lecture starts"


def advise_on_tenant(evidence: Evidence, holders: tuple[DeviceHolder, ...], *, is_jax: bool = False) -> Iterator[str]:
    """Advise on processes that are none of ours."""
    who = f"pid {holders[0].pid}" if len(holders) == 1 else "they" if holders else "whoever holds the memory"
    ended = "has ended" if len(holders) == 1 or not holders else "have ended"
    other = "another device" if len(evidence.devices) > 1 else "another device, if there is one,"
    yield f"choose {other} with CUDA_VISIBLE_DEVICES, or wait until {who} {ended}"
    if is_jax:
        yield "if it is a JAX program of yours: start it with XLA_PYTHON_CLIENT_PREALLOCATE=false"
    if not holders:
        yield "nvidia-smi, outside of the container if this is one, shows who holds it"


def advise_on_fragments(evidence: Evidence, library: str) -> Iterator[str]:
    """Advise on a pool whose cached blocks are in the way."""
    if library == "PyTorch":
        yield "release cached blocks between batches: delete tensors that are not needed, then torch.cuda.empty_cache()"
        yield _HALVES
        yield "or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, with which segments grow instead of breaking up"
        return
    if library == "CuPy":
        yield "release cached blocks between batches: cupy.get_default_memory_pool().free_all_blocks()"
        yield _HALVES
        return
    yield "release cached blocks between batches: delete arrays that are not needed, and jax.clear_caches()"
    yield _HALVES
    yield "or TF_GPU_ALLOCATOR=cuda_malloc_async, an allocator that breaks into pieces less"
    if is_without_preallocation(evidence.conditions.environment):
        yield "a pool that was preallocated breaks into pieces less: XLA_PYTHON_CLIENT_PREALLOCATE=false is set here"
