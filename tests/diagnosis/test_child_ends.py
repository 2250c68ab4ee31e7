"""Errors of pools whose worker process ended."""

from __future__ import annotations

import pytest
from support.made_records import changed
from support.roomy_evidence import BY_CONTAINER, BY_MACHINE, DIED, PLACE, POOL, ROOMY, V2, check

from pytest_lecturecheck.diagnosis import CauseKind
from pytest_lecturecheck.model.cell_run import CellError

LOKY = (
    "A worker process managed by the executor was unexpectedly terminated. This could be caused by a segmentation "
    "fault while calling the function or by an excessive memory usage causing the Operating System to kill the "
    "worker.\n\n"
    "The exit codes of the workers are {{{}}}"
)

TORCH = "DataLoader worker (pid 55) is killed by signal: {}. "

WITHOUT_WORKERS = ("the same work in the kernel itself, without worker processes, shows what goes wrong",)


def raised(name, value, **changes):
    return changed(ROOMY, error=CellError(name=name, value=value), **changes)


def test_a_spawned_child_that_lacks_what_the_notebook_defines():
    said = ("Traceback (most recent call last):", "AttributeError: Can't get attribute 'f' on <module '__main__'>")
    check(
        raised("BrokenProcessPool", POOL, stderr_tail=said),
        CauseKind.CHILD_ENDED,
        f"BrokenProcessPool: a child process could not find 'f', which the notebook itself defines {PLACE}: "
        "a process that is started afresh does not have it",
        advice=("define it in a file beside the lecture and import it, or use a pool that copies it (joblib, fork)",),
    )


@pytest.mark.parametrize(
    ("name", "value", "how"),
    [
        ("TerminatedWorkerError", LOKY.format("SIGKILL(-9)"), "was ended by SIGKILL"),
        (
            "joblib.externals.loky.process_executor.TerminatedWorkerError",
            LOKY.format("UNKNOWN(255)"),
            "ended abruptly",
        ),
        ("BrokenProcessPool", POOL, "ended abruptly"),
        ("RuntimeError", TORCH.format("Killed"), "was ended by SIGKILL"),
        ("CalledProcessError", DIED, "was ended by SIGKILL"),
    ],
)
def test_a_child_that_ended_is_not_the_kernel(name, value, how):
    short = name.rsplit(".", 1)[-1]
    evidence = raised(name, value)
    check(
        evidence,
        CauseKind.CHILD_ENDED,
        f"{short}: a child process {how}, not the kernel {PLACE}; no record of memory shortage",
        advice=WITHOUT_WORKERS,
    )
    check(
        changed(evidence, oom_kills=(BY_CONTAINER,)),
        CauseKind.CHILD_OOM_KILLED,
        f"{short}: a child process was killed by the OOM killer, not the kernel {PLACE}: "
        "the container's memory limit, 512 MiB, was reached",
        advice=("fewer worker processes (n_jobs, max_workers) need less memory",),
    )
    check(
        changed(evidence, oom_kills=(BY_MACHINE,)),
        CauseKind.CHILD_OOM_KILLED,
        f"{short}: a child process was probably killed by the OOM killer, not the kernel {PLACE}: "
        "the machine counted an OOM kill meanwhile",
    )


@pytest.mark.parametrize(
    ("name", "value", "signal"),
    [
        ("TerminatedWorkerError", LOKY.format("SIGSEGV(-11)"), "SIGSEGV"),
        ("RuntimeError", TORCH.format("Segmentation fault"), "SIGSEGV"),
        ("RuntimeError", TORCH.format("Bus error"), "SIGBUS"),
        ("CalledProcessError", "Command 'a' died with <Signals.SIGABRT: 6>.", "SIGABRT"),
    ],
)
def test_a_child_that_crashed_was_not_killed_for_memory(name, value, signal):
    for kills in ((), (BY_CONTAINER,)):
        check(
            raised(name, value, oom_kills=kills),
            CauseKind.CHILD_ENDED,
            f"{name}: a child process was ended by {signal}, not the kernel {PLACE}",
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BrokenProcessPool", "A task has failed to un-serialize. Please ensure that the arguments are all picklable."),
        ("ValueError", "the exit codes of the workers are {SIGKILL(-9)}"),
        ("CalledProcessError", "Command 'a' returned non-zero exit status 1."),
    ],
)
def test_errors_that_say_nothing_of_a_child_that_was_ended(name, value):
    check(
        raised(name, value, oom_kills=(BY_CONTAINER,)),
        CauseKind.CELL_ERROR,
        f"{name}: {value} {PLACE}",
        lines=(f"OOM kills counted 0 -> 1 ({V2})",),
    )
