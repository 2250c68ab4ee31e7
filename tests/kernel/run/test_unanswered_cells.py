"""Kernels that live and never answer are noticed within seconds, and waiting cells are left alone."""

from __future__ import annotations

import sys

import pytest

from pytest_lecturecheck.diagnosis import diagnose
from pytest_lecturecheck.kernel.launchers.supervised import IS_SUPPORTED
from pytest_lecturecheck.kernel.process import provisioner
from pytest_lecturecheck.model.run import Outcome


@pytest.mark.parametrize(
    ("cells", "headline"),
    [
        (
            ("import sys\nsys.stdout = object()",),
            (
                "kernel lost the reply to the cell in code cell 1: AttributeError: "
                "'object' object has no attribute 'flush'"
            ),
        ),
        (
            ("get_ipython().run_cell = None", "2"),
            "kernel lost the reply to the cell in code cell 2: TypeError: 'NoneType' object is not callable",
        ),
    ],
)
def test_a_reply_lost_in_the_kernel_is_noticed(bench, cells, headline):
    run = bench.run(*cells)
    assert run.outcome is Outcome.DIED
    assert diagnose(run.evidence).headline == headline
    assert run.evidence.exit.cell_stderr


@pytest.mark.skipif(sys.platform == "win32", reason="execvp starts a process there")
def test_a_kernel_that_became_another_program_is_noticed(bench):
    run = bench.run("import os\nos.execvp('sleep', ['sleep', '1000'])")
    assert run.outcome is Outcome.DIED
    expected = "kernel was replaced by another program in code cell 1; its process now runs: sleep 1000"
    assert diagnose(run.evidence).headline == expected


def test_half_a_surrogate_pair_in_the_agents_payload_harms_nothing(bench):
    run = bench.run("import threading, time\nthreading.Thread(target=time.sleep, args=(0.5,), name='a\\ud800').start()")
    assert run.outcome is Outcome.COMPLETED


def test_a_cell_that_waits_in_a_nested_loop_is_left_alone(bench):
    """The kernel answers other requests meanwhile, and publishes idle states of its own."""
    run = bench.run(
        "import asyncio, socket, subprocess\n"
        "kernel = get_ipython().kernel\n"
        "kernel.session.send(kernel.iopub_socket, 'status', {'execution_state': 'idle'}, parent=kernel.get_parent())\n"
        "await asyncio.sleep(3)\n"
        "left, right = socket.socketpair()\n"
        "left.settimeout(3)\n"
        "try:\n"
        "    left.recv(1)\n"
        "except TimeoutError:\n"
        "    pass\n"
        "_ = subprocess.run(['sleep', '3'])"
    )
    assert run.outcome is Outcome.COMPLETED


@pytest.mark.skipif(not IS_SUPPORTED, reason="supervisors of kernels are Linux's")
def test_a_killed_supervisor_is_named(bench):
    run = bench.run("import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(60)")
    assert run.outcome is Outcome.DIED
    assert run.evidence.exit.lost_supervisor


TRACE_SUPERVISOR = """
import os, subprocess, sys, time
tracer = (
    "import ctypes, time; libc = ctypes.CDLL(None); assert libc.ptrace(16, SUPERVISOR, 0, 0) == 0; "
    "open('traced', 'w').close(); time.sleep(600)"
).replace("SUPERVISOR", str(os.getppid()))
start = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]], env={}, start_new_session=True)"
subprocess.run([sys.executable, "-c", start, tracer], check=True)
while not os.path.exists("traced"):
    time.sleep(0.01)
"""


@pytest.mark.skipif(not IS_SUPPORTED, reason="supervisors of kernels are Linux's")
def test_the_end_below_a_traced_supervisor_is_noticed(bench, monkeypatch):
    """A tracer keeps the supervisor from reporting anything (PTRACE_ATTACH); it is an orphan without a mark here."""
    monkeypatch.setattr(provisioner, "_REPORT_SECONDS", 0.5)
    run = bench.run(TRACE_SUPERVISOR, "os._exit(3)")
    assert diagnose(run.evidence).headline == "kernel ended with exit code 3 in code cell 2"
    assert any(finding.message.startswith("left a process running: pid ") for finding in run.findings)


@pytest.mark.skipif(not IS_SUPPORTED, reason="supervisors of kernels are Linux's")
def test_a_stopped_supervisor_is_woken_to_report_the_end(bench):
    run = bench.run("import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)", "os._exit(3)")
    assert diagnose(run.evidence).headline == "kernel ended with exit code 3 in code cell 2"
