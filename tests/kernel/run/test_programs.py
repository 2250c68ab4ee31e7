"""Plain programs run as lectures of one step."""

import sys

import pytest
from support.made_records import made_evidence

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.kernel.run.program_errors import find_program_error
from pytest_lecturecheck.kernel.run.program_run import Program
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.session.program_session import ProgramPolicy, ProgramSession
from pytest_lecturecheck.units import MIB

TRACEBACK = """\
before
Traceback (most recent call last):
  File "main.py", line 3, in <module>
    f()
MemoryError: no room
after
"""


@pytest.fixture
def run(tmp_path):
    """Run programs in a session, and return their runs."""

    def run_all(*commands, **rest):
        session = ProgramSession(tmp_path, ProgramPolicy())
        programs = [Program(name=f"step {n}", argv=argv, folder=tmp_path, **rest) for n, argv in enumerate(commands, 1)]
        return [entry.run for entry in session.run(programs, lambda _data: None)]

    return run_all


def test_children_count_and_what_is_left_is_ended(run):
    hold = f"{sys.executable} -c 'import time; x = bytearray(150 << 20); time.sleep(0.5)'"
    (found,) = run(["sh", "-c", f"{hold} & {hold} & wait; sleep 1000 & echo done"])

    assert found.outcome is Outcome.COMPLETED
    assert found.measured(Metric.PEAK_FOOTPRINT).value > 300 * MIB
    assert found.cells[0].output_extract == "done\n"
    assert [item.message for item in found.findings if item.kind is FindingKind.PROCESS] == [
        "1 process was left running by the program and ended: 'sleep'"
    ]


def test_failures_do_not_stop_the_programs_after_them(run):
    found = run(["sh", "-c", "exit 3"], ["no-such-program-0001"], ["sh", "-c", "kill -ABRT $$"], ["true"])

    assert [item.outcome for item in found] == [
        Outcome.FAILED,
        Outcome.NOT_STARTED,
        Outcome.DIED,
        Outcome.COMPLETED,
    ]
    assert diagnose(found[0].evidence).headline == "program ended with exit code 3"
    assert "there is no such program on PATH" in found[1].reason
    assert diagnose(found[2].evidence).headline == "program aborted (SIGABRT)"


def test_a_program_is_stopped_at_its_cap(run):
    (found,) = run([sys.executable, "-c", "x = bytearray(900 << 20)\nimport time\ntime.sleep(9)"], cap_bytes=200 * MIB)

    cause = diagnose(found.evidence)
    assert found.outcome is Outcome.DIED
    assert cause.kind in {CauseKind.OOM_KILLED, CauseKind.STOPPED_AT_CAP}
    assert "code cell" not in cause.headline
    assert any("--cap SIZE" in line for line in cause.advice)


def test_a_program_is_stopped_at_its_time_limit(run):
    (found,) = run(["sh", "-c", "sleep 1000; true"], timeout_seconds=0.5)

    assert found.outcome is Outcome.TIMED_OUT
    assert found.evidence.timeout.limit_seconds == 0.5
    assert "sleep" in str(found.evidence.timeout.children)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (TRACEBACK, "MemoryError", "no room"),
        ("Error: cannot allocate vector of size 7.5 Gb\n", "MemoryError", "cannot allocate vector of size 7.5 Gb"),
        ("Error in solve(x) : \n  singular matrix\nExecution halted\n", "Error", "singular matrix"),
        ("ERROR: LoadError: OutOfMemoryError()\n", "MemoryError", "ERROR: LoadError: OutOfMemoryError()"),
        ("op. sys. refuses to provide memory\nr(909);\n", "MemoryError", "r(909);"),
        ("Error handling is fine\n", None, None),
    ],
)
def test_errors_of_programs_are_read_from_their_output(text, name, value):
    found = find_program_error(text)

    assert (found.name, found.value) == (name, value) if name else found is None


def test_a_refused_request_of_r_has_its_size():
    error = find_program_error("Error: cannot allocate vector of size 149.0 Gb\n")
    evidence = made_evidence(
        error=error,
        is_program=True,
        cell_number=1,
        peak_footprint_bytes=90 * MIB,
        limit_memory_bytes=16 << 30,
        declared_memory_bytes=24 * 10**9,
    )

    assert diagnose(evidence).headline == (
        "R's error: one request of 149 GiB (160 GB) was refused; that is more than the declared 24 GB (22.4 GiB); "
        "the process itself had only 90 MiB"
    )
