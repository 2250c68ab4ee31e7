"""Errors that Python only prints are findings, and a kernel's own helper processes are not the lecture's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def session(project):
    project.put("T08", flat=True)
    project.notebook(
        "spawned.ipynb",
        """
        from pathlib import Path
        Path("job.py").write_text("def bad():\\n    raise ValueError('lost in a spawned child')\\n")
        import multiprocessing, job
        child = multiprocessing.get_context("spawn").Process(target=job.bad)
        child.start(); child.join()
        """,
    )
    project.notebook(
        "ignored.ipynb",
        """
        class Holder:
            def __del__(self):
                raise ValueError("in a destructor")
        holder = Holder()
        del holder
        """,
    )
    project.notebook(
        "late_thread.ipynb",
        """
        import threading, time
        go = threading.Event()
        def late():
            go.wait(60)
            raise ValueError("from cell 1")
        thread = threading.Thread(target=late)
        thread.start()
        """,
        "go.set()\nthread.join()",
    )
    return project.pytest("--lecture-budget", "-n", "2", ".")


@pytest.mark.parametrize(
    ("name", "what", "error", "cells"),
    [
        ("thread_print", "an error ended a thread and was only printed", "at once", {1}),
        ("loose", "an error ended a task of asyncio and was only printed", "step 1 went wrong", {1, 2}),
        ("task_in_func", "an error ended a task of asyncio and was only printed", "nobody waits", {1, 2}),
        ("callback", "an error in a callback was only printed", "in a callback", {1}),
        ("process", "an error ended a child process and was only printed", "lost in the child", {1}),
        ("spawned", "an error ended a child process and was only printed", "lost in a spawned child", {1}),
        (
            "ignored",
            "an error that Python ignores (of a destructor, for example) was only printed",
            "in a destructor",
            {1},
        ),
        ("late_thread", "an error ended a thread and was only printed", "from cell 1", {1, 2}),
    ],
)
def test_an_error_that_is_only_printed_is_a_finding(session, name, what, error, cells):
    found = [item for item in session.run(f"{name}.ipynb")["findings"] if item["kind"] == "thread"]
    assert [item["message"] for item in found] == [f"{what}: 'ValueError: {error}'"]
    assert found[0]["cell_number"] in cells
    assert found[0]["fails_when_strict"]


@pytest.mark.skipif(sys.platform == "win32", reason="the helper is `cat`")
def test_helper_processes_of_a_kernel_are_not_left_by_the_lecture(own_project):
    """Neither does an unknown key of the kernelspec become a warning of the lecture, which is an error here."""
    own_project.put("T11", flat=True)
    spec = own_project.folder / "kernels" / "helped" / "kernel.json"
    spec.write_text(spec.read_text(encoding="utf-8").replace('"display_name"', '"unknown_key": 1, "display_name"'))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    session = own_project.pytest("--lecture-budget", "early.ipynb", "late.ipynb", JUPYTER_PATH=".", PATH=path)
    assert (session.code, session.outcomes()) == (0, {"passed": 2})
    assert [session.findings(name) for name in ("early.ipynb", "late.ipynb")] == [[], []]
    assert "warning" not in session.text
