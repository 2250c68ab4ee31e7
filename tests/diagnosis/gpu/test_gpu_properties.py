"""Whatever is read from devices, the cause can be printed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.card_evidence import (
    ABORTED,
    AT,
    CUPY,
    DEFAULT_SHARE,
    REFUSED,
    SILENT,
    STDERR,
    TORCH,
    WHEN_STARTED,
    card,
    foreign,
    leftover,
    running,
)
from support.made_records import changed, made_evidence

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.device import AllocatorUsage, Device, DeviceHolder, DeviceUse, HolderKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import MIB

HOSTILE = "first\x1b[31m\n\N{RIGHT-TO-LEFT OVERRIDE}.md\udc80"


def test_names_from_strangers_are_made_fit_for_one_line():
    use = card(3422, running(11305, lecture=HOSTILE))
    cause = diagnose(
        changed(
            ABORTED,
            lecture="x" * 5000,
            devices=(replace(use, device=replace(use.device, name="T4\x1b]0;evil\x07")),),
            environment={"XLA_FLAGS": "--a\n\x1b[2J"},
            allocators=(AllocatorUsage(library="JAX\n", device="cuda\x1b", live_bytes=1),),
        )
    )
    assert cause.headline == (
        f"{WHEN_STARTED} first \\u202e.md\\udc80 {DEFAULT_SHARE}; {'x' * 61}[... 4910 characters cut ...]{'x' * 30} "
        f"got 3422 MiB and aborted {AT}"
    )
    assert cause.evidence[1:6] == (
        "GPU 0 (T4): 15360 MiB in all; in use: 3 MiB before the run, at most 14727 MiB while it lasted",
        "this run: 3422 MiB",
        r"first \u202e.md\udc80 (pid 101), running: 11305 MiB, there before this run's processes",
        r"JAX on cuda\x1b: live 1 B",
        "set for the kernel: XLA_FLAGS=--a",
    )


def test_many_holders_are_counted():
    holders = tuple(foreign(100 + number, pid=number) for number in range(1, 21))
    lines = diagnose(replace(REFUSED, devices=(card(13000, *holders),))).evidence
    assert lines[3:] == (
        *(
            f"pid {number}, not known as a lecture's: {100 + number} MiB, there before this run's processes"
            for number in range(20, 12, -1)
        ),
        "and 12 other processes",
    )


SIZES = st.none() | st.integers(0, 2**42)

TEXTS = st.sampled_from(["", HOSTILE, "first.md"]) | st.text()

READINGS = st.just(Unavailable(metric=Metric.GPU_USED, reason="a\nb")) | st.builds(
    Measurement,
    metric=st.just(Metric.GPU_USED),
    value=st.integers(0, 2**42),
    method=st.sampled_from(list(Method)),
    high=SIZES,
)

HOLDERS = st.builds(
    DeviceHolder,
    pid=st.integers(0, 2**22),
    used_bytes=SIZES,
    kind=st.sampled_from(list(HolderKind)),
    lecture=TEXTS,
    was_there_first=st.booleans(),
    ended_seconds=st.none() | st.floats(),
    was_killed=st.booleans(),
)

USES = st.builds(
    DeviceUse,
    device=st.builds(Device, index=st.integers(0, 9), name=TEXTS, total_bytes=SIZES, is_slice=st.booleans()),
    used=READINGS,
    before_bytes=SIZES,
    after_bytes=SIZES,
    peak_used_bytes=SIZES,
    others_peak_bytes=SIZES,
    is_reserved=st.booleans(),
    holders=st.lists(HOLDERS, max_size=4).map(tuple),
)

FIGURES = st.builds(
    AllocatorUsage,
    library=st.sampled_from(["JAX", "PyTorch", "CuPy"]) | TEXTS,
    device=TEXTS,
    live_bytes=st.integers(0, 2**42),
    peak_live_bytes=SIZES,
    pool_bytes=SIZES,
    limit_bytes=SIZES,
    largest_free_block_bytes=SIZES,
)

ERRORS = st.sampled_from(
    [
        REFUSED.error,
        CellError(name="OutOfMemoryError", value=TORCH.format("9.20", "3.90")),
        CellError(name="OutOfMemoryError", value=CUPY),
        CellError(name="CUDARuntimeError", value="cudaErrorMemoryAllocation: out of memory"),
        CellError(name="RuntimeError", value="CUDA error: \x1b"),
    ]
)


@given(
    st.builds(
        made_evidence,
        lecture=TEXTS,
        cell_number=st.none() | st.integers(1, 9),
        line=st.none() | st.integers(1, 99),
        error=st.none() | ERRORS,
        signal=st.none() | st.sampled_from([6, 9, 11]),
        stderr_tail=st.sampled_from([(), (STDERR,), ("GPU is lost\x1b[2J",)]) | st.lists(TEXTS, max_size=2).map(tuple),
        devices=st.lists(USES, max_size=3).map(tuple),
        allocators=st.lists(FIGURES, max_size=2).map(tuple),
        session_kernel_count=st.none() | st.integers(0, 500),
        environment=st.dictionaries(
            st.sampled_from(
                ["XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_ALLOCATOR"]
            ),
            st.sampled_from(["0.3", "nan", "1e999", "-1", "false", "platform"]) | TEXTS,
        ),
    )
)
def test_whatever_was_read_gives_printable_lines(evidence):
    cause = diagnose(evidence)
    for text in (cause.headline, *cause.evidence, *cause.advice):
        assert one_line(text) == text
        assert text.strip() == text
        assert text


@given(
    run_mib=st.integers(1, 15360),
    holders=st.lists(st.integers(0, 15360).map(running), max_size=3).map(tuple),
    evidence=st.sampled_from([ABORTED, SILENT, REFUSED]),
)
def test_a_race_is_claimed_only_against_most_of_the_card(run_mib, holders, evidence):
    cause = diagnose(replace(evidence, devices=(card(run_mib, *holders),)))
    if cause.kind is CauseKind.PREALLOCATION_RACE:
        largest = max(holder.used_bytes for holder in holders)
        assert largest >= 0.6 * 15360 * MIB
        assert largest + run_mib * MIB <= 1.02 * 15360 * MIB


@pytest.mark.parametrize(("held_mib", "kind"), [(9216, "PREALLOCATION_RACE"), (9215, "DEVICE_OUT_OF_MEMORY")])
def test_most_of_the_card_begins_at_three_fifths(held_mib, kind):
    assert diagnose(replace(REFUSED, devices=(card(6000, running(held_mib)),))).kind is CauseKind[kind]


@pytest.mark.parametrize(("held_mib", "kind"), [(10624, "PREALLOCATION_RACE"), (10623, "NATIVE_CRASH")])
def test_without_a_word_the_card_must_have_been_full_to_nine_tenths(held_mib, kind):
    assert diagnose(replace(SILENT, devices=(card(3200, running(held_mib)),))).kind is CauseKind[kind]


@pytest.mark.parametrize(("free_mib", "kind"), [(2559, "LEFTOVER_HOLDER"), (2560, "NATIVE_OUT_OF_MEMORY")])
def test_a_stated_request_must_not_have_fitted(free_mib, kind):
    use = card(15360 - 3000 - free_mib, leftover(3000))
    assert diagnose(replace(ABORTED, devices=(use,))).kind is CauseKind[kind]


@pytest.mark.parametrize(("used_mib", "kind"), [(2560, "LEFTOVER_HOLDER"), (2559, "DEVICE_OUT_OF_MEMORY")])
def test_a_leftover_must_have_made_the_difference(used_mib, kind):
    use = card(15360 - used_mib, leftover(used_mib))
    assert diagnose(replace(REFUSED, devices=(use,))).kind is CauseKind[kind]
