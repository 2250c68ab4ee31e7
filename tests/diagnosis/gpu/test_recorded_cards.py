"""Causes from recorded readings of a card."""

from __future__ import annotations

import json
from pathlib import Path

from support.card_evidence import LEFT, SHARE, STDERR, check, measured
from support.made_records import made_evidence

from pytest_lecturecheck.diagnosis import CauseKind
from pytest_lecturecheck.model.device import Device, DeviceHolder, DeviceUse, HolderKind
from pytest_lecturecheck.units import MIB

CASES = Path(__file__).parents[2] / "cases"


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


def test_the_loser_of_a_race_learns_who_reserved_the_card():
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
