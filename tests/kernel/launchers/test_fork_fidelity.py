"""A forked kernel is what an executed one would be: one probe lecture runs both ways, and everything is compared."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys

import pytest

from pytest_lecturecheck.kernel.launchers.supervised import IS_SUPPORTED, KernelServers
from pytest_lecturecheck.units import MIB

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="kernels are forked on Linux only")

TOLERANCE_BYTES = 2 * MIB
TOLERANCE_FRACTION = 0.01
PROBE = """
import atexit, gc, json, locale, multiprocessing, os, resource, signal, subprocess, sys, threading

def sizes():
    text = open('/proc/self/status').read() + open('/proc/self/smaps_rollup').read()
    found = dict(line.split(':', 1) for line in text.splitlines() if ':' in line)
    return {name: int(found[name].split()[0]) * 1024 for name in ('VmRSS', 'VmHWM', 'RssAnon', 'Pss_Anon')}

memory = {'ready': sizes()}
block = bytearray(30_000_000)
memory['with a block'] = sizes()
child = subprocess.Popen(['sleep', '600'])
memory['with a child'] = sizes()
child.kill()
child.wait()
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
names = [name for name in dir(resource) if name.startswith('RLIMIT_')]
links = [f'/proc/self/fd/{fd}' for fd in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}')]
# zmq makes an eventfd for each socket, and some sockets with the first output.
kinds = [name.partition(':')[0] for name in map(os.readlink, links) if 'eventfd' not in name]
facts = {
    'argv': sys.argv, 'orig_argv': sys.orig_argv, 'path': sys.path, 'flags': str(sys.flags), 'cwd': os.getcwd(),
    'environ': {name: os.environ[name] for name in set(os.environ) - {'JPY_PARENT_PID'}},
    'parent': os.environ['JPY_PARENT_PID'] == str(os.getppid()),
    'handlers': {number: str(signal.getsignal(number)).partition(' at ')[0] for number in signal.valid_signals()},
    'signals': [status[name].strip() for name in ('SigBlk', 'SigIgn', 'SigCgt', 'ShdPnd')],
    'mask': sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    'locale': [locale.setlocale(locale.LC_ALL), locale.getpreferredencoding(), sys.getfilesystemencoding()],
    'umask': os.umask(0o22), 'limits': {name: resource.getrlimit(getattr(resource, name)) for name in names},
    'scheduling': [os.nice(0), sorted(os.sched_getaffinity(0)), os.sched_getscheduler(0)],
    'gc': [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.get_debug(), gc.callbacks == []],
    'streams': [[stream.encoding, stream.errors, stream.line_buffering] for stream in (sys.__stdout__, sys.__stderr__)],
    'stdin': os.readlink('/proc/self/fd/0'), 'descriptors': sorted(kinds),
    'session': [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
    'group': open('/proc/self/cgroup').read(), 'oom': open('/proc/self/oom_score_adj').read(),
    'name': open('/proc/self/comm').read(), 'exe': os.readlink('/proc/self/exe'),
    'starts': [multiprocessing.get_start_method(True), multiprocessing.get_all_start_methods()],
    'threads': sorted(type(thread).__name__ for thread in threading.enumerate()), 'exits': atexit._ncallbacks(),
    'capabilities': [status[name].strip() for name in ('CapEff', 'NoNewPrivs', 'Seccomp', 'Threads')],
    'profiling': [sys.gettrace(), sys.getprofile(), sys.getrecursionlimit(), sys.getswitchinterval()],
}
with open('facts.json', 'w') as file:
    json.dump({'facts': facts, 'modules': sorted(sys.modules), 'memory': memory}, file)
os._exit(0)
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What the probe lecture saw in an executed kernel, a forked one, and one that was prepared before."""
    folder = tmp_path_factory.mktemp("both")
    servers = KernelServers()
    settings = folder / "ipython_kernel_config.py"
    settings.write_text(f"c.InteractiveShellApp.exec_lines = [{PROBE!r}]\n", encoding="utf-8")
    options = [f"--config={settings}", "--transport=ipc", f"--ip={folder}/k", "-f", str(folder / "kernel.json")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}

    async def see(*, may_fork, is_prepared=False):
        spare = await servers.prepare("") if is_prepared else None
        process = await servers.start(
            [sys.executable, "-m", "ipykernel_launcher", *options],
            environment={**kept, "LECTURECHECK_RUN": "0123456789abcdef", "LECTURECHECK_LECTURE": "a.md"},
            cwd=str(folder),
            output=2,
            pass_fds=(),
            may_fork=may_fork,
            spare=spare,
        )
        assert not is_prepared or process is spare.process
        assert await asyncio.to_thread(process.wait, 60) == 0
        assert process.is_forked is may_fork
        await process.end_tree(30)
        return json.loads((folder / "facts.json").read_text(encoding="utf-8"))

    # The first one, so that compiled files of modules are there for all.
    asyncio.run(see(may_fork=False))
    yield {
        "forked": asyncio.run(see(may_fork=True)),
        "prepared": asyncio.run(see(may_fork=True, is_prepared=True)),
        "executed": asyncio.run(see(may_fork=False)),
    }
    servers.close()


@pytest.mark.parametrize("way", ["forked", "prepared"])
def test_a_lecture_sees_the_same_process(seen, way):
    assert seen[way]["facts"] == seen["executed"]["facts"]


@pytest.mark.parametrize("way", ["forked", "prepared"])
def test_the_same_modules_are_loaded(seen, way):
    # Part of every interpreter; how it was started decides whether they are named.
    assert set(seen[way]["modules"]) ^ set(seen["executed"]["modules"]) <= {"gc", "runpy", "pkgutil"}


@pytest.mark.parametrize("way", ["forked", "prepared"])
@pytest.mark.parametrize("moment", ["ready", "with a block", "with a child"])
def test_the_same_memory_is_measured(seen, way, moment):
    forked, executed = seen[way]["memory"][moment], seen["executed"]["memory"][moment]
    for name, size in executed.items():
        assert abs(forked[name] - size) <= max(TOLERANCE_BYTES, TOLERANCE_FRACTION * size), name


def test_nothing_of_the_session_is_loaded(seen):
    assert not [name for name in seen["forked"]["modules"] if re.match(r"pytest|_pytest|pluggy|fork_server", name)]
