"""Outcomes of lectures in real kernels."""

import signal
import sys
from pathlib import Path

import pytest
from support.benches import Code, kernelspec, messages, run_to_limit, statuses
from support.fakes import FakeProbe

from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.probe import CellReadings, Snapshot
from pytest_lecturecheck.model.run import Outcome


def test_a_lecture_from_start_to_end(bench):
    run = bench.run("a = 1", "print(a + 1)", "")
    assert run.outcome is Outcome.COMPLETED
    assert statuses(run) == ["ok", "ok", "empty"]
    assert run.cells[1].output_extract == "2\n"
    assert (run.findings, run.evidence, run.launch.kernel_name) == ((), None, "python3")
    assert run.launch.startup_seconds > 0
    assert run.software.python.startswith(f"CPython {sys.version_info.major}.{sys.version_info.minor}.")


def test_what_a_probe_says_is_booked_on_its_cells(bench):
    def reading(value):
        return Measurement(metric=Metric.PEAK_FOOTPRINT, value=value, method=Method.EXACT, source="fake")

    cells = [
        CellReadings(readings={Metric.PEAK_FOOTPRINT: reading(value)}, start_footprint_bytes=value - 10)
        for value in (100, 200)
    ]
    probe = FakeProbe(
        cells,
        {Metric.PEAK_FOOTPRINT: reading(250)},
        Snapshot(footprint_bytes=90, peak_footprint_bytes=95, age_seconds=0),
    )
    run = bench.run("1", Code("2", skip_reason="tag skip-execution"), "3", probe=probe)
    assert statuses(run) == ["ok", "skipped", "ok"]
    assert [cell.measured(Metric.PEAK_FOOTPRINT) for cell in run.cells] == [reading(100), None, reading(200)]
    assert run.cells[2].raised_bytes == 10
    assert run.measured(Metric.PEAK_FOOTPRINT) == reading(250)
    windows = [call for call in probe.calls if call in {"begin", "end"}]
    assert windows == ["begin", "end"] * 2
    # The live line may look once more while the kernel ends.
    assert [call for call in probe.calls if call != "snapshot"][-1] == "close"


def test_the_first_error_stops_the_lecture(bench):
    run = bench.run("x = 1", "def f():\n    return 1 / 0\n\nf()", "y = 2")
    assert run.outcome is Outcome.FAILED
    assert statuses(run) == ["ok", "failed", "not run"]
    assert (run.evidence.cell_number, run.evidence.line) == (2, 201)
    error = run.cells[1].error
    assert (error.name, error.value, error.line_in_cell) == ("ZeroDivisionError", "division by zero", 2)


def test_a_syntax_error_has_its_line(bench):
    run = bench.run("x = 1\ny = = 2")
    assert (run.cells[0].error.name, run.evidence.line) == ("SyntaxError", 101)


def test_errors_that_are_expected_or_allowed(bench):
    run = bench.run(Code("1 / 0", expects_error=True), Code("x = 1", expects_error=True), "x")
    assert run.outcome is Outcome.COMPLETED
    assert statuses(run) == ["expected error", "ok", "ok"]
    assert messages(run) == ["the cell is tagged raises-exception and raised nothing"]
    allowed = bench.run("1 / 0", "x = 1", allow_errors=True)
    assert (allowed.outcome, statuses(allowed)) == (Outcome.COMPLETED, ["allowed error", "ok"])


def test_an_error_that_only_the_outputs_show(bench):
    run = bench.run("%%capture shown\n1 / 0")
    assert (run.outcome, statuses(run)) == (Outcome.FAILED, ["failed"])
    assert run.cells[0].error.name == "ZeroDivisionError"


def test_a_representation_that_fails(bench):
    run = bench.run("class Broken:\n    def _repr_html_(self):\n        raise KeyError('lost')\n\nBroken()")
    assert run.outcome is Outcome.FAILED
    assert (run.cells[0].error.name, run.cells[0].error.value) == ("KeyError", "'lost'")


@pytest.mark.parametrize("code", ["exit()", "quit()", "import sys\nsys.exit(0)", "raise SystemExit"])
def test_every_way_to_exit_fails_its_cell(bench, code):
    run = bench.run(code, "x = 1")
    assert (run.outcome, statuses(run)) == (Outcome.FAILED, ["failed", "not run"])
    assert run.cells[0].error.name == "SystemExit"


@pytest.mark.parametrize("call", ["input('? ')", "__import__('getpass').getpass()"])
def test_a_question_fails_at_once(bench, call):
    run = bench.run(f"answer = {call}")
    assert (run.outcome, run.cells[0].error.name) == (Outcome.FAILED, "StdinNotImplementedError")


def test_stdin_of_the_kernel_is_empty(bench):
    run = bench.run("import subprocess\nassert subprocess.run(['cat'], capture_output=True, timeout=20).stdout == b''")
    assert run.outcome is Outcome.COMPLETED, run.cells[0].error


def test_a_kernel_that_exits_by_itself(bench):
    run = bench.run("x = 1", "import os\nos._exit(3)", "y = 2")
    assert (run.outcome, statuses(run)) == (Outcome.DIED, ["ok", "died", "not run"])
    assert (run.evidence.exit.exit_code, run.evidence.exit.signal, run.evidence.cell_number) == (3, None, 2)
    assert run.evidence.source == "import os\nos._exit(3)"


def test_a_kernel_that_is_killed(bench):
    run = bench.run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert (run.outcome, run.evidence.exit.exit_code, run.evidence.exit.signal) == (Outcome.DIED, None, signal.SIGKILL)


def test_stderr_of_an_abort_is_kept(bench):
    run = bench.run(
        """
        import os
        os.write(2, b"pool exhausted: asked 2.5 GiB\\n")
        os.abort()
        """
    )
    assert (run.outcome, run.evidence.exit.signal) == (Outcome.DIED, signal.SIGABRT)
    assert "pool exhausted: asked 2.5 GiB" in run.evidence.exit.stderr_tail
    assert "Fatal Python error: Aborted" in run.evidence.exit.stderr_tail


def test_a_kernel_that_dies_after_its_last_cell_is_noticed(bench):
    run = bench.run(
        """
        import os, threading
        threading.Timer(0, lambda: os._exit(5)).start()
        """,
        """
        import time
        time.sleep(20)
        """,
    )
    assert run.outcome is Outcome.DIED
    assert run.evidence.exit.exit_code == 5


def test_a_cell_over_its_time_is_interrupted(bench):
    run = bench.run("", "while True:\n    pass", "y = 2", timeout_seconds=3.0)
    assert (run.outcome, statuses(run)) == (Outcome.TIMED_OUT, ["empty", "timed out", "not run"])
    timeout = run.evidence.timeout
    assert (timeout.kind, timeout.limit_seconds, timeout.stopped_by_interrupt) == ("cell", 3.0, True)


def test_a_cell_that_does_not_stop_is_killed(bench):
    run = bench.run(
        """
        import time
        while True:
            try:
                while True:
                    time.sleep(0.01)
            except BaseException:
                pass
        """,
        timeout_seconds=3.0,
    )
    assert (run.outcome, run.evidence.timeout.stopped_by_interrupt) == (Outcome.TIMED_OUT, False)


def test_a_lecture_over_its_time(bench):
    given = []

    def run_with(seconds):
        given.append(seconds)
        return bench.run("import time\ntime.sleep(60)", total_timeout_seconds=seconds)

    # The kernel's start counts, however long that takes here.
    run = run_to_limit(run_with, lambda run: run.outcome is not Outcome.NOT_STARTED, 3.0)
    assert (run.outcome, run.evidence.timeout.kind, run.evidence.timeout.limit_seconds) == (
        Outcome.TIMED_OUT,
        "lecture",
        given[-1],
    )


def test_the_lectures_folder_and_another_one(bench, tmp_path):
    (tmp_path / "data.txt").write_text("here", encoding="utf-8")
    beside = bench.run("assert open('data.txt').read() == 'here'")
    assert beside.outcome is Outcome.COMPLETED
    code = "import os\nassert os.listdir() == []\nprint(os.getcwd())\nopen('left.txt', 'w').close()"
    apart = bench.run(code, run_in_temp=True)
    assert apart.outcome is Outcome.COMPLETED, apart.cells[0].error
    # The file goes with the folder.
    assert messages(apart) == []
    assert not Path(apart.cells[0].output_extract.strip()).exists()


def test_a_kernel_that_is_not_installed(bench):
    run = bench.run("x = 1", kernel_name="no-such-kernel")
    assert run.outcome is Outcome.NOT_STARTED
    assert run.reason.startswith("kernel 'no-such-kernel' is not installed; installed: ")
    assert run.reason.endswith(". Install it, or choose another one with --lecture-kernel NAME")


def test_the_name_python_means_the_native_kernel(bench):
    run = bench.run("x = 1", kernel_name="python")
    assert run.outcome is Outcome.COMPLETED, run.reason


def test_a_kernel_whose_program_is_missing(bench, tmp_path, monkeypatch, caplog):
    place = kernelspec(tmp_path, "missing", "/no/such/program", "{connection_file}")
    monkeypatch.setenv("JUPYTER_PATH", str(place))
    file = place / "kernels" / "missing" / "kernel.json"
    run = bench.run("x = 1", kernel_name="missing")
    assert run.outcome is Outcome.NOT_STARTED
    assert run.reason == (
        f"kernel 'missing' could not be started: its program '/no/such/program', from {file}, does not exist; "
        "install the kernel again (python -m ipykernel install) or choose another one with --lecture-kernel NAME"
    )
    assert caplog.records == [], "jupyter_client's traceback and the user's search path stand beside the reason"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"argv": [', "JSONDecodeError: Expecting value"),
        ("[]", "TypeError: "),
        ('{"argv": 7}', "TraitError: "),
        ('{"language": "python"}', "it has no argv, the command that starts the kernel; install the kernel again"),
    ],
)
def test_a_kernelspec_that_is_broken(bench, tmp_path, monkeypatch, text, reason):
    place = kernelspec(tmp_path, "broken", sys.executable)
    path = place / "kernels" / "broken" / "kernel.json"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("JUPYTER_PATH", str(place))
    run = bench.run("x = 1", kernel_name="broken")
    assert run.outcome is Outcome.NOT_STARTED
    assert run.reason.startswith(f"kernel 'broken' is installed, but {path} cannot be used: {reason}")
    assert run.reason.endswith("choose another one with --lecture-kernel NAME")


def test_an_invalid_kernel_name_is_not_installed_and_not_logged(bench, caplog):
    run = bench.run("x = 1", kernel_name="../../etc")
    assert run.reason.startswith("kernel '../../etc' is not installed; installed: ")
    assert caplog.records == []


def test_a_kernel_that_ends_before_it_is_ready(bench, tmp_path, monkeypatch):
    code = "import sys; sys.stderr.write('cannot load libexample.so.3\\n'); sys.exit(3)"
    place = kernelspec(tmp_path, "ends", sys.executable, "-c", code, "{connection_file}")
    monkeypatch.setenv("JUPYTER_PATH", str(place))
    run = bench.run("x = 1", kernel_name="ends")
    assert (run.outcome, run.evidence.exit.ready, run.evidence.exit.exit_code) == (Outcome.NOT_STARTED, False, 3)
    assert run.evidence.exit.stderr_tail == ("cannot load libexample.so.3",)


def test_a_kernel_that_is_never_ready(bench, tmp_path, monkeypatch):
    code = "import time; time.sleep(60)"
    place = kernelspec(tmp_path, "waits", sys.executable, "-c", code, "{connection_file}")
    monkeypatch.setenv("JUPYTER_PATH", str(place))
    run = bench.run("x = 1", kernel_name="waits", startup_timeout_seconds=1.0)
    assert (run.outcome, run.reason) == (Outcome.NOT_STARTED, "the kernel was not ready after 1 s")
    assert (run.evidence.timeout.kind, run.evidence.timeout.limit_seconds) == ("startup", 1.0)


def test_nothing_to_run_starts_no_kernel(bench):
    run = bench.run("", Code("x", skip_reason="tag skip-execution"), kernel_name="no-such-kernel")
    assert run.outcome is Outcome.NOTHING_TO_RUN
    assert run.reason == "1 code cell left out and 1 blank code cell"


def test_progress_is_reported(bench):
    bench.progress.clear()
    bench.run("x = 1", "y = 2")
    told = [(progress.number, progress.total) for progress in bench.progress]
    assert (1, 2) in told
    assert (2, 2) in told
    # Before the first cell and after the last one no cell is running.
    numbers = [number for number, _ in told if number]
    assert numbers == sorted(numbers)
