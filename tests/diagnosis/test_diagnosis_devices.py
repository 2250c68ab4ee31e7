"""What deaths on GPUs are put down to, from recorded readings and from made ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_records import changed, made_evidence

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.device import AllocatorUsage, Device, DeviceHolder, DeviceUse, HolderKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import GIB, MIB

CASES = Path(__file__).parents[1] / "cases"


# Readings as recorded, one moment after the other


def read_case(case, lecture, **changes):
    """Make the evidence of a lecture's end out of the recorded readings of a device and the lectures' times."""
    folder = CASES / case
    lectures = json.loads((folder / "events.json").read_text("utf-8"))["lectures"]
    recorded, own = json.loads((folder / "nvml.json").read_text("utf-8")), lectures[lecture]
    moments = [moment for moment in recorded["timeline"] if moment["t"] <= own["end"]]
    lasted = [moment for moment in moments if moment["t"] >= own["start"]]
    held = {pid: [held_bytes(moment, pid) for moment in lasted] for pid in pids(lasted)}
    mine = held.pop(own["pid"], [0])
    first_own = next((number for number, size in enumerate(mine) if size), len(mine))
    use = DeviceUse(
        device=Device(
            index=recorded["device"]["index"],
            name=recorded["device"]["name"],
            total_bytes=recorded["device"]["total"] * MIB,
        ),
        used=measured(max(mine)),
        before_bytes=[moment["used"] for moment in moments if moment["t"] <= own["start"]][-1] * MIB,
        peak_used_bytes=max(moment["used"] for moment in lasted) * MIB,
        others_peak_bytes=max(sum(sizes) for sizes in zip(*held.values(), strict=True)),
        is_shared=True,
        holders=tuple(
            holder_of(lectures, pid, sizes, own, was_there_first=any(sizes[:first_own])) for pid, sizes in held.items()
        ),
    )
    stderr = (own["stderr_tail"],) if "stderr_tail" in own else ()
    return made_evidence(
        lecture=lecture,
        cell_number=own.get("cell"),
        signal=own["signal"],
        stderr_tail=stderr,
        devices=(use,),
        session_kernel_count=len(lectures),
        **changes,
    )


def pids(moments):
    return dict.fromkeys(process["pid"] for moment in moments for process in moment["procs"])


def held_bytes(moment, pid):
    return sum(process["used"] for process in moment["procs"] if process["pid"] == pid) * MIB


def holder_of(lectures, pid, sizes, own, *, was_there_first):
    name, lecture = next((name, lecture) for name, lecture in lectures.items() if lecture["pid"] == pid)
    has_ended = lecture["end"] <= own["start"]
    return DeviceHolder(
        pid=pid,
        used_bytes=max(sizes),
        kind=HolderKind.ENDED_LECTURE if has_ended else HolderKind.RUNNING_LECTURE,
        lecture=name,
        was_there_first=was_there_first,
        ended_seconds=own["start"] - lecture["end"] if has_ended else None,
        was_killed=lecture.get("killed", False),
    )


def measured(size_bytes):
    return Measurement(metric=Metric.GPU_USED, value=size_bytes, method=Method.SAMPLED, interval_seconds=0.1)


def check(evidence, kind, headline, *, lines=None, advice=None):
    cause = diagnose(evidence)
    assert (cause.kind, cause.headline) == (kind, headline)
    if lines is not None:
        assert cause.evidence == lines
    if advice is not None:
        assert cause.advice == advice


PREALLOCATE = "set XLA_PYTHON_CLIENT_PREALLOCATE=false for the kernels: each then takes memory when it needs it"
THIRDS = (
    "XLA_PYTHON_CLIENT_MEM_FRACTION=0.30{}: 3 kernels with 4608 MiB each, and 512 MiB for the CUDA context of each, "
    "fit into 15360 MiB"
)
SHARE = (PREALLOCATE, f"or {THIRDS.format('')}", "or run GPU lectures one at a time")
LEFT = (
    "end pid 201 (kill 201), once a look has shown that it is still the same",
    "or wait until that memory is back before the next lecture starts",
)
ELSEWHERE = "choose another device, if there is one, with CUDA_VISIBLE_DEVICES, or wait until {} has ended"
LESS = (
    "have the cell need less memory (smaller batches, float32, arrays deleted as soon as they are done with), "
    "or take a card with more"
)
HALVES = "compute that batch in halves, join the results along the batch axis, and keep the split"
STDERR = "Check failed: allocation of 2684354560 bytes: RESOURCE_EXHAUSTED"


def test_the_loser_of_a_race_for_the_card_is_told_who_had_reserved_it():
    check(
        read_case("E01-preallocation-race", "second.md"),
        CauseKind.PREALLOCATION_RACE,
        (
            "GPU preallocation race: when it started, first.md already held 11305 of 15360 MiB (74 %, JAX's default "
            "share); second.md got 3422 MiB and aborted in cell 7"
        ),
        lines=(
            "first.md: its share is what a JAX process reserves, whatever it needs",
            "GPU 0 (fake-T4): 15360 MiB in all; in use: 3 MiB before the run, at most 14731 MiB while it lasted",
            "this run: 3422 MiB",
            "first.md (pid 101), running: 11305 MiB, there before this run's processes",
            f"stderr: {STDERR}",
        ),
        advice=SHARE,
    )


def test_a_leftover_is_no_race():
    check(
        read_case("E04-leftover-holder", "next.md"),
        CauseKind.LEFTOVER_HOLDER,
        (
            "leftover holder of GPU memory: 5000 MiB are still held by pid 201, the kernel of slow.md that was killed "
            "1 s before this run began; next.md got 10000 of 15360 MiB and aborted"
        ),
        lines=(
            "its last words do not speak of memory; that it lacked some is concluded from the full card",
            "GPU 0 (fake-T4): 15360 MiB in all; in use: 5003 MiB before the run, at most 15003 MiB while it lasted",
            "this run: 10000 MiB",
            (
                "pid 201, the kernel of slow.md that was killed 1 s before this run began: 5000 MiB, "
                "there before this run's processes"
            ),
        ),
        advice=LEFT,
    )


# Others of their kind: a card of 15,360 MiB, and a lecture that asks it for 2.5 GiB in its seventh cell


def card(run_mib, *holders, before_mib=3, index=0, **changes):
    """Make a device; what was in use at most is what all held, where nothing else is said."""
    in_use = run_mib + sum((holder.used_bytes or 0) // MIB for holder in holders)
    use = DeviceUse(
        device=Device(index=index, name="fake-T4", total_bytes=15360 * MIB),
        used=measured(run_mib * MIB),
        before_bytes=before_mib * MIB,
        peak_used_bytes=in_use * MIB,
        others_peak_bytes=0 if not holders else None,
        holders=holders,
    )
    return replace(use, **changes)


def holder(pid, used_mib, kind, lecture="", *, was_there_first=True, **changes):
    size = None if used_mib is None else used_mib * MIB
    return DeviceHolder(
        pid=pid, used_bytes=size, kind=kind, lecture=lecture, was_there_first=was_there_first, **changes
    )


def running(used_mib, *, lecture="first.md", pid=101, **changes):
    return holder(pid, used_mib, HolderKind.RUNNING_LECTURE, lecture, **changes)


def leftover(used_mib, pid=201, **changes):
    return holder(pid, used_mib, HolderKind.ENDED_LECTURE, "slow.md", **changes)


def foreign(used_mib, pid=4242, **changes):
    return holder(pid, used_mib, HolderKind.FOREIGN, **changes)


ABORTED = made_evidence(
    lecture="second.md", cell_number=7, line=120, signal=6, stderr_tail=(STDERR,), session_kernel_count=3
)
SILENT = changed(ABORTED, stderr_tail=())
XLA_TEXT = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate {} bytes."
REFUSED = changed(SILENT, signal=None, error=CellError(name="XlaRuntimeError", value=XLA_TEXT.format(2684354560)))
UNKNOWN_RISE = Measurement(metric=Metric.GPU_USED, value=0, high=900 * MIB, method=Method.BRACKET)
DEFAULT_SHARE = "already held 11305 of 15360 MiB (74 %, JAX's default share)"
WHEN_STARTED = "GPU preallocation race: when it started,"
AT = "in cell 7, line 120"
PLACE = " (code cell 7, line 120)"
ABORT = "kernel aborted (SIGABRT) in code cell 7, line 120"
ASKED = "asked 2.68 GB (2.5 GiB)"
GOT_REFUSED = f"was refused a request of 2.68 GB (2.5 GiB) {AT}"


def raising(name, value, **changes):
    return changed(REFUSED, error=CellError(name=name, value=value), **changes)


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


def test_processes_that_cannot_be_seen_are_not_guessed_at():
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


# What the lecture's own process held

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
def test_a_fragmented_pool_is_claimed_as_far_as_the_figures_go(changes, headline):
    check(
        replace(BATCH, devices=(H100,), allocators=(replace(SPLIT, **changes),)),
        CauseKind.FRAGMENTED_POOL,
        f"fragmented GPU pool: {headline}{NOT_THE_LECTURE}{PLACE}",
    )


def test_figures_from_before_the_cell_prove_less():
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


def test_a_pool_that_had_its_whole_share_lost_nothing_to_others():
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


TORCH = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 14.58 GiB of which 1.00 GiB is "
    "free. Including non-PyTorch memory, this process has 13.50 GiB memory in use. Of the allocated memory {} GiB is "
    "allocated by PyTorch, and {} GiB is reserved by PyTorch but unallocated."
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
CUPY = (
    "Out of memory allocating 805,306,368 bytes "
    "(allocated so far: 536,870,912 bytes, limit set to: 1,073,741,824 bytes)."
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


# The device itself

CODE_FAILED = (
    "GPU code of the lecture or of a library failed; CUDA_LAUNCH_BLOCKING=1 has the traceback show the call",
    "nothing more runs on the device in this kernel after it",
)
FAULTY = ("the card or its driver is at fault: the system's log (dmesg, lines NVRM: Xid) says more",)
MISSING = (
    "nvidia-smi shows whether the machine (and the container) sees a device, and which CUDA its driver serves",
    "the library's CUDA must not be newer than that; without a device, choose the CPU (JAX_PLATFORMS=cpu)",
)


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        (
            "XlaRuntimeError",
            "INTERNAL: CUDA error: Failed to synchronize: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access",
            CODE_FAILED,
        ),
        ("torch.AcceleratorError", "CUDA error: device-side assert triggered", CODE_FAILED),
        ("RuntimeError", "CUDA error: an illegal memory access was encountered", CODE_FAILED),
        ("RuntimeError", "CUDA error: no kernel image is available for execution on the device", ()),
        ("JaxRuntimeError", "INTERNAL: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered", FAULTY),
        ("NVMLError", "GPU is lost", FAULTY),
        (
            "CUDARuntimeError",
            "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
            MISSING,
        ),
        ("CUDARuntimeError", "cudaErrorNoDevice: no CUDA-capable device is detected", MISSING),
        ("RuntimeError", "No CUDA GPUs are available", MISSING),
        (
            "RuntimeError",
            "Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU devices.",
            MISSING,
        ),
        ("ImportError", "libcuda.so.1: cannot open shared object file: No such file or directory", MISSING),
        ("CudaSupportError", "Error at driver init: CUDA driver library cannot be found.", MISSING),
        ("CudaAPIError", "[700] Call to cuMemcpyDtoH results in CUDA_ERROR_UNKNOWN", ()),
        (
            "RuntimeError",
            (
                "Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are present. "
                "Platforms present are: cpu"
            ),
            MISSING,
        ),
        ("NVMLError_LibRmVersionMismatch", "RM has detected an NVML/RM version mismatch.", MISSING),
        ("NVMLError_DriverNotLoaded", "Driver Not Loaded", MISSING),
        ("XlaRuntimeError", "INTERNAL: no kernel image is available for execution on the device", ()),
    ],
)
def test_failures_of_the_driver_are_not_for_want_of_memory(name, value, advice):
    check(
        raising(name, value, devices=(card(3422, running(11305)),)),
        CauseKind.DRIVER_ERROR,
        f"GPU driver error: {name}: {value}{PLACE}",
        lines=(),
        advice=advice,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ValueError", "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"),
        ("ValueError", XLA_TEXT.format(2684354560)),
        ("ValueError", TORCH.format("9.20", "3.90")),
        ("RuntimeError", "no CUDA device today, sorry: the GPU is lost on students"),
        ("AssertionError", "libcuda.so.1: cannot open shared object file"),
        ("ImportError", "libcudnn_graph.so.9: cannot open shared object file: No such file or directory"),
        ("RuntimeError", "this is how to read CUDA error: unspecified launch failure"),
        ("RuntimeError", "of CUDA_ERROR_LAUNCH_FAILED we speak next week"),
    ],
)
def test_what_a_lecture_raises_itself_is_no_claim(name, value):
    check(
        raising(name, value, devices=(card(3422, running(11305)),)),
        CauseKind.CELL_ERROR,
        f"{name}: {value}{PLACE}",
        advice=(),
    )


@pytest.mark.parametrize(
    ("signal", "ended", "text", "advice"),
    [
        (6, "aborted (SIGABRT)", "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", CODE_FAILED),
        (11, "crashed (SIGSEGV)", "NVRM: Xid (PCI:0000:00:1e): 79, GPU has fallen off the bus.", FAULTY),
        (6, "aborted (SIGABRT)", "uncorrectable ECC error encountered", FAULTY),
    ],
)
def test_last_words_about_the_driver(signal, ended, text, advice):
    stderr = ("W bfc.cc:1] ran Out of memory, this is not a failure", f"F0 event.cc:19] status: {text}")
    check(
        changed(SILENT, signal=signal, stderr_tail=stderr, devices=(card(3422, running(11305)),)),
        CauseKind.DRIVER_ERROR,
        f"GPU driver error: kernel {ended} in code cell 7, line 120; {text}",
        lines=tuple(f"stderr: {line}" for line in stderr),
        advice=advice,
    )


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        (("CUDA_ERROR_LAUNCH_FAILED", STDERR), CauseKind.PREALLOCATION_RACE),
        (("failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",), None),
        (("Could not load libcuda.so.1: cannot open shared object file",), None),
    ],
)
def test_last_words_that_do_not_say_the_driver_ended_it(stderr, kind):
    evidence = changed(SILENT, stderr_tail=stderr, devices=(card(3422, running(11305)) if kind else card(0),))
    assert diagnose(evidence).kind is (kind or CauseKind.NATIVE_CRASH)


def test_a_kill_says_nothing_of_the_device():
    evidence = changed(SILENT, signal=9, devices=(card(3422, running(11305)),))
    assert diagnose(evidence) == diagnose(replace(evidence, devices=()))


# Whatever is read

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
def test_with_words_the_request_must_not_have_fitted(free_mib, kind):
    use = card(15360 - 3000 - free_mib, leftover(3000))
    assert diagnose(replace(ABORTED, devices=(use,))).kind is CauseKind[kind]


@pytest.mark.parametrize(("used_mib", "kind"), [(2560, "LEFTOVER_HOLDER"), (2559, "DEVICE_OUT_OF_MEMORY")])
def test_a_leftover_must_have_made_the_difference(used_mib, kind):
    use = card(15360 - used_mib, leftover(used_mib))
    assert diagnose(replace(REFUSED, devices=(use,))).kind is CauseKind[kind]
