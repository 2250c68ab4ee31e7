"""Kernels below a supervisor: what is forked is what would have been executed, and nothing of it gets away."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pytest_lecturecheck.kernel.launchers import fork_server, supervised
from pytest_lecturecheck.kernel.launchers.fork_server import descendants
from pytest_lecturecheck.kernel.launchers.supervised import (
    IS_SUPPORTED,
    KernelServers,
    ServerLostError,
    SupervisedProcess,
    is_forkable,
)

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="subreapers and pidfds are Linux's")

TOKEN = "0123456789abcdef"
FOREVER = "import time; time.sleep(600)"
ESCAPES = {
    "an environment of its own": "subprocess.Popen(SLEEP, env={'PATH': os.environ['PATH']})",
    "a session of its own": "subprocess.Popen(SLEEP, start_new_session=True)",
    "two forks": "subprocess.run(['sh', '-c', 'sleep 600 >&- 2>&- &'], env={'PATH': os.environ['PATH']})",
}


@pytest.fixture
def servers():
    found = KernelServers()
    yield found
    found.close()


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**kept, "LECTURECHECK_RUN": TOKEN, "LECTURECHECK_LECTURE": "étude.md", **more}


def command(folder, *code):
    """The command of an ipykernel that runs ``code`` and ends, without anybody who talks to it."""
    lines = "\n".join(textwrap.dedent(item) for item in code)
    settings = folder / "ipython_kernel_config.py"
    settings.write_text(f"c.InteractiveShellApp.exec_lines = [{lines!r}]\n", encoding="utf-8")
    options = [f"--config={settings}", "--transport=ipc", f"--ip={folder}/k", "-f", str(folder / "kernel.json")]
    return [sys.executable, "-m", "ipykernel_launcher", *options]


def start(servers, argv, folder, **options):
    async def _start():
        return await servers.start(
            argv,
            environment=options.pop("environment", environment()),
            cwd=str(folder),
            output=2,
            pass_fds=(),
            **options,
        )

    return asyncio.run(_start())


def end(process):
    asyncio.run(process.end_tree(30))


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


DESCRIBE = """
import json, os, signal, sys, threading
facts = {
    'modules': sorted(sys.modules),
    'argv': sys.argv,
    'orig_argv': sys.orig_argv,
    'path': sys.path,
    'cwd': os.getcwd(),
    'flags': str(sys.flags),
    'environ': {name: os.environ[name] for name in set(os.environ) - {'JPY_PARENT_PID', 'PWD', 'OLDPWD', '_', 'SHLVL'}},
    'is_leader': os.getsid(0) == os.getpid(),
    'signals': [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGTERM)],
    'parent': os.environ['JPY_PARENT_PID'] == str(os.getppid()),
    'files': sorted(os.readlink(f'/proc/self/fd/{name}') for name in ('0',)),
    'stdout': [sys.__stdout__.encoding, sys.__stdout__.errors, sys.__stderr__.errors, sys.__stdout__.line_buffering],
    'threads': sorted(type(thread).__name__ for thread in threading.enumerate()),
}
with open('facts.json', 'w') as file:
    json.dump(facts, file)
os._exit(0)
"""


def test_a_forked_kernel_is_like_an_executed_one(servers, tmp_path):
    argv = command(tmp_path, DESCRIBE)
    process = start(servers, argv, tmp_path)
    assert process.wait(60) == 0
    end(process)
    forked = json.loads((tmp_path / "facts.json").read_text(encoding="utf-8"))
    executed = _executed(argv, tmp_path)
    # Both are part of every interpreter; which of them is named in sys.modules says nothing to a lecture.
    assert set(forked.pop("modules")) ^ set(executed.pop("modules")) <= {"gc", "runpy", "pkgutil"}
    assert forked == executed


def _executed(argv, folder):
    # The parent's number is checked by the kernel itself; a shell between is a parent with a known one.
    script = 'export JPY_PARENT_PID=$$; "$@"; exit $?'
    subprocess.run(
        ["sh", "-c", script, "sh", *argv],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        check=True,
    )
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    return {**facts, "is_leader": True}


def test_others_can_read_whose_process_a_forked_kernel_is(servers, tmp_path):
    process = start(servers, command(tmp_path, "open('up', 'w'); import time; time.sleep(600)"), tmp_path)
    wait_until((tmp_path / "up").exists)
    block = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    of_supervisor = Path(f"/proc/{process.supervisor_pid}/environ").read_bytes()
    end(process)
    assert f"LECTURECHECK_RUN={TOKEN}".encode() in block
    assert "LECTURECHECK_LECTURE=étude.md".encode() in block
    assert TOKEN.encode() not in of_supervisor


@pytest.mark.parametrize("way", ESCAPES)
def test_no_orphan_escapes_the_end_of_the_tree(servers, tmp_path, way):
    code = f"import os, subprocess; SLEEP = ['sleep', '600']; {ESCAPES[way]}; os._exit(0)"
    process = start(servers, command(tmp_path, code), tmp_path)
    assert process.wait(60) == 0
    assert not process.is_tree_empty
    orphans = descendants(process.supervisor_pid)
    assert orphans
    end(process)
    assert not any(map(is_alive, orphans))


@pytest.mark.parametrize("way", ESCAPES)
def test_a_killed_session_takes_kernel_and_orphans_with_it(tmp_path, way):
    code = f"import os, subprocess; SLEEP = ['sleep', '600']; {ESCAPES[way]}; open('up', 'w'); {FOREVER}"
    session = f"""
        import asyncio, os, time
        from pytest_lecturecheck.kernel.launchers.supervised import KernelServers
        async def main():
            return await KernelServers().start(
                {command(tmp_path, code)!r}, environment=dict(os.environ), cwd={str(tmp_path)!r}, output=2, pass_fds=())
        process = asyncio.run(main())
        print(process.supervisor_pid, flush=True)
        time.sleep(600)
    """
    environ = {**environment(), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(session)], stdout=subprocess.PIPE, text=True, env=environ
    ) as owner:
        supervisor = int(owner.stdout.readline())
        wait_until((tmp_path / "up").exists)
        tree = descendants(supervisor)
        assert len(tree) > 1
        owner.kill()
    wait_until(lambda: not any(map(is_alive, {supervisor, *tree})))


@pytest.mark.parametrize(("ending", "code"), [("os._exit(7)", 7), ("os.kill(os.getpid(), 11)", -11)])
def test_the_exit_status_is_reported(servers, tmp_path, ending, code):
    process = start(servers, command(tmp_path, f"import os; {ending}"), tmp_path)
    assert process.wait(60) == code
    assert process.is_tree_empty
    assert process.cpu_seconds > 0
    end(process)


def test_a_kernel_does_not_outlive_a_killed_supervisor(servers, tmp_path):
    process = start(servers, command(tmp_path, "open('up', 'w'); import time; time.sleep(600)"), tmp_path)
    wait_until((tmp_path / "up").exists)
    os.kill(process.supervisor_pid, signal.SIGKILL)
    assert process.wait(60) == -9
    assert process.lost_supervisor
    wait_until(lambda: not is_alive(process.pid))
    end(process)


def test_what_a_killed_supervisor_leaves_is_found(servers, tmp_path):
    code = f"import os, subprocess; SLEEP = ['sleep', '600']; {ESCAPES['two forks']}; open('up', 'w'); {FOREVER}"
    process = start(servers, command(tmp_path, code), tmp_path)
    wait_until((tmp_path / "up").exists)
    orphans = descendants(process.supervisor_pid) - {process.pid}
    assert orphans
    os.kill(process.supervisor_pid, signal.SIGKILL)
    assert process.wait(60) == -9
    wait_until(lambda: process.find_strays() == orphans)
    for pid in orphans:
        os.kill(pid, signal.SIGKILL)
    end(process)


@pytest.mark.parametrize("data", [b"nonsense", b"[1]", b"{}", b'{"exit": null}', b'{"exit": 0, "cpu_seconds": "x"}'])
def test_nonsense_from_a_supervisor_counts_as_its_loss(data):
    """A process of the same user can take a descriptor of the socket (pidfd_getfd(2))."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = SupervisedProcess(ours, pid=os.getpid(), supervisor_pid=os.getpid())
    with theirs:
        theirs.send(data)
        assert process.poll() == -9
        assert process.lost_supervisor
    process.close()


def test_a_stopped_supervisor_is_ended_with_its_tree(servers, tmp_path):
    process = start(servers, command(tmp_path, f"open('up', 'w'); {FOREVER}"), tmp_path)
    wait_until((tmp_path / "up").exists)
    os.kill(process.supervisor_pid, signal.SIGSTOP)
    asyncio.run(process.end_tree(1))
    wait_until(lambda: not is_alive(process.pid) and not is_alive(process.supervisor_pid))


def test_a_stopped_server_is_given_up(servers, tmp_path, monkeypatch):
    argv = command(tmp_path, "import os; os._exit(0)")
    end(start(servers, argv, tmp_path))
    (server,) = servers._servers.values()
    os.kill(server.process.pid, signal.SIGSTOP)
    monkeypatch.setattr(supervised, "_ANSWER_SECONDS", 1.0)
    with pytest.raises(ServerLostError):
        start(servers, argv, tmp_path)
    assert server.process.wait(60) == -9
    monkeypatch.undo()
    process = start(servers, argv, tmp_path)
    assert process.wait(60) == 0
    end(process)


def test_a_killed_server_is_replaced(servers, tmp_path):
    argv = command(tmp_path, "import os; os._exit(0)")
    first = start(servers, argv, tmp_path)
    assert first.wait(60) == 0
    (server,) = servers._servers.values()
    server.process.kill()
    server.process.wait()
    second = start(servers, argv, tmp_path)
    assert second.wait(60) == 0
    end(first)
    end(second)


def test_environments_have_servers_of_their_own(servers, tmp_path):
    argv = command(tmp_path, "import os; os._exit(int(os.environ['CODE']))")
    for code in ("3", "4", "3"):
        process = start(servers, argv, tmp_path, environment=environment(CODE=code))
        assert process.wait(60) == int(code)
        end(process)
    assert len(servers._servers) == 2


def test_other_kernels_are_executed_below_a_supervisor(servers, tmp_path):
    script = "sleep 600 & echo $PPID $JPY_PARENT_PID > up; exit 5"
    process = start(servers, ["sh", "-c", script], tmp_path)
    assert process.wait(60) == 5
    assert (tmp_path / "up").read_text(encoding="utf-8").split() == [str(process.supervisor_pid)] * 2
    orphans = descendants(process.supervisor_pid)
    end(process)
    assert orphans
    assert not any(map(is_alive, orphans))


def test_a_missing_program_is_an_error_with_its_name(servers, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        start(servers, ["/nowhere/program"], tmp_path)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, "/nowhere/program")


def test_a_folder_that_is_not_there_is_an_error(servers, tmp_path):
    with pytest.raises(FileNotFoundError):
        start(servers, command(tmp_path, ""), tmp_path / "nowhere")


def test_a_request_that_is_too_large_starts_nothing(servers, tmp_path):
    with pytest.raises(ServerLostError):
        start(servers, ["sh", "-c", "true"], tmp_path, environment=environment(LONG="x" * 200_000))


def test_a_lock_lasts_until_its_kernel_has_ended(servers, tmp_path):
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = asyncio.run(
            servers.start(
                command(tmp_path, "open('up', 'w'); import time; time.sleep(600)"),
                environment=environment(),
                cwd=str(tmp_path),
                output=2,
                pass_fds=(file.fileno(),),
            )
        )
    wait_until((tmp_path / "up").exists)
    with (tmp_path / "lock").open("w") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        end(process)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    ("argv", "search_path", "is_one"),
    [
        ([sys.executable, "-m", "ipykernel_launcher", "-f", "x"], None, True),
        ([sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "x"], None, True),
        ([sys.executable, "-m", "ipykernel_launcher", "-f", "x"], f"/a{os.pathsep}/b", True),
        ([sys.executable, "-m", "ipykernel_launcher", "-f", "x"], f"/a{os.pathsep}src", False),
        ([sys.executable, "-m", "ipykernel_launcher", "-f", "x"], f"/a{os.pathsep}", False),
        ([sys.executable, "-O", "-m", "ipykernel_launcher", "-f", "x"], None, False),
        ([sys.executable, "-m", "bash_kernel", "-f", "x"], None, False),
        (["/usr/bin/another-python", "-m", "ipykernel_launcher"], None, False),
        ([sys.executable, "-m"], None, False),
        ([], None, False),
    ],
)
def test_only_this_interpreter_s_ipykernel_is_forked(argv, search_path, is_one):
    assert is_forkable(argv, {} if search_path is None else {"PYTHONPATH": search_path}) is is_one


def test_a_server_that_cannot_start_is_not_tried_again(servers, tmp_path):
    """Where ipykernel cannot be imported, kernels are started in another way, and without the cost of trying."""
    (tmp_path / "ipykernel.py").write_text("raise ImportError", encoding="utf-8")
    broken = environment(PYTHONPATH=str(tmp_path))
    for _ in range(2):
        with pytest.raises(ServerLostError):
            start(servers, ["sh", "-c", "true"], tmp_path, environment=broken)
    (server,) = servers._servers.values()
    assert server.process.wait(60) != 0


def test_children_are_found_without_lists_of_children():
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            assert child.pid in fork_server._list_by_scan()(os.getpid())
        finally:
            child.kill()
