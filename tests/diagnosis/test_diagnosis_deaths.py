"""What deaths, caps and kills are said to be; on a machine with 24 GiB, most of it free."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_records import changed, made_evidence

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import OomKill, OomScope
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import GIB, MIB

ROOMY = made_evidence(
    cell_number=2,
    line=9,
    peak_footprint_bytes=63 * MIB,
    last_footprint_bytes=61 * MIB,
    last_footprint_age_seconds=0.02,
    available_memory_bytes=20 * GIB,
    limit_memory_bytes=24 * GIB,
    limit_source="RAM",
    swap_bytes=0,
    machine="x86_64",
)
ROOMY_LINES = (
    "peak footprint of the cell 63 MiB",
    "last reading 61 MiB, 0.02 s before the end was noticed",
    "memory of the machine: available 20 GiB; limit 24 GiB, RAM; no swap",
)
KILLED = changed(ROOMY, signal=9)
V2 = "cgroup v2 /box/job memory.events oom_kill"
BY_CAP = OomKill(scope=OomScope.CAP, before=0, after=1, limit_bytes=4 * GIB, where=V2)
BY_CONTAINER = OomKill(scope=OomScope.CONTAINER, before=0, after=1, limit_bytes=512 * MIB, where=V2)
BY_SLURM = OomKill(scope=OomScope.SCHEDULER, before=4, after=5, limit_bytes=8 * GIB, where=V2)
BY_OUTER = OomKill(scope=OomScope.OUTER, before=0, after=1, where=V2)
BY_MACHINE = OomKill(scope=OomScope.MACHINE, before=40, after=41, where="/proc/vmstat oom_kill")
OOM_KILLED = "kernel was killed by the OOM killer in code cell 2, line 9: "
MORE_CAP = (
    "have the cell need less memory, or give it more: memory-cap in its front matter where that is set, else "
    "--lecture-memory-cap SIZE"
)
LESS_MEMORY = "have the cell need less memory, run fewer lectures at once, or take a larger machine"


def check(evidence, kind, headline, *, evidence_lines=None, advice=None):
    cause = diagnose(evidence)
    assert (cause.kind, cause.headline) == (kind, headline)
    if evidence_lines is not None:
        assert cause.evidence == evidence_lines
    if advice is not None:
        assert cause.advice == advice


# Killed for memory


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
    check(evidence, CauseKind.OOM_KILLED, headline, evidence_lines=(line, *ROOMY_LINES), advice=(advice,))


def test_the_closest_limit_is_named():
    check(
        changed(KILLED, oom_kills=(BY_MACHINE, BY_CONTAINER, BY_CAP)),
        CauseKind.OOM_KILLED,
        "kernel was killed by the OOM killer in code cell 2, line 9: the memory cap of this run, 4 GiB, was reached",
        evidence_lines=(
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
        evidence_lines=(
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
        evidence_lines=(f"OOM kills counted 0 -> 1 ({V2})", *ROOMY_LINES),
    )


# Stopped by us


CAPPED = changed(ROOMY, signal=9, stopped_at_cap=True, cap_bytes=4 * GIB, cap_method="watchdog")
CAP_LINE = "memory cap of this run 4 GiB, held by watchdog"


def test_a_run_that_was_stopped_at_its_cap():
    check(
        changed(CAPPED, peak_footprint_bytes=int(4.1 * GIB), oom_kills=(BY_MACHINE,)),
        CauseKind.STOPPED_AT_CAP,
        "stopped at the memory cap in code cell 2, line 9: its footprint rose to 4.1 GiB, the cap is 4 GiB",
        evidence_lines=(
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
        evidence_lines=("memory cap of this run 4 GiB",),
    )


def test_a_run_that_was_stopped_for_the_machines_sake():
    check(
        changed(CAPPED, peak_footprint_bytes=3 * GIB, last_footprint_bytes=3 * GIB),
        CauseKind.STOPPED_AT_CAP,
        (
            "stopped before the machine ran out of memory in code cell 2, line 9: "
            "its footprint was 3 GiB, the cap is 4 GiB"
        ),
        advice=(LESS_MEMORY,),
    )


# Crashes, with the line that was running

CRASH = (
    "Fatal Python error: Segmentation fault",
    '  File "/opt/py/lib/python3.11/ctypes/__init__.py", line 519 in string_at',
    '  File "/tmp/ipykernel_12948/1736214988.py", line 3 in f',
    '  File "/tmp/ipykernel_12948/2055930313.py", line 2 in <module>',
    '  File "<string>", line 8 in <module>',
)
IN_CELL = ("Fatal Python error: Aborted", CRASH[3])
SOURCE = "x = 1\nf(x)  # boom\n"


@pytest.mark.parametrize(
    ("changes", "headline", "line"),
    [
        (
            {"stderr_tail": CRASH},
            "kernel crashed (SIGSEGV) in code cell 2, line 10",
            ("running Python: ctypes/__init__.py, line 519, in string_at; called from line 2 of the cell: f(x) # boom"),
        ),
        (
            {"stderr_tail": IN_CELL},
            "kernel crashed (SIGSEGV) in code cell 2, line 10",
            "running Python: line 2 of the cell: f(x) # boom",
        ),
        (
            {"stderr_tail": (CRASH[0], *CRASH[2:])},
            "kernel crashed (SIGSEGV) in code cell 2, line 10",
            "running Python: line 3 of a cell, in f; called from line 2 of the cell: f(x) # boom",
        ),
        (
            {"stderr_tail": IN_CELL, "line": None},
            "kernel crashed (SIGSEGV) in code cell 2",
            "running Python: line 2 of the cell: f(x) # boom",
        ),
        (
            {"stderr_tail": IN_CELL, "source": ""},
            "kernel crashed (SIGSEGV) in code cell 2, line 10",
            "running Python: line 2 of the cell",
        ),
        (
            {"stderr_tail": IN_CELL, "source": "only one line"},
            "kernel crashed (SIGSEGV) in code cell 2, line 9",
            "running Python: line 2 of a cell",
        ),
        (
            {"stderr_tail": CRASH[:2]},
            "kernel crashed (SIGSEGV) in code cell 2, line 9",
            "running Python: ctypes/__init__.py, line 519, in string_at",
        ),
        (
            {
                "stderr_tail": (
                    "Windows fatal exception: access violation",
                    r'  File "C:\env\Lib\site-packages\numpy\linalg\_linalg.py", line 5 in inv',
                    r'  File "C:\Temp\ipykernel_5\66.py", line 1 in <module>',
                ),
                "signal": None,
                "exit_code": -1073741819,
            },
            "kernel ended with exit code -1073741819 (0xC0000005) in code cell 2, line 9",
            "running Python: numpy/linalg/_linalg.py, line 5, in inv; called from line 1 of the cell: x = 1",
        ),
    ],
)
def test_a_crash_names_the_python_line_that_was_running(changes, headline, line):
    cause = diagnose(changed(ROOMY, **({"signal": 11, "source": SOURCE} | changes)))
    assert (cause.headline, cause.evidence[0]) == (headline, line)
    assert cause.evidence[1:4] == ROOMY_LINES


@pytest.mark.parametrize("stderr", [CRASH[1:], (*CRASH[1:], CRASH[0]), ("Fatal Python error: x", "no frame"), ()])
def test_frames_that_are_not_of_a_crash_say_nothing(stderr):
    cause = diagnose(changed(ROOMY, signal=11, source=SOURCE, stderr_tail=stderr))
    assert cause.headline == "kernel crashed (SIGSEGV) in code cell 2, line 9"
    assert not any(line.startswith("running Python") for line in cause.evidence)


def test_an_abort_with_last_words_and_a_line():
    stderr = (
        "E external/alloc.cc:12] pool GPU_0 could not give 2.50GiB; free 1.10GiB",
        "F external/stream.cc:99] Check failed: allocation of 2684354560 bytes: RESOURCE_EXHAUSTED",
        *IN_CELL,
    )
    cause = diagnose(changed(ROOMY, signal=6, source=SOURCE, stderr_tail=stderr))
    assert cause.headline == (
        "kernel aborted (SIGABRT) in code cell 2, line 10; "
        "the native allocator reported an exhausted GPU pool, asked 2.68 GB (2.5 GiB)"
    )
    assert cause.evidence[0] == "running Python: line 2 of the cell: f(x) # boom"


# Children

LOKY = (
    "A worker process managed by the executor was unexpectedly terminated. This could be caused by a segmentation "
    "fault while calling the function or by an excessive memory usage causing the Operating System to kill the "
    "worker.\n\n"
    "The exit codes of the workers are {{{}}}"
)
POOL = "A process in the process pool was terminated abruptly while the future was running or pending."
TORCH = "DataLoader worker (pid 55) is killed by signal: {}. "
DIED = "Command '['solve']' died with <Signals.SIGKILL: 9>."
WITHOUT_WORKERS = ("the same work in the kernel itself, without worker processes, shows what goes wrong",)
PLACE = "(code cell 2, line 9)"


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
        evidence_lines=(f"OOM kills counted 0 -> 1 ({V2})",),
    )


# Time limits

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
        ({"cpu_seconds": 1.5}, CauseKind.TIMED_OUT_COMPUTING, "it was computing (CPU 75 % of the time)"),
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
    advice = ("run fewer lectures at once, or give them longer with --lecture-timeout S",)
    check(
        changed(SLOW, **changes),
        kind,
        f"{TIMED_OUT}{doing}{STOPPED}",
        evidence_lines=ROOMY_LINES,
        advice=advice if kind is CauseKind.TIMED_OUT_STARVED else (),
    )


CATCHES = ("the cell catches the interrupt: write `except Exception:` instead of a bare `except:`",)
NATIVE = ("most likely one long call of native code, which looks at no interrupt until it returns",)


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
    assert diagnose(evidence).advice == ()


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
        advice=("multiprocessing.Pool waits for ever for a worker that was killed",) if text else (),
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


# Shadowed modules

SHADOWED = made_evidence(ready=False, exit_code=1, shadowing_files=("queue.py", "random.py"))


@pytest.mark.parametrize(
    "line",
    [
        '  File "/lectures/random.py", line 3, in <module>',
        r'  File "C:\lectures\random.py", line 3, in <module>',
        "AttributeError: partially initialized module 'random' has no attribute 'Random' (most likely)",
        "ImportError: cannot import name 'Random' from 'random' (/lectures/other)",
        "(consider renaming '/lectures/random.py' since it has the same name as a standard library module)",
    ],
)
def test_a_file_beside_the_lecture_that_the_kernel_stumbled_over(line):
    check(
        changed(SHADOWED, stderr_tail=("Traceback (most recent call last):", line)),
        CauseKind.SHADOWED,
        "kernel died at start: random.py beside the lecture takes the place of the module random",
        evidence_lines=("stderr: Traceback (most recent call last):", f"stderr: {line.strip()}"),
        advice=("rename random.py",),
    )


@pytest.mark.parametrize(
    "line", ["cannot load libexample.so.3", "a random.pyc", "/usr/myrandom.py", "random", "'random'"]
)
def test_a_file_that_is_not_named_is_only_mentioned(line):
    check(
        changed(SHADOWED, exit_code=3, stderr_tail=(line,)),
        CauseKind.DIED_AT_START,
        "kernel exited with code 3 before it was ready",
        evidence_lines=(
            "beside the lecture, named like a module that the kernel needs: queue.py, random.py",
            f"stderr: {line}",
        ),
    )


@pytest.mark.parametrize(
    ("name", "value", "traceback"),
    [
        ("AttributeError", "module 'random' has no attribute 'Random'", ()),
        ("ModuleNotFoundError", "No module named 'random.x'; 'random' is not a package", ()),
        ("ImportError", "cannot import name 'x'", ("File /lectures/random.py:3", "----> 3 from numpy import x")),
        ("ImportError", "cannot import name 'x'", ("File ~\\lectures\\random.py:3, in f()",)),
        ("ImportError", "cannot import name 'x'", ("File random.py:3",)),
    ],
)
def test_an_import_that_found_a_file_beside_the_lecture(name, value, traceback):
    error = CellError(name=name, value=value, traceback=traceback)
    evidence = replace(ROOMY, error=error, shadowing_files=("queue.py", "random.py"))
    advice = ("random.py beside the lecture takes the place of the module random: rename it",)
    check(evidence, CauseKind.CELL_ERROR, f"{name}: {value} {PLACE}", evidence_lines=(), advice=advice)
    for other in (replace(evidence, shadowing_files=("queue.py",)), replace(evidence, error=None)):
        assert diagnose(other).advice == ()


def test_another_error_in_such_a_file_is_no_matter_of_names():
    error = CellError(name="ValueError", value="x", traceback=("File /lectures/random.py:3",))
    check(
        replace(ROOMY, error=error, shadowing_files=("random.py",)),
        CauseKind.CELL_ERROR,
        f"ValueError: x {PLACE}",
        advice=(),
    )


# Limits of MemoryErrors and libraries


def test_a_cap_below_the_limit_of_the_machine_is_the_limit():
    capped = changed(ROOMY, cap_bytes=4 * GIB, cap_method="cgroup v2", swap_bytes=8 * GIB)
    huge = "Unable to allocate 5.00 GiB for an array with shape (5368709120,) and data type uint8"
    check(
        replace(capped, error=CellError(name="MemoryError", value=huge)),
        CauseKind.REQUEST_REFUSED,
        "MemoryError: one request of 5 GiB (5.37 GB) was refused; the process itself had only 63 MiB "
        "(code cell 2, line 9)",
        evidence_lines=(
            *ROOMY_LINES[:2],
            "memory of the machine: available 20 GiB; limit 24 GiB, RAM; swap 8 GiB",
            "memory cap of this run 4 GiB, held by cgroup v2",
        ),
    )
    check(
        changed(capped, error=CellError(name="MemoryError", value=""), peak_footprint_bytes=int(3.9 * GIB)),
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: memory climbed to 3.9 GiB, the limit is 4 GiB, the memory cap of this run (code cell 2, line 9)",
    )
    xla = CellError(name="JaxRuntimeError", value="INTERNAL: Out of memory allocating 98765432100 bytes.")
    check(
        replace(capped, error=xla),
        CauseKind.HOST_OUT_OF_MEMORY,
        "XLA out of memory: asked 98.8 GB (92 GiB) on the host; the limit is 4 GiB, the memory cap of this run; "
        "20 GiB available; the process itself had only 63 MiB (code cell 2, line 9)",
    )


def test_a_container_limit_below_the_cap_is_the_limit():
    evidence = changed(
        ROOMY,
        error=CellError(name="MemoryError", value=""),
        cap_bytes=4 * GIB,
        limit_memory_bytes=2 * GIB,
        limit_source="container (cgroup v2 memory.max)",
        peak_footprint_bytes=int(1.9 * GIB),
    )
    check(
        evidence,
        CauseKind.MEMORY_EXHAUSTED,
        "MemoryError: memory climbed to 1.9 GiB, the limit is 2 GiB, container (cgroup v2 memory.max) "
        "(code cell 2, line 9)",
    )


# Whatever comes

TEXTS = st.sampled_from(
    ["", *CRASH, "Fatal Python error: \x1b[31mx", '  File "\x1b]0;x\x07", line 2 in \u202ex', "random.py", DIED, POOL]
) | st.text(max_size=20)
SIZES = st.none() | st.integers(0, 2**50)


@given(
    st.builds(
        made_evidence,
        cell_number=st.none() | st.integers(1, 9),
        line=st.none() | st.integers(1, 99),
        source=TEXTS,
        error=st.none() | st.builds(CellError, name=st.sampled_from(["BrokenProcessPool", "MemoryError"]), value=TEXTS),
        exit_code=st.none() | st.sampled_from([0, 1, 137]),
        signal=st.none() | st.sampled_from([6, 9, 11]),
        ready=st.booleans(),
        stderr_tail=st.lists(TEXTS, max_size=4).map(tuple),
        timeout_seconds=st.none() | st.floats(0, 1e6),
        timeout_kind=st.sampled_from(["cell", "lecture", "startup"]),
        stopped_by_interrupt=st.none() | st.booleans(),
        wall_seconds=st.none() | st.floats(0, 1e6),
        cpu_seconds=st.none() | st.floats(0, 1e6),
        peak_footprint_bytes=SIZES,
        limit_memory_bytes=SIZES,
        cap_bytes=SIZES,
        cap_method=TEXTS,
        stopped_at_cap=st.booleans(),
        oom_kills=st.lists(
            st.builds(
                OomKill,
                scope=st.sampled_from(OomScope),
                before=st.integers(0, 2),
                after=st.integers(0, 2),
                limit_bytes=SIZES,
                where=TEXTS,
            ),
            max_size=2,
        ).map(tuple),
        kernel_log=st.lists(TEXTS, max_size=2).map(tuple),
        load_average=st.none() | st.floats(0, 1e3),
        core_count=st.none() | st.integers(0, 99),
        shadowing_files=st.lists(TEXTS, max_size=2).map(tuple),
    )
)
def test_whatever_was_observed_gives_printable_lines_and_no_kill_without_a_record(evidence):
    cause = diagnose(evidence)
    for text in (cause.headline, *cause.evidence, *cause.advice):
        assert one_line(text) == text
        assert text.strip() == text
        assert text
    if cause.kind is CauseKind.OOM_KILLED:
        assert evidence.memory.kernel_log or any(kill.after > kill.before for kill in evidence.memory.oom_kills)


COMPLAINT = "Check failed: allocation of 2684354560 bytes: RESOURCE_EXHAUSTED"


def test_what_a_native_allocator_said_while_the_cell_ran_is_the_reason():
    aborted = changed(ROOMY, signal=6, stderr_tail=("a word of an earlier cell", COMPLAINT), stderr_earlier_count=1)
    check(
        aborted,
        CauseKind.NATIVE_OUT_OF_MEMORY,
        (
            "kernel aborted (SIGABRT) in code cell 2, line 9; the native allocator was out of memory, asked 2.68 GB "
            "(2.5 GiB)"
        ),
    )


def test_what_it_said_before_and_survived_is_told_and_not_taken_for_the_reason():
    aborted = changed(ROOMY, signal=6, stderr_tail=(COMPLAINT, "a word of this cell"), stderr_earlier_count=1)
    check(
        aborted,
        CauseKind.NATIVE_CRASH,
        "kernel aborted (SIGABRT) in code cell 2, line 9",
        evidence_lines=(
            (
                "before this cell began the native allocator was out of memory, asked 2.68 GB (2.5 GiB); whether that "
                "is the reason is not known"
            ),
            *ROOMY_LINES,
            f"stderr: {COMPLAINT}",
            "stderr: a word of this cell",
        ),
    )
