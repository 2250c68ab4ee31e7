"""Whatever happens to the server of kernels, or is done by one kernel, the next lecture runs as if nothing were."""

from __future__ import annotations

import asyncio
import os
import resource
import sys

import pytest

from pytest_lecturecheck.kernel.launchers import supervised
from pytest_lecturecheck.kernel.launchers.supervised import IS_SUPPORTED, KernelServers
from pytest_lecturecheck.kernel.process.cgroup import make_group
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.units import GIB

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="kernels are forked on Linux only")

BUSY = ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]
HARM = {
    "closes everything": "import os\nos.closerange(3, 4096)",
    "limits itself": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))\nopen('/dev/null')",
    "kills its parent": "import os\nos.kill(os.getppid(), 9)",
}
LOOK = "import resource\nassert resource.getrlimit(resource.RLIMIT_NOFILE) == {limits!r}\nopen('/dev/null').close()"


@pytest.mark.parametrize("moment", ["before the request", "after the request"])
def test_a_lecture_runs_although_the_server_is_killed(bench, monkeypatch, moment):
    assert bench.run("x = 1").outcome is Outcome.COMPLETED
    original, killed = supervised._Server.send, []

    def kill(server):
        if not killed:
            killed.append(server)
            server.process.kill()
            server.process.wait()

    def send(server, request, descriptors):
        if moment.startswith("before"):
            kill(server)
        original(server, request, descriptors)
        kill(server)

    monkeypatch.setattr(supervised._Server, "send", send)
    assert bench.run("x = 1").outcome is Outcome.COMPLETED
    assert killed
    assert bench.run("x = 1").launch.process_start == "fork"


@pytest.mark.parametrize("harm", HARM)
def test_what_a_lecture_does_to_itself_harms_no_other(bench, harm):
    bench.run(HARM[harm], timeout_seconds=10.0)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    run = bench.run(LOOK.format(limits=limits))
    assert (run.outcome, run.launch.process_start) == (Outcome.COMPLETED, "fork")


def started(servers, folder, argv, **options):
    return asyncio.run(
        servers.start(argv, environment=dict(os.environ), cwd=str(folder), output=2, pass_fds=(), **options)
    )


def test_the_session_is_charged_for_its_kernels(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    servers = KernelServers()
    process = started(servers, tmp_path, BUSY)
    assert process.wait(60) == 0
    asyncio.run(process.end_tree(30))
    servers.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    charged = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert charged >= process.cpu_seconds > 0


@pytest.mark.parametrize("argv", [["sh", "-c", "cat /proc/self/cgroup > group"], None])
def test_a_kernel_joins_its_memory_group_by_itself(tmp_path, argv):
    group = make_group("jointest", GIB)
    if group is None:
        pytest.skip("no memory group can be made here")
    if argv is None:
        code = "open('group', 'w').write(open('/proc/self/cgroup').read()); import os; os._exit(0)"
        settings = tmp_path / "ipython_kernel_config.py"
        settings.write_text(f"c.InteractiveShellApp.exec_lines = [{code!r}]\n", encoding="utf-8")
        options = [f"--config={settings}", "--transport=ipc", f"--ip={tmp_path}/k", "-f", str(tmp_path / "kernel.json")]
        argv = [sys.executable, "-m", "ipykernel_launcher", *options]
    servers = KernelServers()
    process = started(servers, tmp_path, argv, group_file=group.join_file)
    assert process.has_joined
    assert process.wait(60) == 0
    asyncio.run(process.end_tree(30))
    servers.close()
    assert group.folder.name in (tmp_path / "group").read_text(encoding="utf-8")
    group.remove()
    assert not group.folder.exists()
