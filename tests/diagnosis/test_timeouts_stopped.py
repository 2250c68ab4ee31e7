"""Whether a cell stopped when interrupted, was starved of CPU, or waited for memory pages."""

from __future__ import annotations

import pytest
from support.made_records import changed
from support.roomy_evidence import BY_CAP, BY_CONTAINER, BY_MACHINE, ROOMY, ROOMY_LINES, check

from pytest_lecturecheck.diagnosis import CauseKind, diagnose

SLOW = changed(
    ROOMY,
    timeout_seconds=2.0,
    timeout_kind="cell",
    wall_seconds=2.0,
    cpu_seconds=0.5,
    core_count=2,
    load_average=8.04,
    stopped_by_interrupt=True,
)

TIMED_OUT = "code cell 2 timed out after 2 s (line 9): "

STOPPED = "; the kernel stopped when interrupted"

NOT_STOPPED = "; the kernel did not stop when interrupted and was killed"


LONGER = "if it needs longer than this, raise the limit: timeout in its front matter, or --lecture-timeout TIME"


@pytest.mark.parametrize(
    ("changes", "kind", "doing"),
    [
        (
            {},
            CauseKind.TIMED_OUT_STARVED,
            "it was probably starved of CPU, load average 8.0 on 2 cores (CPU 25 % of the time)",
        ),
        (
            {"core_count": 1, "cpu_seconds": 0.14},
            CauseKind.TIMED_OUT_STARVED,
            "it was probably starved of CPU, load average 8.0 on 1 core (CPU 7 % of the time)",
        ),
        (
            {"wants_cpu": False},
            CauseKind.TIMED_OUT_WAITING,
            "it was waiting, while other threads of the lecture computed (CPU 25 % of the time)",
        ),
        (
            {"wants_cpu": True, "cpu_seconds": 1.5},
            CauseKind.TIMED_OUT_COMPUTING,
            "it was computing (CPU 75 % of the time)",
        ),
        ({"cpu_seconds": 0.1}, CauseKind.TIMED_OUT_WAITING, "it was waiting (CPU 5 % of the time)"),
        (
            {"load_average": 2.5},
            CauseKind.TIMED_OUT,
            "it was computing for part of the time (CPU 25 % of the time)",
        ),
        (
            {"load_average": None},
            CauseKind.TIMED_OUT,
            "it was computing for part of the time (CPU 25 % of the time)",
        ),
        (
            {"core_count": None},
            CauseKind.TIMED_OUT,
            "it was computing for part of the time (CPU 25 % of the time)",
        ),
    ],
)
def test_a_busy_machine(changes, kind, doing):
    advice = {
        CauseKind.TIMED_OUT_STARVED: ("run fewer lectures at once, or give them longer with --lecture-timeout S",),
        CauseKind.TIMED_OUT_COMPUTING: (LONGER,),
    }
    check(
        changed(SLOW, **changes),
        kind,
        f"{TIMED_OUT}{doing}{STOPPED}",
        lines=ROOMY_LINES,
        advice=advice.get(kind, ()),
    )


CATCHES = ("the cell catches the interrupt: write `except Exception:` instead of a bare `except:`",)

NATIVE = ("most likely one long call of native code, which does not check for interrupts until it returns",)


@pytest.mark.parametrize(
    ("source", "cpu_seconds", "kind", "advice"),
    [
        ("solve(A)", 2.0, CauseKind.TIMED_OUT_UNINTERRUPTIBLE, NATIVE),
        ("try:\n    f()\nexcept Exception:\n    pass", 2.0, CauseKind.TIMED_OUT_UNINTERRUPTIBLE, NATIVE),
        ("try:\n    f()\nexcept:\n    pass", 2.0, CauseKind.TIMED_OUT_UNINTERRUPTIBLE, CATCHES),
        ("try:\n    f()\nexcept (A, KeyboardInterrupt) as e:\n    pass", 2.0, None, CATCHES),
        ("try:\n    f()\n  except BaseException:\n    pass", 0.0, CauseKind.TIMED_OUT_WAITING, CATCHES),
        ("sleep()", 0.0, CauseKind.TIMED_OUT_WAITING, ()),
    ],
)
def test_a_cell_that_does_not_stop_when_interrupted(source, cpu_seconds, kind, advice):
    share = f"it was {'computing' if cpu_seconds else 'waiting'} (CPU {cpu_seconds * 50:.0f} % of the time)"
    check(
        changed(SLOW, source=source, cpu_seconds=cpu_seconds, load_average=0.5, stopped_by_interrupt=False, signal=9),
        kind or CauseKind.TIMED_OUT_UNINTERRUPTIBLE,
        f"{TIMED_OUT}{share}{NOT_STOPPED}",
        advice=advice,
    )


def test_a_bare_except_is_no_matter_where_the_kernel_stopped():
    evidence = changed(SLOW, source="try:\n    f()\nexcept:\n    pass", cpu_seconds=2.0)
    check(evidence, CauseKind.TIMED_OUT_COMPUTING, f"{TIMED_OUT}it was computing (CPU 100 % of the time){STOPPED}")
    assert diagnose(evidence).advice == (LONGER,)


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"timeout_kind": "lecture"}, "total-timeout in its front matter, or --lecture-total-timeout TIME"),
        ({"is_program": True}, "--timeout TIME"),
    ],
)
def test_the_limit_that_was_reached_is_the_one_to_raise(changes, option):
    evidence = changed(SLOW, cpu_seconds=2.0, **changes)
    assert diagnose(evidence).advice == (f"if it needs longer than this, raise the limit: {option}",)


@pytest.mark.parametrize(
    ("kill", "text"),
    [
        (
            BY_CAP,
            (
                "; a process of this run was killed by the OOM killer meanwhile: "
                "the memory cap of this run, 4 GiB, was reached"
            ),
        ),
        (
            BY_CONTAINER,
            (
                "; a process of the session's group was killed by the OOM killer meanwhile: "
                "the container's memory limit, 512 MiB, was reached"
            ),
        ),
        (BY_MACHINE, ""),
    ],
)
def test_a_pool_that_waits_for_a_worker_that_was_killed(kill, text):
    evidence = changed(SLOW, cpu_seconds=0.0, load_average=0.5, oom_kills=(kill,))
    check(
        evidence,
        CauseKind.TIMED_OUT_WAITING,
        f"{TIMED_OUT}it was waiting (CPU 0 % of the time){STOPPED}{text}",
        advice=("multiprocessing.Pool waits forever for a worker that was killed",) if text else (),
    )


def test_swapping():
    check(
        changed(SLOW, major_faults_count=25_000),
        CauseKind.TIMED_OUT_PAGING,
        (
            f"{TIMED_OUT}it was waiting for memory pages to be read back, 25,000 major faults "
            f"(CPU 25 % of the time){STOPPED}"
        ),
        advice=("the machine is short of memory: have the cell need less, or run fewer lectures at once",),
    )
