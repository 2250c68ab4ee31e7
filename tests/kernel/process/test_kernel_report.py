"""The report of a kernel's end, whoever takes it from the socket first."""

import asyncio
import json
import os
import socket
import subprocess
import sys

import pytest

from pytest_lecturecheck.kernel.launchers.supervised import IS_SUPPORTED
from pytest_lecturecheck.kernel.launchers.supervised_process import SupervisedProcess
from pytest_lecturecheck.kernel.process.provisioner import LectureProvisioner

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="supervisors of kernels are Linux's")


def test_an_end_is_noticed_though_its_report_was_taken_already():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        process = SupervisedProcess(ours, pid=child.pid, supervisor_pid=os.getpid())
    theirs.send(json.dumps({"exit": 4, "cpu_seconds": 0.1, "peak_rss_bytes": 1, "has_left": True}).encode())

    async def look():
        provisioner = LectureProvisioner(launch=None)
        provisioner.popen = process
        provisioner._watch_exit()
        # A poll, of whoever it is. The other end stays open, as long as something of the lecture lives on.
        assert process.poll() == 4
        async with asyncio.timeout(10):
            await provisioner.ended

    with theirs:
        asyncio.run(look())
    process.close()
