"""The programs between a session and a remote kernel, and the choice of a launcher."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_lecturecheck.config.slurm_settings import SlurmSettings
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.kernel.launchers import node_entry, srun_parent_watch
from pytest_lecturecheck.kernel.launchers.launcher_choice import merge_launchers, open_launcher
from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL, LocalLaunch, kernel_environment_of
from pytest_lecturecheck.kernel.launchers.port import KernelLocation, ProcessEnd

posix = pytest.mark.skipif(os.name != "posix", reason="Slurm's programs are for POSIX systems")


@pytest.fixture
def connection(tmp_path):
    path = tmp_path / "kernel.json"
    path.write_text(json.dumps({"ip": "127.0.0.1", "key": "secret", "shell_port": 1, "transport": "tcp"}))
    path.chmod(0o644)
    return path


@posix
def test_the_first_program_of_a_step_becomes_the_kernel(connection):
    show = "import os,sys;print(os.getpid(), os.environ['JPY_PARENT_PID'], sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-I", node_entry.__file__, "MARK", str(connection), sys.executable, "-c", show, "a b", "$(x)"],
        env={**os.environ, "SLURM_JOB_ID": "2", "SLURM_STEP_ID": "5", "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    out, err = process.communicate(timeout=60)
    assert out.split(" ", 2) == [str(process.pid), str(os.getpid()), "['a b', '$(x)']\n"]
    mark, _, text = err.partition(" ")
    told = json.loads(text)
    assert (mark, told["pid"], told["step"]) == ("MARK", process.pid, "2.5")
    assert told["home"] == node_entry.process_home()
    written = json.loads(connection.read_text())
    assert written == {"key": "secret", "transport": "tcp", **told["connection"]}
    assert written["ip"] == "127.0.0.1"
    ports = [written[f"{name}_port"] for name in ("shell", "iopub", "stdin", "control", "hb")]
    assert len(set(ports)) == 5
    assert min(ports) > 1
    assert stat.S_IMODE(connection.stat().st_mode) == 0o600


@posix
def test_a_kernel_whose_program_is_missing(connection):
    done = subprocess.run(
        [sys.executable, "-I", node_entry.__file__, "MARK", str(connection), "/nowhere/python"],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 127
    assert done.stderr.splitlines()[1:] == ["/nowhere/python: No such file or directory"]


def test_addresses():
    assert node_entry.own_address("") == "127.0.0.1"
    assert node_entry.own_address("127.0.0.1") == "127.0.0.1"
    assert node_entry.own_address("localhost") in {"127.0.0.1", "::1"}


def test_ports_are_free():
    # Another program of this machine may be quicker to take one of them, hardly each time.
    assert any(_can_be_bound(node_entry.free_ports("127.0.0.1", 5)) for _ in range(5))


def _can_be_bound(ports):
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in ports]
        try:
            for found, port in zip(sockets, ports, strict=True):
                found.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


# -- the parent watch of srun -----------------------------------------------------------------------------------------


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_a_tied_program_is_asked_to_end_with_its_parent(tmp_path):
    told = tmp_path / "told"
    child = (
        "import pathlib,signal,sys\n"
        f"def end(*_): pathlib.Path({str(told)!r}).write_text('asked'); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); print('up', flush=True); signal.pause()"
    )
    parent = (
        "import os,subprocess,sys,time\n"
        f"p = subprocess.Popen([sys.executable, '-I', {srun_parent_watch.__file__!r}, str(os.getpid()), "
        f"sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
        "p.stdout.readline(); print(p.pid, flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, encoding="ascii")
    try:
        pid = int(process.stdout.readline())
        assert _state(pid) not in {"gone", "Z"}
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    deadline = time.monotonic() + 60
    while _state(pid) not in {"gone", "Z"}:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert told.read_text() == "asked"


@posix
def test_a_program_whose_parent_is_gone_is_not_started(tmp_path):
    touch = ["touch", str(tmp_path / "ran")]
    done = subprocess.run([sys.executable, "-I", srun_parent_watch.__file__, "1", *touch], timeout=60, check=False)
    assert done.returncode == 1
    assert not (tmp_path / "ran").exists()


# -- the choice -------------------------------------------------------------------------------------------------------


class Elsewhere:
    name = "elsewhere"


def test_the_choice_of_a_launcher(tmp_path):
    other = Elsewhere()
    others = merge_launchers([{"elsewhere": other}, {}])
    given = {"slurm": SlurmSettings(), "folder": tmp_path, "others": others}
    assert open_launcher("local", **given) is LOCAL
    assert open_launcher("elsewhere", **given) is other
    with pytest.raises(SettingsError) as raised:
        open_launcher("sge", **given)
    assert str(raised.value) == ("--lecture-launcher 'sge': unknown launcher; expected one of local, slurm, elsewhere")


@pytest.mark.parametrize("offers", [[{"pbs": 1}, {"pbs": 2}], [{"local": 1}], [{"slurm": 1}]])
def test_names_are_offered_once(offers):
    with pytest.raises(SettingsError, match=r"is defined more than once \(hook pytest_lecturecheck_launchers\)"):
        merge_launchers(offers)


def test_local_kernels_are_this_process_s_children():
    launch = LocalLaunch()
    assert launch.command(["a", "b"]) == ["a", "b"]
    assert launch.environment({"A": "1"}) == {"A": "1"}
    assert launch.location is None
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        launch.started(process)
        process.wait()
    assert launch.location == KernelLocation(pid=process.pid)
    assert launch.end(3) == ProcessEnd(exit_code=3)
    assert launch.read("x", is_end=True) == "x"
    assert asyncio.run(launch.interrupt()) is False
    assert asyncio.run(launch.facts()) is None


@posix
def test_ends_by_a_signal_here():
    assert LocalLaunch.end(-9) == ProcessEnd(signal=9)


def test_kernels_without_a_writable_home_share_one_folder_of_ipython(tmp_path):
    given = kernel_environment_of({"HOME": str(tmp_path), "IPYTHONDIR": ""})
    assert given["IPYTHONDIR"] == ""
    first, second = (
        kernel_environment_of({"HOME": str(tmp_path / "gone"), "IPYTHONDIR": "", "N": text}) for text in "ab"
    )
    assert first["IPYTHONDIR"] == second["IPYTHONDIR"]
    assert Path(first["IPYTHONDIR"]).is_dir()
    chosen = kernel_environment_of({"HOME": str(tmp_path / "gone"), "IPYTHONDIR": str(tmp_path)})
    assert chosen["IPYTHONDIR"] == str(tmp_path)
