"""Ends on a card of 15,360 MiB whose memory others held."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.card_evidence import (
    ABORTED,
    ASKED,
    AT,
    DEFAULT_SHARE,
    LEFT,
    LESS,
    PLACE,
    PREALLOCATE,
    REFUSED,
    SHARE,
    SILENT,
    STDERR,
    THIRDS,
    WHEN_STARTED,
    XLA_TEXT,
    card,
    check,
    foreign,
    leftover,
    raising,
    running,
)
from support.made_records import changed

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.device import AllocatorUsage, Device, DeviceUse
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.units import GIB, MIB

ELSEWHERE = "choose another device, if there is one, with CUDA_VISIBLE_DEVICES, or wait until {} has ended"

UNKNOWN_RISE = Measurement(metric=Metric.GPU_USED, value=0, high=900 * MIB, method=Method.BRACKET)

ABORT = "kernel aborted (SIGABRT) in code cell 7, line 120"

GOT_REFUSED = f"was refused a request of 2.68 GB (2.5 GiB) {AT}"


@pytest.mark.parametrize("evidence", [ABORTED, SILENT])
def test_a_set_share_that_is_too_large_for_three(evidence):
    set_share = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.90", "COURSE": "1"}
    inferred = "its last words do not speak of memory; that it lacked some is concluded from the full card"
    check(
        changed(evidence, devices=(card(1200, running(13824)),), environment=set_share),
        CauseKind.PREALLOCATION_RACE,
        (
            f"{WHEN_STARTED} first.md already held 13824 of 15360 MiB (90 %, the share that the kernels are set to "
            f"reserve); second.md got 1200 MiB and aborted {AT}"
        ),
        lines=(
            *(() if evidence.exit.stderr_tail else (inferred,)),
            "first.md: its share is what a JAX process reserves, whatever it needs",
            "GPU 0 (fake-T4): 15360 MiB in all; in use: 3 MiB before the run, at most 15024 MiB while it lasted",
            "this run: 1200 MiB",
            "first.md (pid 101), running: 13824 MiB, there before this run's processes",
            "set for the kernel: XLA_PYTHON_CLIENT_MEM_FRACTION=0.90",
            *(f"stderr: {line}" for line in evidence.exit.stderr_tail),
        ),
        advice=(PREALLOCATE, f"or {THIRDS.format(', not 0.90')}", "or run GPU lectures one at a time"),
    )


def test_most_of_the_card_that_is_no_usual_share_may_be_in_use():
    check(
        replace(REFUSED, devices=(card(1200, running(13824)),)),
        CauseKind.PREALLOCATION_RACE,
        f"{WHEN_STARTED} first.md already held 13824 of 15360 MiB (90 %); second.md got 1200 MiB and {GOT_REFUSED}",
        lines=(
            f"XlaRuntimeError: {XLA_TEXT.format(2684354560)}",
            "first.md: whether its share was in use or only reserved is not known",
            "GPU 0 (fake-T4): 15360 MiB in all; in use: 3 MiB before the run, at most 15024 MiB while it lasted",
            "this run: 1200 MiB",
            "first.md (pid 101), running: 13824 MiB, there before this run's processes",
        ),
        advice=SHARE,
    )


def test_one_that_came_later_is_said_to_have_done_so():
    check(
        replace(ABORTED, lecture="", devices=(card(3422, running(11305, lecture="", was_there_first=False)),)),
        CauseKind.PREALLOCATION_RACE,
        (
            "GPU preallocation race: while it ran, another lecture (pid 101) held 11305 of 15360 MiB (74 %, JAX's "
            f"default share); this lecture got 3422 MiB and aborted {AT}"
        ),
    )


@pytest.mark.parametrize(
    ("evidence", "why"),
    [
        (replace(ABORTED, devices=(card(2000, running(1500)),)), "the card was far from full"),
        (replace(SILENT, devices=(card(2000, running(1500)),)), "nor does anything speak of memory"),
        (replace(SILENT, devices=(card(7500, running(7500)),)), "full, but nobody had most of it"),
        (replace(SILENT, devices=(card(0, running(14305)),)), "it had nothing on the device"),
        (replace(ABORTED, devices=(card(0, running(14305)),)), "it had nothing on the device, and names none"),
        (replace(SILENT, devices=(card(0, before_mib=14000, used=UNKNOWN_RISE),)), "whether it had is not known"),
        (replace(SILENT, devices=(card(15000),)), "it had the card for itself"),
        (replace(SILENT, devices=(card(12000, running(11305)),)), "not at the same time"),
        (changed(SILENT, signal=11, devices=(card(1200, running(13824)),)), "a crash is no abort"),
        (changed(ABORTED, stderr_tail=("std::bad_alloc",), devices=(card(1200, running(13824)),)), "of the host"),
    ],
)
def test_without_a_case_against_others_it_is_the_plain_end_that_it_was(evidence, why):
    cause, without = diagnose(evidence), diagnose(replace(evidence, devices=()))
    assert cause == without, why
    assert cause.kind in {CauseKind.NATIVE_CRASH, CauseKind.NATIVE_OUT_OF_MEMORY}


def test_two_lectures_that_fill_the_card_together_are_no_race():
    check(
        replace(ABORTED, devices=(card(7500, running(7500)),)),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        f"{ABORT}; it was out of GPU memory, {ASKED}; others held 7500 of 15360 MiB of GPU 0 (fake-T4)",
        lines=(
            "GPU 0 (fake-T4): 15360 MiB in all; in use: 3 MiB before the run, at most 15000 MiB while it lasted",
            "this run: 7500 MiB",
            "first.md (pid 101), running: 7500 MiB, there before this run's processes",
            f"stderr: {STDERR}",
        ),
        advice=SHARE,
    )


def test_no_race_where_nothing_is_preallocated():
    off = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    check(
        changed(REFUSED, devices=(card(3422, running(11305)),), environment=off),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        f"XLA out of memory: {ASKED} on the device; others held 11305 of 15360 MiB of GPU 0 (fake-T4){PLACE}",
        advice=(THIRDS.format(""), "or run GPU lectures one at a time"),
    )


def test_the_larger_of_a_race_and_a_leftover_is_the_cause():
    race = (running(11305), leftover(2000, ended_seconds=30.0))
    check(
        replace(ABORTED, devices=(card(1400, *race),)),
        CauseKind.PREALLOCATION_RACE,
        f"{WHEN_STARTED} first.md {DEFAULT_SHARE}; second.md got 1400 MiB and aborted {AT}",
        lines=(
            "first.md: its share is what a JAX process reserves, whatever it needs",
            "GPU 0 (fake-T4): 15360 MiB in all; in use: 3 MiB before the run, at most 14705 MiB while it lasted",
            "this run: 1400 MiB",
            "first.md (pid 101), running: 11305 MiB, there before this run's processes",
            (
                "pid 201, a process left over from slow.md, which ended 30 s before this run began: 2000 MiB, "
                "there before this run's processes"
            ),
            f"stderr: {STDERR}",
        ),
        advice=(*SHARE, *LEFT),
    )
    check(
        replace(ABORTED, devices=(card(1400, running(2000), leftover(11305, was_killed=True)),)),
        CauseKind.LEFTOVER_HOLDER,
        (
            "leftover holder of GPU memory: 11305 MiB are still held by pid 201, the kernel of slow.md that was "
            f"killed; second.md got 1400 of 15360 MiB and aborted {AT}"
        ),
        advice=LEFT,
    )


def test_several_leftovers_are_added_up():
    check(
        replace(REFUSED, devices=(card(6000, leftover(3000), leftover(5000, pid=202), leftover(1000, pid=203)),)),
        CauseKind.LEFTOVER_HOLDER,
        (
            "leftover holder of GPU memory: 9000 MiB are still held by pid 202, a process left over from slow.md and 2 "
            f"other processes; second.md got 6000 of 15360 MiB and {GOT_REFUSED}"
        ),
        advice=(
            "end pids 202, 201, 203 (kill 202 201 203), once a look has shown that they are still the same",
            "or wait until that memory is back before the next lecture starts",
        ),
    )


def test_a_leftover_of_unknown_size():
    check(
        replace(REFUSED, devices=(card(9000, leftover(None), before_mib=5003, peak_used_bytes=14003 * MIB),)),
        CauseKind.LEFTOVER_HOLDER,
        (
            "leftover holder of GPU memory: up to 5003 MiB are still held by pid 201, a process left over from "
            f"slow.md; second.md got 9000 of 15360 MiB and {GOT_REFUSED}"
        ),
        advice=LEFT,
    )


@pytest.mark.parametrize("used_mib", [200, 1200])
def test_a_leftover_without_which_it_would_not_have_fitted_either_is_not_the_cause(used_mib):
    check(
        replace(REFUSED, devices=(card(14000, leftover(used_mib)),)),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        (
            f"XLA out of memory: {ASKED} on the device; "
            + (
                "this lecture had 14000 of 15360 MiB of GPU 0 (fake-T4)"
                if used_mib == 200
                else "others held 1200 of 15360 MiB of GPU 0 (fake-T4)"
            )
            + PLACE
        ),
    )


def test_another_program_that_held_the_memory():
    check(
        replace(REFUSED, devices=(card(6000, foreign(9000), before_mib=9003),)),
        CauseKind.OTHER_TENANT,
        (
            "GPU memory held by another program: pid 4242, not known as a lecture's, held 9000 of 15360 MiB; "
            f"second.md got 6000 MiB and {GOT_REFUSED}"
        ),
        lines=(
            f"XlaRuntimeError: {XLA_TEXT.format(2684354560)}",
            "GPU 0 (fake-T4): 15360 MiB in all; in use: 9003 MiB before the run, at most 15000 MiB while it lasted",
            "this run: 6000 MiB",
            "pid 4242, not known as a lecture's: 9000 MiB, there before this run's processes",
        ),
        advice=(ELSEWHERE.format("pid 4242"),),
    )


def test_another_program_with_the_share_that_jax_reserves():
    check(
        replace(REFUSED, devices=(card(3400, foreign(11305), before_mib=11308),)),
        CauseKind.PREALLOCATION_RACE,
        (
            f"{WHEN_STARTED} pid 4242, not known as a lecture's, {DEFAULT_SHARE}; "
            f"second.md got 3400 MiB and {GOT_REFUSED}"
        ),
        advice=(
            ELSEWHERE.format("pid 4242"),
            "if it is a JAX program of yours: start it with XLA_PYTHON_CLIENT_PREALLOCATE=false",
        ),
    )


def test_a_holder_that_nvml_gives_no_size_for():
    use = card(2000, foreign(None), before_mib=12000, peak_used_bytes=15100 * MIB)
    check(
        replace(REFUSED, devices=(use,)),
        CauseKind.OTHER_TENANT,
        (
            "GPU memory held by another program: 12000 of 15360 MiB were in use before this run, when pid 4242, not "
            f"known as a lecture's, held an unknown part of it; second.md got 2000 MiB and {GOT_REFUSED}"
        ),
        lines=(
            f"XlaRuntimeError: {XLA_TEXT.format(2684354560)}",
            "GPU 0 (fake-T4): 15360 MiB in all; in use: 12000 MiB before the run, at most 15100 MiB while it lasted",
            "this run: 2000 MiB",
            "pid 4242, not known as a lecture's: how much it held is not known, there before this run's processes",
        ),
        advice=(ELSEWHERE.format("pid 4242"),),
    )


def test_invisible_processes_are_not_guessed():
    use = card(0, before_mib=14000, peak_used_bytes=14900 * MIB, used=UNKNOWN_RISE, others_peak_bytes=None)
    check(
        replace(ABORTED, devices=(use,)),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        (
            "out of GPU memory: 14000 of 15360 MiB of GPU 0 (fake-T4) were in use before this run, by whom is not "
            f"known; second.md aborted {AT}"
        ),
        lines=(
            "GPU 0 (fake-T4): 15360 MiB in all; in use: 14000 MiB before the run, at most 14900 MiB while it lasted",
            "this run: at most 900 MiB, the rise of the device (its processes cannot be told apart)",
            f"stderr: {STDERR}",
        ),
        advice=(
            ELSEWHERE.format("whoever holds the memory"),
            "nvidia-smi, outside of the container if this is one, shows who holds it",
        ),
    )


def test_a_device_that_was_not_read_leaves_the_text_and_a_hint():
    use = DeviceUse(
        device=Device(index=0, name="GRID"), used=Unavailable(metric=Metric.GPU_USED, reason="no permission")
    )
    check(
        replace(REFUSED, devices=(use,)),
        CauseKind.DEVICE_OUT_OF_MEMORY,
        f"XLA out of memory: {ASKED} on the device{PLACE}",
        lines=(
            f"XlaRuntimeError: {XLA_TEXT.format(2684354560)}",
            "GPU 0 (GRID): its size is not known",
            "this run: not measured (no permission)",
        ),
        advice=("another process may hold the GPU's memory; nvidia-smi shows which", LESS),
    )


def test_of_several_devices_the_one_that_was_short_is_named():
    check(
        replace(ABORTED, devices=(card(11305), card(3422, running(11305), index=1), card(0, foreign(15000), index=2))),
        CauseKind.PREALLOCATION_RACE,
        (
            f"{WHEN_STARTED} first.md already held 11305 of 15360 MiB of GPU 1 (74 %, JAX's default share); "
            f"second.md got 3422 MiB and aborted {AT}"
        ),
        lines=(
            "first.md: its share is what a JAX process reserves, whatever it needs",
            "GPU 1 (fake-T4): 15360 MiB in all; in use: 3 MiB before the run, at most 14727 MiB while it lasted",
            "this run: 3422 MiB",
            "first.md (pid 101), running: 11305 MiB, there before this run's processes",
            f"stderr: {STDERR}",
        ),
        advice=SHARE,
    )


def test_a_library_that_could_not_be_set_up_beside_a_reservation():
    evidence = raising("XlaRuntimeError", "FAILED_PRECONDITION: DNN library initialization failed")
    check(
        replace(evidence, devices=(card(3422, running(11305)),)),
        CauseKind.PREALLOCATION_RACE,
        (
            f"{WHEN_STARTED} first.md {DEFAULT_SHARE}; "
            f"second.md got 3422 MiB and could not set up or use a GPU library {AT}"
        ),
    )
    check(
        replace(evidence, devices=(card(422),)),
        CauseKind.DEVICE_NOT_USABLE,
        f"XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed{PLACE}",
    )


@pytest.mark.parametrize(
    ("kernels", "live_mib", "advice"),
    [
        (3, 4608, SHARE),
        (
            3,
            6144,
            (
                PREALLOCATE,
                (
                    "this lecture needs 6144 MiB or more: 3 kernels with so much, and 512 MiB for the CUDA context of "
                    "each, do not fit into 15360 MiB, 2 do"
                ),
                "run at most 2 GPU lectures at a time",
            ),
        ),
        (
            3,
            9000,
            (
                PREALLOCATE,
                (
                    "this lecture needs 9000 MiB or more: 3 kernels with so much, and 512 MiB for the CUDA context of "
                    "each, do not fit into 15360 MiB"
                ),
                "run GPU lectures one at a time",
            ),
        ),
        (
            None,
            1000,
            (
                PREALLOCATE,
                (
                    "or XLA_PYTHON_CLIENT_MEM_FRACTION=0.46: 2 kernels with 7066 MiB each, and 512 MiB for the CUDA "
                    "context of each, fit into 15360 MiB"
                ),
                "or run GPU lectures one at a time",
            ),
        ),
        (40, 0, (PREALLOCATE, None, "run at most 5 GPU lectures at a time")),
    ],
)
def test_the_share_is_worked_out_for_the_kernels_and_what_is_known_of_their_need(kernels, live_mib, advice):
    figures = AllocatorUsage(
        library="JAX", device="cuda:0", live_bytes=0, peak_live_bytes=live_mib * MIB, limit_bytes=3 * GIB
    )
    use = card(3422, running(11305))
    cause = diagnose(changed(REFUSED, devices=(use,), allocators=(figures,), session_kernel_count=kernels))
    assert cause.kind is CauseKind.PREALLOCATION_RACE
    assert len(cause.advice) == len(advice)
    assert all(want in (None, got) for want, got in zip(advice, cause.advice, strict=True))
