"""Whether a kernel asks for a core: its main thread and its children count, other threads do not."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from pytest_lecturecheck.kernel.process.child_processes import wants_cpu

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such states")

BUSY = "while True: pass"
WAITS_FOR_ITS_THREAD = """
import threading, time
threading.Thread(target=lambda: [sum(range(10**6)) for _ in iter(int, 1)], daemon=True).start()
time.sleep(600)
"""
WAITS_FOR_ITS_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"


@pytest.mark.parametrize(
    ("source", "expected"),
    [(BUSY, True), (WAITS_FOR_ITS_THREAD, False), (WAITS_FOR_ITS_CHILD, True), ("import time; time.sleep(600)", False)],
    ids=["computes", "waits for its thread", "waits for its child", "waits"],
)
def test_only_the_main_thread_and_children_ask_for_a_core(source, expected):
    source = f"print(flush=True)\n{source}"
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            process.stdout.readline()
            # A process that begins to wait or to start a child still runs for a moment.
            answers = (asyncio.run(wants_cpu(process.pid)) for _ in range(20))
            assert expected in answers
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_process_that_is_gone_has_no_state():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert asyncio.run(wants_cpu(process.pid)) is None
