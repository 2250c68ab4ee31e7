"""Ends that a batch scheduler is the cause of."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.made_records import changed, made_evidence

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import OomKill, OomScope
from pytest_lecturecheck.model.run_conditions import SchedulerFacts
from pytest_lecturecheck.units import MIB

STEP = SchedulerFacts(
    name="Slurm",
    step="812.3",
    state="OUT_OF_MEMORY",
    exit="0:125",
    memory_bytes=300 * MIB,
    max_rss_bytes=85 * MIB,
    source="sacct",
)
KILLED = made_evidence(cell_number=2, line=9, signal=9, scheduler=STEP)
LINE = "Slurm step 812.3: state OUT_OF_MEMORY, exit 0:125, limit 300 MiB, MaxRSS 85 MiB (sacct)"


def with_state(state, **changes):
    return changed(KILLED, scheduler=replace(STEP, state=state), **changes)


def test_a_step_over_its_memory():
    machine = OomKill(scope=OomScope.MACHINE, before=3, after=4, where="/proc/vmstat oom_kill")
    cause = diagnose(changed(KILLED, oom_kills=(machine,)))
    assert cause.kind is CauseKind.OOM_KILLED
    assert cause.headline == (
        "kernel was killed by the OOM killer in code cell 2, line 9: Slurm's memory limit of step 812.3, 300 MiB, was "
        "reached"
    )
    assert cause.evidence == (LINE, "OOM kills counted 3 -> 4 (/proc/vmstat oom_kill)")
    (advice,) = cause.advice
    assert advice == (
        "have the cell need less memory, or give its step more: its budget, --lecture-memory-cap SIZE, [slurm] "
        "mem-default"
    )


def test_a_step_over_its_memory_before_the_kernel_was_ready():
    bare = SchedulerFacts(name="Slurm", state="OUT_OF_MEMORY")
    cause = diagnose(made_evidence(signal=9, ready=False, scheduler=bare))
    assert cause.headline == (
        "kernel was killed by the OOM killer before the kernel was ready: Slurm's memory limit of its step was reached"
    )
    assert cause.evidence == ("Slurm: state OUT_OF_MEMORY",)


@pytest.mark.parametrize(
    ("state", "how"),
    [
        ("TIMEOUT", "ended at its time limit"),
        ("DEADLINE", "ended at its deadline"),
        ("NODE_FAIL", "ended because its node failed"),
        ("PREEMPTED", "ended in favour of another job"),
        ("CANCELLED", "cancelled"),
    ],
)
def test_other_ends_of_a_step(state, how):
    cause = diagnose(with_state(state))
    assert cause.kind is CauseKind.ENDED_BY_SCHEDULER
    assert cause.headline == f"kernel was ended by Slurm in code cell 2, line 9: step 812.3 was {how}"
    assert cause.evidence[0] == LINE.replace("OUT_OF_MEMORY", state)
    assert len(cause.advice) == 1


@pytest.mark.parametrize("state", ["", "FAILED", "COMPLETED"])
def test_states_that_explain_nothing(state):
    assert diagnose(with_state(state)).kind is CauseKind.KILLED


@pytest.mark.parametrize("state", ["OUT_OF_MEMORY", "CANCELLED"])
def test_what_we_stopped_ourselves_is_not_the_scheduler_s(state):
    assert diagnose(with_state(state, stopped_at_cap=True)).kind is CauseKind.STOPPED_AT_CAP
    assert (
        diagnose(with_state(state, timeout_seconds=2.0, timeout_kind="cell")).kind is not CauseKind.ENDED_BY_SCHEDULER
    )
    error = CellError(name="ValueError", value="no")
    assert diagnose(with_state(state, signal=None, error=error)).kind is CauseKind.CELL_ERROR


def test_text_of_a_scheduler_is_made_fit_for_a_terminal():
    facts = replace(STEP, step="1\x1b[31m\n2")
    assert diagnose(changed(KILLED, scheduler=facts)).evidence[0].startswith("Slurm step 1 2: state")
