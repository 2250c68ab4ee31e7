"""Kills for memory, by the system and at the cap."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.made_records import changed, made_evidence
from support.roomy_evidence import BY_CAP, BY_CONTAINER, BY_MACHINE, ROOMY, ROOMY_LINES, V2, check

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.evidence import OomKill, OomScope, WatchdogReason, WatchdogStop
from pytest_lecturecheck.units import GIB, MIB

KILLED = changed(ROOMY, signal=9)

BY_SLURM = OomKill(scope=OomScope.SCHEDULER, before=4, after=5, limit_bytes=8 * GIB, where=V2)

BY_OUTER = OomKill(scope=OomScope.OUTER, before=0, after=1, where=V2)

OOM_KILLED = "kernel was killed by the OOM killer in code cell 2, line 9: "

MORE_CAP = (
    "have the cell need less memory, or give it more: memory-cap in its front matter where that is set, else "
    "--lecture-memory-cap SIZE"
)

MORE_DECLARED = "have the cell need less memory, or declare more: the cap is what the package declares"

LESS_MEMORY = "have the cell need less memory, run fewer lectures at once, or take a larger machine"


@pytest.mark.parametrize(
    ("kill", "headline", "line", "advice"),
    [
        (
            BY_CAP,
            f"{OOM_KILLED}the memory cap of this run, 4 GiB, was reached",
            f"OOM kills counted 0 -> 1 ({V2})",
            MORE_CAP,
        ),
        (
            BY_CONTAINER,
            (
                "kernel was killed by the OOM killer in code cell 2, line 9: "
                "the container's memory limit, 512 MiB, was reached"
            ),
            f"OOM kills counted 0 -> 1 ({V2})",
            "have the cell need less memory, or give the container more",
        ),
        (
            BY_SLURM,
            "kernel was killed by the OOM killer in code cell 2, line 9: Slurm's memory limit, 8 GiB, was reached",
            f"OOM kills counted 4 -> 5 ({V2})",
            "have the cell need less memory, or ask Slurm for more (--mem)",
        ),
        (
            BY_OUTER,
            (
                "kernel was killed by the OOM killer in code cell 2, line 9: "
                "a memory limit outside the session's own group was reached, or the machine's memory"
            ),
            f"OOM kills counted 0 -> 1 ({V2})",
            LESS_MEMORY,
        ),
        (
            BY_MACHINE,
            (
                "kernel was killed in code cell 2, line 9, probably by the OOM killer: "
                "the machine counted an OOM kill meanwhile"
            ),
            "OOM kills counted 40 -> 41 (/proc/vmstat oom_kill)",
            LESS_MEMORY,
        ),
        (
            replace(BY_CONTAINER, limit_bytes=None, where=""),
            "kernel was killed by the OOM killer in code cell 2, line 9: the container's memory limit was reached",
            "OOM kills counted 0 -> 1",
            "have the cell need less memory, or give the container more",
        ),
    ],
)
def test_a_counter_that_rose_says_whose_limit_it_was(kill, headline, line, advice):
    evidence = changed(KILLED, oom_kills=(kill,))
    check(evidence, CauseKind.OOM_KILLED, headline, lines=(line, *ROOMY_LINES), advice=(advice,))


def test_the_closest_limit_is_named():
    check(
        changed(KILLED, oom_kills=(BY_MACHINE, BY_CONTAINER, BY_CAP)),
        CauseKind.OOM_KILLED,
        "kernel was killed by the OOM killer in code cell 2, line 9: the memory cap of this run, 4 GiB, was reached",
        lines=(
            "OOM kills counted 40 -> 41 (/proc/vmstat oom_kill)",
            f"OOM kills counted 0 -> 1 ({V2})",
            f"OOM kills counted 0 -> 1 ({V2})",
            *ROOMY_LINES,
        ),
    )


def test_the_cap_is_named_with_the_size_that_was_set():
    evidence = changed(
        KILLED, oom_kills=(replace(BY_CAP, limit_bytes=None),), cap_bytes=3 * GIB, cap_method="cgroup v1"
    )
    check(
        evidence,
        CauseKind.OOM_KILLED,
        "kernel was killed by the OOM killer in code cell 2, line 9: the memory cap of this run, 3 GiB, was reached",
        lines=(
            f"OOM kills counted 0 -> 1 ({V2})",
            *ROOMY_LINES,
            "memory cap of this run 3 GiB, held by cgroup v1",
        ),
    )


def test_a_kill_that_a_wrapper_reports_and_one_before_the_start():
    text = "the container's memory limit, 512 MiB, was reached"
    check(
        changed(ROOMY, exit_code=137, oom_kills=(BY_CONTAINER,)),
        CauseKind.OOM_KILLED,
        f"kernel was killed by the OOM killer in code cell 2, line 9: {text}",
    )
    check(
        made_evidence(ready=False, signal=9, oom_kills=(BY_CONTAINER,)),
        CauseKind.OOM_KILLED,
        f"kernel was killed by the OOM killer before the kernel was ready: {text}",
    )
    check(
        changed(KILLED, cell_number=None, line=None, oom_kills=(BY_CONTAINER,)),
        CauseKind.OOM_KILLED,
        f"kernel was killed by the OOM killer while no cell was running: {text}",
    )


LOG_GROUP = "Memory cgroup out of memory: Killed process 4321 (python) total-vm:9000kB"

LOG_MACHINE = "Out of memory: Killed process 4321 (python) total-vm:9000kB"


@pytest.mark.parametrize(
    ("kills", "line", "text"),
    [
        ((), LOG_GROUP, "a memory limit of its control group was reached"),
        ((), LOG_MACHINE, "the machine ran out of memory"),
        ((BY_MACHINE,), LOG_MACHINE, "the machine ran out of memory"),
        ((BY_OUTER,), LOG_MACHINE, "the machine ran out of memory"),
        ((), "Killed process 4321 (python) total-vm:9000kB", "the kernel's log says so"),
        ((BY_CONTAINER,), LOG_GROUP, "the container's memory limit, 512 MiB, was reached"),
    ],
)
def test_the_log_of_the_system_is_proof(kills, line, text):
    cause = diagnose(changed(KILLED, oom_kills=kills, kernel_log=(line,)))
    assert cause.kind is CauseKind.OOM_KILLED
    assert cause.headline == f"kernel was killed by the OOM killer in code cell 2, line 9: {text}"
    assert f"kernel log: {line}" in cause.evidence


@pytest.mark.parametrize("kills", [(), (replace(BY_CONTAINER, before=1),)])
def test_a_kill_without_a_record(kills):
    check(
        changed(KILLED, oom_kills=kills),
        CauseKind.KILLED,
        "kernel was killed from outside (SIGKILL) in code cell 2, line 9; no record of memory shortage",
        advice=("the system's log (dmesg, journalctl -k) or the scheduler's says who killed it",),
    )


@pytest.mark.parametrize(
    ("changes", "kind", "headline"),
    [
        ({"signal": 6}, CauseKind.NATIVE_CRASH, "kernel aborted (SIGABRT) in code cell 2, line 9"),
        ({"signal": 11}, CauseKind.NATIVE_CRASH, "kernel crashed (SIGSEGV) in code cell 2, line 9"),
        ({"exit_code": 3}, CauseKind.EXITED, "kernel ended with exit code 3 in code cell 2, line 9"),
    ],
)
def test_a_counter_makes_no_oom_kill_of_other_ends(changes, kind, headline):
    check(
        changed(ROOMY, oom_kills=(BY_CONTAINER,), **changes),
        kind,
        headline,
        lines=(f"OOM kills counted 0 -> 1 ({V2})", *ROOMY_LINES),
    )


CAPPED = changed(ROOMY, signal=9, stopped_at_cap=True, cap_bytes=4 * GIB, cap_method="watchdog")

CAP_LINE = "memory cap of this run 4 GiB, held by watchdog"


def test_a_run_that_was_stopped_at_its_cap():
    check(
        changed(CAPPED, peak_footprint_bytes=int(4.1 * GIB), oom_kills=(BY_MACHINE,)),
        CauseKind.STOPPED_AT_CAP,
        "stopped at the memory cap in code cell 2, line 9: its footprint rose to 4.1 GiB, the cap is 4 GiB",
        lines=(
            "OOM kills counted 40 -> 41 (/proc/vmstat oom_kill)",
            "peak footprint of the cell 4.1 GiB",
            *ROOMY_LINES[1:],
            CAP_LINE,
        ),
        advice=(MORE_CAP,),
    )
    check(
        made_evidence(ready=False, signal=9, stopped_at_cap=True, cap_bytes=4 * GIB),
        CauseKind.STOPPED_AT_CAP,
        "stopped at the memory cap before the kernel was ready: the cap is 4 GiB",
        lines=("memory cap of this run 4 GiB",),
    )


def stopped(reason, footprint_bytes, available_bytes=None):
    stop = WatchdogStop(reason=reason, footprint_bytes=footprint_bytes, available_bytes=available_bytes)
    return changed(CAPPED, watchdog_stop=stop, peak_footprint_bytes=3 * GIB, last_footprint_bytes=3 * GIB)


def test_a_run_that_was_stopped_for_the_machine():
    check(
        stopped(WatchdogReason.MACHINE, 3 * GIB, 60 * MIB),
        CauseKind.STOPPED_AT_CAP,
        (
            "stopped before the machine ran out of memory in code cell 2, line 9: "
            "its footprint was 3 GiB, 60 MiB was left on the machine"
        ),
        advice=(LESS_MEMORY,),
    )


@pytest.mark.parametrize(("footprint_bytes", "text"), [(int(4.2 * GIB), "rose to 4.2 GiB"), (4 * GIB, "was 4 GiB")])
def test_the_watchdog_says_that_the_cap_was_the_reason(footprint_bytes, text):
    """Later readings may be below the cap; with 20 GiB free the machine was never the reason."""
    check(
        stopped(WatchdogReason.CAP, footprint_bytes),
        CauseKind.STOPPED_AT_CAP,
        f"stopped at the memory cap in code cell 2, line 9: its footprint {text}, the cap is 4 GiB",
        advice=(MORE_CAP,),
    )


def test_without_a_recorded_reason_none_is_guessed():
    check(
        changed(CAPPED, peak_footprint_bytes=3 * GIB, last_footprint_bytes=3 * GIB),
        CauseKind.STOPPED_AT_CAP,
        "stopped by the watchdog in code cell 2, line 9: its footprint was 3 GiB, the cap is 4 GiB",
        advice=(MORE_CAP,),
    )


def test_a_cap_that_is_declared_is_raised_by_declaring_more():
    cause = diagnose(changed(KILLED, oom_kills=(BY_CAP,), cap_bytes=4 * GIB, declared_memory_bytes=4 * GIB))
    assert cause.advice == (MORE_DECLARED,)
