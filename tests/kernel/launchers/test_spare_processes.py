"""A process that is prepared before its kernel is asked for: it becomes that kernel, or leaves nothing."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from pytest_lecturecheck.kernel.launchers.supervised import IS_SUPPORTED, KernelServers
from pytest_lecturecheck.model.run import Outcome

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="kernels are forked on Linux only")

UP = "open('up', 'w'); import time; time.sleep(600)"
GROUP = "open('/proc/self/cgroup').read()"


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Servers that have forked one kernel, so that they know what the next one will probably be."""
    found = KernelServers()
    process = start(found, tmp_path_factory.mktemp("first"), "")
    process.kill()
    end(process)
    yield found
    found.close()


def start(servers, folder, code, *, spare=None, pass_fds=(), **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    settings = folder / "ipython_kernel_config.py"
    settings.write_text(f"c.InteractiveShellApp.exec_lines = [{code!r}]\n", encoding="utf-8")
    options = [f"--config={settings}", "--transport=ipc", f"--ip={folder}/k", "-f", str(folder / "kernel.json")]
    return asyncio.run(
        servers.start(
            [sys.executable, "-m", "ipykernel_launcher", *options],
            environment={**kept, **variables},
            cwd=str(folder),
            output=2,
            pass_fds=pass_fds,
            spare=spare,
        )
    )


def prepare(servers):
    return asyncio.run(servers.prepare(""))


def end(process):
    asyncio.run(process.end_tree(30))


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def test_nothing_is_prepared_before_the_first_kernel():
    assert prepare(KernelServers()) is None


def test_a_killed_process_is_not_used(servers, tmp_path):
    spare = prepare(servers)
    os.kill(spare.process.pid, signal.SIGKILL)
    assert spare.process.wait(60) == -9
    process = start(servers, tmp_path, "import os; os._exit(5)", spare=spare)
    assert process.wait(60) == 5
    end(process)
    end(spare.process)


def test_a_prepared_process_ends_with_the_session(servers):
    spare = prepare(servers).process
    spare.close()
    wait_until(lambda: not Path(f"/proc/{spare.pid}").exists() and not Path(f"/proc/{spare.supervisor_pid}").exists())


def test_a_prepared_process_outlives_its_server(servers, tmp_path):
    spare = prepare(servers)
    (server,) = servers._servers.values()
    server.process.kill()
    server.process.wait()
    process = start(servers, tmp_path, "import os; os._exit(5)", spare=spare)
    assert process is spare.process
    assert process.wait(60) == 5
    end(process)


def test_the_supervisor_keeps_a_lock_too(servers, tmp_path):
    spare = prepare(servers)
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = start(
            servers, tmp_path, f"import os; os.closerange(3, 64); {UP}", spare=spare, pass_fds=[file.fileno()]
        )
    wait_until((tmp_path / "up").exists)
    with (tmp_path / "lock").open("w") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        end(process)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_process_of_another_environment_is_not_used(servers, tmp_path):
    # The last one of these servers: they prepare for what they have forked last.
    spare = prepare(servers)
    process = start(servers, tmp_path, "import os; os._exit(int(os.environ['CODE']))", spare=spare, CODE="4")
    assert process.wait(60) == 4
    end(process)
    end(spare.process)


def test_the_next_lecture_takes_the_prepared_process_and_its_group(bench):
    first = bench.run(GROUP, is_followed=True, memory_cap_bytes=2**30)
    assert bench.has_spare
    second = bench.run(GROUP, memory_cap_bytes=2**31)
    assert not bench.has_spare
    assert [run.outcome for run in (first, second)] == [Outcome.COMPLETED] * 2
    assert second.conditions.cap_bytes == 2**31
    assert second.launch.startup_seconds > 0


def test_a_lecture_without_a_limit_does_not_take_a_process_with_one(bench):
    bench.run("x = 1", is_followed=True, memory_cap_bytes=2**30)
    assert bench.run(GROUP, memory_cap_bytes=None).outcome is Outcome.COMPLETED
    assert not bench.has_spare


def test_a_run_is_announced_before_its_kernel_is_started(bench, monkeypatch):
    """A session that is killed while the first kernel waits for its server leaves neither folder nor group."""

    reaper, added = Mock(), []
    reaper.add = lambda _token, **run: added.append((run["pid"] > 0, all(map(os.path.isdir, run["folders"]))))
    monkeypatch.setattr(bench, "_real_ports", replace(bench._real_ports, reaper=reaper))
    bench.run("x = 1")
    assert added == [(False, True), (True, True)]
