"""What a run records beside its cells: variables that change memory, a repeated start, children of a timed-out cell."""

from __future__ import annotations

import sys

import pytest
from support.benches import messages

from pytest_lecturecheck.diagnosis import diagnose
from pytest_lecturecheck.model.run import Outcome


def test_variables_that_change_memory_are_recorded(bench, monkeypatch):
    """Those of the start: what the lecture sets itself is part of the lecture."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("NOT_ABOUT_MEMORY", "secret")
    monkeypatch.delenv("JAX_ENABLE_X64", raising=False)
    run = bench.run_on_devices("import os\nos.environ['OMP_NUM_THREADS'] = '7'", environment={"MALLOC_ARENA_MAX": "2"})
    assert run.software.variables.items() >= {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}.items()
    assert not {"NOT_ABOUT_MEMORY", "JAX_ENABLE_X64"} & set(run.software.variables)


@pytest.mark.skipif(sys.platform == "win32", reason="`sleep` is a program of POSIX systems")
def test_a_timeout_names_the_child_that_the_cell_waits_for(bench):
    run = bench.run(
        "import subprocess, time\nearlier = subprocess.Popen(['sleep', '300'])\ntime.sleep(0.3)",
        "subprocess.run(['sleep', '299'])",
        timeout_seconds=5.0,
    )
    assert run.outcome is Outcome.TIMED_OUT
    (child,) = run.evidence.timeout.children
    assert child.endswith(": sleep 299")
    assert f"child process that was still running: {child}" in diagnose(run.evidence).evidence


def test_a_repeated_start_is_reported(bench, monkeypatch, tmp_path):
    """The first kernel ends as one does that lost a port; the second one is a real kernel."""
    from support.benches import kernelspec  # noqa: PLC0415 - beside its only use

    first = tmp_path / "first"
    script = (
        "import os, sys\n"
        f"if not os.path.exists({str(first)!r}):\n"
        f"    open({str(first)!r}, 'w').close()\n"
        "    sys.exit('zmq.error.ZMQError: Address already in use')\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'ipykernel_launcher', '-f', sys.argv[1]])\n"
    )
    folder = kernelspec(tmp_path, "late", sys.executable, "-c", script, "{connection_file}")
    monkeypatch.setenv("JUPYTER_PATH", str(folder))
    run = bench.run("x = 1", kernel_name="late")
    assert run.outcome is Outcome.COMPLETED
    assert messages(run) == [
        "the kernel was started twice: another process was quicker to bind a port of the first one"
    ]


def test_a_task_that_is_held_and_never_awaited_is_reported(bench):
    """Python would print its error when the task is deleted, which the kernel's end prevents."""
    run = bench.run(
        """
        import asyncio
        async def step(text):
            raise ValueError(text)
        lost = asyncio.create_task(step("held"))
        awaited = asyncio.create_task(step("caught"))
        await asyncio.sleep(0.05)
        try:
            await awaited
        except ValueError:
            pass
        running = asyncio.create_task(asyncio.sleep(60))
        """,
    )
    assert run.outcome is Outcome.COMPLETED
    assert messages(run) == ["an error ended a task of asyncio that was never awaited: 'ValueError: held'"]
