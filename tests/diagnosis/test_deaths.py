"""What kernels that ended are reported as."""

from __future__ import annotations

import pytest
from support.made_records import changed, made_evidence
from support.roomy_evidence import ROOMY, ROOMY_LINES, check

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.units import GIB

COMPILED = (
    "compiled code crashed: try another version of the package that the cell calls; "
    "lecturecheck explain has the command that saves the cell, to run it alone"
)


@pytest.mark.parametrize(
    ("changes", "kind", "headline"),
    [
        ({"exit_code": 3}, CauseKind.EXITED, "kernel ended with exit code 3 in code cell 2, line 9"),
        ({"exit_code": 0}, CauseKind.EXITED, "kernel ended with exit code 0 in code cell 2, line 9"),
        (
            {"exit_code": 3, "cell_number": None, "line": None},
            CauseKind.EXITED,
            "kernel ended with exit code 3 while no cell was running",
        ),
        (
            {"exit_code": 137},
            CauseKind.EXITED,
            "kernel ended with exit code 137 (a wrapper's way to report SIGKILL) in code cell 2, line 9",
        ),
        (
            {"exit_code": -1073741819},
            CauseKind.EXITED,
            "kernel ended with exit code -1073741819 (0xC0000005) in code cell 2, line 9",
        ),
        ({"signal": 8}, CauseKind.NATIVE_CRASH, "kernel crashed (SIGFPE) in code cell 2, line 9"),
        ({"signal": 15}, CauseKind.ENDED_BY_SIGNAL, "kernel was ended by SIGTERM in code cell 2, line 9"),
        ({"signal": 34}, CauseKind.ENDED_BY_SIGNAL, "kernel was ended by signal 34 in code cell 2, line 9"),
        ({}, CauseKind.UNKNOWN, "the run ended in code cell 2, line 9, and nothing observed says why"),
    ],
)
def test_deaths_state_what_was_observed_and_claim_nothing_about_memory(changes, kind, headline):
    cause = check(changed(ROOMY, stderr_tail=("last words",), **changes), kind, headline)
    assert cause.evidence == (*ROOMY_LINES, "stderr: last words")
    assert cause.advice == ()


@pytest.mark.parametrize(
    ("signal", "headline", "advice"),
    [
        (
            4,
            "kernel crashed (SIGILL) in code cell 2, line 9",
            "a library was built for a newer processor than this one",
        ),
        (
            7,
            "kernel crashed (SIGBUS) in code cell 2, line 9",
            "a mapped file or /dev/shm was too small for what was written to it",
        ),
        (
            24,
            "kernel was ended by SIGXCPU in code cell 2, line 9",
            "the limit on CPU time (ulimit -t) was reached",
        ),
        (6, "kernel aborted (SIGABRT) in code cell 2, line 9", COMPILED),
        (11, "kernel crashed (SIGSEGV) in code cell 2, line 9", COMPILED),
    ],
)
def test_signals_that_say_what_was_wrong(signal, headline, advice):
    cause = diagnose(changed(ROOMY, signal=signal))
    assert (cause.headline, cause.advice) == (headline, (advice,))


KILLED = "kernel was killed from outside (SIGKILL) in code cell 2, line 9; no record of memory shortage"

WHO_KILLED = "the system's log (dmesg, journalctl -k) or the scheduler's says who killed it"


def test_a_kill_is_no_proof_of_exhausted_memory():
    cause = check(changed(ROOMY, signal=9), CauseKind.KILLED, KILLED)
    assert cause.advice == (WHO_KILLED,)
    full = changed(ROOMY, signal=9, last_footprint_bytes=23 * GIB)
    cause = check(full, CauseKind.KILLED, KILLED)
    assert cause.advice == ("memory was close to its limit at the last reading, so look there first", WHO_KILLED)
    assert "last reading 23 GiB, 0.02 s before the end was noticed" in cause.evidence


@pytest.mark.parametrize(
    ("stderr", "text"),
    [
        (
            (
                "E external/alloc.cc:12] pool GPU_0 could not give 2.50GiB; free 1.10GiB",
                "F external/stream.cc:99] Check failed: allocation of 2684354560 bytes: RESOURCE_EXHAUSTED",
            ),
            "the native allocator reported an exhausted GPU pool, asked 2.68 GB (2.5 GiB)",
        ),
        (
            ("terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"),
            "a C++ allocation failed (std::bad_alloc)",
        ),
        (
            ("F pool.cc:7] RESOURCE_EXHAUSTED: Out of memory allocating 33433655952 bytes.",),
            "the native allocator was out of memory, asked 33.4 GB (31.1 GiB)",
        ),
    ],
)
def test_an_abort_with_stderr_about_memory(stderr, text):
    cause = check(
        changed(ROOMY, signal=6, stderr_tail=stderr),
        CauseKind.NATIVE_OUT_OF_MEMORY,
        f"kernel aborted (SIGABRT) in code cell 2, line 9; {text}",
    )
    assert cause.evidence == (*ROOMY_LINES, *(f"stderr: {' '.join(line.split())}" for line in stderr))
    assert bool(cause.advice) == ("GPU" in text)


@pytest.mark.parametrize("changes", [{"signal": 11}, {"exit_code": 1}])
def test_stderr_about_memory_proves_nothing_for_other_ends(changes):
    cause = diagnose(changed(ROOMY, stderr_tail=("std::bad_alloc",), **changes))
    assert cause.kind in {CauseKind.NATIVE_CRASH, CauseKind.EXITED}
    assert "memory" not in cause.headline


@pytest.mark.parametrize(
    ("changes", "kind", "headline"),
    [
        ({"exit_code": 3}, CauseKind.DIED_AT_START, "kernel exited with code 3 before it was ready"),
        ({"signal": 6}, CauseKind.DIED_AT_START, "kernel was ended by SIGABRT before it was ready"),
        ({}, CauseKind.NEVER_READY, "kernel never became ready"),
    ],
)
def test_a_kernel_that_died_at_its_start(changes, kind, headline):
    cause = check(made_evidence(ready=False, stderr_tail=("cannot load libexample.so.3",), **changes), kind, headline)
    assert cause.evidence == ("stderr: cannot load libexample.so.3",)


def test_frames_of_the_kernel_itself_are_left_out_of_stderr():
    packages = "/env/lib/python3.12/site-packages"
    dump = (
        "Fatal Python error: Aborted",
        '  File "/tmp/ipykernel_12/345.py", line 4 in <module>',
        f'  File "{packages}/solver/core.py", line 4 in solve',
        f'  File "{packages}/IPython/core/interactiveshell.py", line 3579 in run_code',
        '  File "/env/lib/python3.12/asyncio/base_events.py", line 645 in run_forever',
        '  File "<lecturecheck agent, replies>", line 63 in execute_request',
        f'  File "{packages}/pytest_lecturecheck/kernel/launchers/fork_server.py", line 471 in <module>',
        '  File "<frozen runpy>", line 88 in _run_code',
        '  File "/home/a/asyncio/lecture.py", line 1 in <module>',
    )
    lines = diagnose(made_evidence(signal=6, cell_number=1, stderr_tail=dump)).evidence
    kept = (dump[0], 'File "a code cell", line 4 of the cell in <module>', dump[2], dump[-1])
    assert [line for line in lines if line.startswith("stderr: ")] == [f"stderr: {line.strip()}" for line in kept]


def test_the_tail_of_stderr_is_bounded_and_clean():
    noisy = made_evidence(
        signal=11, cell_number=1, stderr_tail=(*(f"line {number}" for number in range(50)), "", "\x1b]0;x\x07end")
    )
    assert diagnose(noisy).evidence == (*(f"stderr: line {number}" for number in range(39, 50)), "stderr: end")
