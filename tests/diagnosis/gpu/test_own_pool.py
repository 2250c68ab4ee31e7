"""Ends for which the lecture's own allocator is the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.card_evidence import (
    ABORTED,
    ASKED,
    CUPY,
    LESS,
    PLACE,
    REFUSED,
    TORCH,
    XLA_TEXT,
    card,
    check,
    foreign,
    leftover,
    measured,
    raising,
    running,
)
from support.made_records import changed

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.device import AllocatorUsage, Device, DeviceUse
from pytest_lecturecheck.units import GIB, MIB

HALVES = "compute that batch in halves, join the results along the batch axis, and keep the split"

SPLIT = AllocatorUsage(
    library="JAX",
    device="cuda:0",
    live_bytes=30_000_000_000,
    peak_live_bytes=52_000_000_000,
    pool_bytes=66_700_000_000,
    limit_bytes=67_600_000_000,
)

BATCH = raising("XlaRuntimeError", XLA_TEXT.format(12_600_000_000))

H100 = DeviceUse(
    device=Device(index=0, name="H100", total_bytes=90_000_000_000),
    used=measured(67_000_000_000),
    before_bytes=0,
    peak_used_bytes=67_000_000_000,
    others_peak_bytes=0,
    is_reserved=True,
)

RELEASE_JAX = (
    "release cached blocks between batches: delete arrays that are not needed, and jax.clear_caches()",
    HALVES,
    "or TF_GPU_ALLOCATOR=cuda_malloc_async, an allocator that breaks into pieces less",
)

NOT_THE_LECTURE = "the pool's cached blocks, not the lecture, filled the card"


def test_a_fragmented_pool():
    check(
        replace(BATCH, devices=(H100,), allocators=(SPLIT,)),
        CauseKind.FRAGMENTED_POOL,
        (
            "fragmented GPU pool: live 52.0 GB, pool held 66.7 GB, request 12.6 GB, limit 67.6 GB: "
            f"{NOT_THE_LECTURE}{PLACE}"
        ),
        lines=(
            f"XlaRuntimeError: {XLA_TEXT.format(12_600_000_000)}",
            "GPU 0 (H100): 85831 MiB in all; in use: 0 MiB before the run, at most 63896 MiB while it lasted",
            "this run: 63896 MiB, reserved by preallocation",
            "JAX on cuda:0: live 27.9 GiB (at most 48.4 GiB), pool 62.1 GiB, limit 63 GiB",
        ),
        advice=RELEASE_JAX,
    )


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        (
            {"peak_live_bytes": 60_000_000_000},
            "live 30.0 GB, pool held 66.7 GB, request 12.6 GB, limit 67.6 GB: most likely ",
        ),
        (
            {"peak_live_bytes": None},
            "live 30.0 GB, pool held 66.7 GB, request 12.6 GB, limit 67.6 GB: most likely ",
        ),
        (
            {"pool_bytes": None, "largest_free_block_bytes": 9_000_000_000},
            "live 52.0 GB, request 12.6 GB, limit 67.6 GB, largest free block 9.0 GB: ",
        ),
        (
            {"peak_live_bytes": 55_000_000_000},
            "live 55.0 GB, pool held 66.7 GB, request 12.6 GB, limit 67.6 GB: ",
        ),
    ],
)
def test_a_fragmented_pool_is_claimed_as_far_as_the_values_show(changes, headline):
    check(
        replace(BATCH, devices=(H100,), allocators=(replace(SPLIT, **changes),)),
        CauseKind.FRAGMENTED_POOL,
        f"fragmented GPU pool: {headline}{NOT_THE_LECTURE}{PLACE}",
    )


def test_values_from_before_the_cell_prove_less():
    stderr = ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 12600000000 bytes on GPU_0",)
    check(
        changed(ABORTED, stderr_tail=stderr, devices=(H100,), allocators=(SPLIT,)),
        CauseKind.FRAGMENTED_POOL,
        (
            "fragmented GPU pool: live 52.0 GB, pool held 66.7 GB, request 12.6 GB, limit 67.6 GB: most likely "
            f"{NOT_THE_LECTURE}{PLACE}"
        ),
    )


def test_preallocation_turned_off_breaks_pools_more():
    evidence = changed(
        BATCH, devices=(H100,), allocators=(SPLIT,), environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    )
    assert diagnose(evidence).advice == (
        *RELEASE_JAX,
        "a pool that was preallocated breaks into pieces less: XLA_PYTHON_CLIENT_PREALLOCATE=false is set here",
    )


def test_arrays_that_fill_the_pool_are_the_lectures_own():
    full = replace(SPLIT, live_bytes=55_000_000_001, peak_live_bytes=56_000_000_000)
    check(
        replace(BATCH, devices=(H100,), allocators=(full,)),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        (
            "XLA out of memory: asked 12.6 GB (11.7 GiB) on the device; live 55.0 GB of a limit of 67.6 GB: the "
            "lecture itself filled it; this lecture had 63896 of 85831 MiB of GPU 0 (H100), reserved by "
            f"preallocation{PLACE}"
        ),
        advice=(
            LESS,
            (
                "or, where it has the card for itself, XLA_PYTHON_CLIENT_MEM_FRACTION=0.95: "
                "JAX kept to 67.6 GB of 90.0 GB"
            ),
        ),
    )


def test_a_request_that_just_fits_beside_the_arrays():
    exact = replace(SPLIT, live_bytes=55_000_000_000, peak_live_bytes=None)
    assert diagnose(replace(BATCH, allocators=(exact,))).kind is CauseKind.FRAGMENTED_POOL
    over = replace(exact, live_bytes=55_000_000_001)
    assert diagnose(replace(BATCH, allocators=(over,))).kind is CauseKind.DEVICE_OUT_OF_MEMORY


def test_a_pool_with_its_whole_share_lost_nothing_to_others():
    use = card(11600, running(3000))
    figures = replace(
        SPLIT, live_bytes=6 * GIB, peak_live_bytes=7 * GIB, pool_bytes=11520 * MIB, limit_bytes=11520 * MIB
    )
    check(
        replace(REFUSED, devices=(replace(use, holders=(leftover(3000),)),), allocators=(figures,)),
        CauseKind.FRAGMENTED_POOL,
        (
            "fragmented GPU pool: live 7.5 GB, pool held 12.1 GB, request 2.7 GB, limit 12.1 GB: "
            f"{NOT_THE_LECTURE}{PLACE}"
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        TORCH.format("9.20", "3.90"),
        (
            "CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 14.58 GiB total capacity; 9.20 GiB already "
            "allocated; 1.00 GiB free; 13.10 GiB reserved in total by PyTorch)"
        ),
    ],
)
def test_pytorch_says_itself_how_its_pool_stands(text):
    check(
        raising("OutOfMemoryError", text, devices=(card(13824),)),
        CauseKind.FRAGMENTED_POOL,
        f"fragmented GPU pool: live 9.9 GB, pool held 14.1 GB, request 2.7 GB, limit 15.1 GB: {NOT_THE_LECTURE}{PLACE}",
        advice=(
            "release cached blocks between batches: delete tensors that are not needed, then torch.cuda.empty_cache()",
            HALVES,
            "or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, with which segments grow instead of breaking up",
        ),
    )


def test_pytorch_with_a_full_card():
    check(
        raising("OutOfMemoryError", TORCH.format("13.00", "0.10"), devices=(card(13824),)),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        (
            f"PyTorch out of memory: {ASKED} on the device; live 14.0 GB of a limit of 15.1 GB: the lecture itself "
            f"filled it; this lecture had 13824 of 15360 MiB of GPU 0 (fake-T4){PLACE}"
        ),
        advice=(LESS,),
    )


def test_the_few_cached_blocks_beside_a_pool_in_use_are_not_to_blame():
    text = (
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty of 15.00 GiB of which 13.00 MiB is "
        "free. Process 2733 has 14.98 GiB memory in use. Of the allocated memory 14.47 GiB is allocated by PyTorch, "
        "and 123.00 MiB is reserved by PyTorch but unallocated."
    )
    check(
        raising("OutOfMemoryError", text),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        f"PyTorch out of memory: asked 21 MB (20 MiB) on the device; 14.5 GiB in use; it has 15 GiB in all{PLACE}",
    )


def test_pytorch_beside_another_lecture_did_not_fill_the_card_itself():
    text = TORCH.format("6.50", "0.10").replace("13.50", "7.00")
    check(
        raising("OutOfMemoryError", text, devices=(card(7168, running(7168)),)),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        f"PyTorch out of memory: {ASKED} on the device; others held 7168 of 15360 MiB of GPU 0 (fake-T4){PLACE}",
    )


OWN_LIMIT = (
    "have the cell need less memory, or raise the limit that was set for the pool (CuPy: set_limit, "
    "CUPY_GPU_MEMORY_LIMIT; PyTorch: set_per_process_memory_fraction)"
)


@pytest.mark.parametrize("holders", [(), (running(11305),), (leftover(14000),), (foreign(14000),)])
def test_a_limit_that_was_set_for_the_pool_is_nobody_elses_fault(holders):
    check(
        raising("OutOfMemoryError", CUPY, devices=(card(900, *holders),)),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        (
            "CuPy out of memory: asked 805 MB (768 MiB) on the device; the limit of 1 GiB that was set for the pool "
            f"refused it, with 512 MiB in it{PLACE}"
        ),
        advice=(OWN_LIMIT,),
    )


def test_the_limit_of_pytorch():
    text = TORCH.format("3.00", "0.10").replace("Of the alloc", "4.00 GiB allowed; Of the alloc")
    check(
        raising("OutOfMemoryError", text, devices=(card(4000),)),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        (
            f"PyTorch out of memory: {ASKED} on the device; the limit of 4 GiB that was set for the pool refused it, "
            f"with 3.1 GiB in it{PLACE}"
        ),
        advice=(OWN_LIMIT,),
    )


def test_cupys_pool_in_pieces():
    text = "Out of memory allocating 2,684,354,560 bytes (allocated so far: 12,884,901,888 bytes)."
    figures = AllocatorUsage(
        library="CuPy", device="cuda:0", live_bytes=4 * GIB, pool_bytes=12 * GIB, limit_bytes=14 * GIB
    )
    check(
        raising("OutOfMemoryError", text, devices=(card(12800),), allocators=(SPLIT, figures)),
        CauseKind.FRAGMENTED_POOL,
        (
            "fragmented GPU pool: live 4.3 GB, pool held 12.9 GB, request 2.7 GB, limit 15.0 GB: most likely "
            f"{NOT_THE_LECTURE}{PLACE}"
        ),
        advice=("release cached blocks between batches: cupy.get_default_memory_pool().free_all_blocks()", HALVES),
    )


@pytest.mark.parametrize("holders", [(), (running(11305),), (leftover(14000),)])
def test_more_than_the_card_has_is_nobody_elses_fault(holders):
    check(
        raising("XlaRuntimeError", XLA_TEXT.format(98765432100), devices=(card(900, *holders),)),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        (
            "XLA out of memory: asked 98.8 GB (92 GiB) on the device; that is more than the 15360 MiB that "
            f"GPU 0 (fake-T4) has in all{PLACE}"
        ),
        advice=("have the cell ask for less at once: no setting makes it fit",),
    )
