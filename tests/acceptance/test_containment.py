"""Nothing of a lecture gets away, and nothing else is ended: as the user of the tests, and as a plain user."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.plain_user import NOBODY, as_plain_user, give_to_plain_user
from support.real_sessions import LectureProject, has_ended, session_environment, wait_until

from pytest_lecturecheck.kernel.launchers.supervised import IS_SUPPORTED

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="supervisors of kernels are Linux's")

WIPES_ITS_MARK = """
import os, time
start = int(open('/proc/self/stat').read().rpartition(')')[2].split()[47])
size = len(open('/proc/self/environ', 'rb').read())
memory = os.open('/proc/self/mem', os.O_WRONLY)
os.pwrite(memory, bytes(size), start)
open('up', 'w').close()
time.sleep(600)
"""
FIRST_THREAD_ENDS = """
import ctypes, os, signal, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
exit_thread = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
ctypes.CDLL(None).syscall(exit_thread, 0)
"""
START = {
    "an environment of its own": """
        import os, subprocess
        child = subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"]}, start_new_session=True)
        open("pids", "a").write(f"{child.pid} ")
    """,
    "an orphan with an empty environment": """
        import subprocess
        subprocess.run(["env", "-i", "/bin/sh", "-c", "sleep 600 >/dev/null 2>&1 & echo -n \\"$! \\" >> pids"])
    """,
    "a wiped mark": f"""
        import os, subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", {WIPES_ITS_MARK!r}], start_new_session=True)
        while not os.path.exists("up"):
            time.sleep(0.02)
        open("pids", "a").write(f"{{child.pid}} ")
    """,
    "a process that looks like a zombie": f"""
        child = subprocess.Popen([sys.executable, "-c", {FIRST_THREAD_ENDS!r}], env={{}})
        while open(f"/proc/{{child.pid}}/stat").read().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.02)
        open("pids", "a").write(f"{{child.pid}} ")
    """,
}
HOLDS_MEMORY = """
import os, time
open('holder', 'w').write(str(os.getpid()))
held = bytearray(600 << 20)
open('held', 'w').close()
time.sleep(600)
"""
ORPHAN_HOLDS_MEMORY = f"""
import os, subprocess, sys, time
subprocess.run(["env", "-i", "/bin/sh", "-c", '"$0" "$@" >/dev/null 2>&1 &', sys.executable, "-c", {HOLDS_MEMORY!r}])
def is_over():
    if os.path.exists("held"):
        return True
    # It was killed at the cap.
    pid = open("holder").read() if os.path.exists("holder") else ""
    return pid != "" and not os.path.exists(f"/proc/{{pid}}")
for _ in range(3000):
    if is_over():
        time.sleep(0.5)
        break
    time.sleep(0.02)
"""


@pytest.fixture(params=["the user of the tests", "a plain user"])
def user(request):
    """The command that starts pytest as some user."""
    return as_plain_user([]) if request.param == "a plain user" else []


@pytest.fixture
def project():
    # Not in pytest's own temporary folder, which is closed to other users.
    with tempfile.TemporaryDirectory(prefix="lecturecheck-test-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        place = Path(folder, "project")
        place.mkdir()
        yield LectureProject(place)


def run(project, user, *args):
    give_away(project, user)
    return project.pytest("--lecture-budget", *args, before=user, apart=True, HOME=str(project.folder))


def give_away(project, user):
    if user:
        give_to_plain_user(project.folder, project.runtime)


def pids_of(project):
    return [int(word) for word in (project.folder / "pids").read_text(encoding="ascii").split()]


@pytest.mark.parametrize("ending", ["x = 1", "import os; os._exit(1)"], ids=["passes", "dies"])
def test_what_a_lecture_started_is_ended_and_reported(project, user, ending):
    project.notebook("a.ipynb", *START.values(), ending)
    session = run(project, user, "a.ipynb")
    pids = dict(zip(START, pids_of(project), strict=True))
    assert {way: has_ended(pid) for way, pid in pids.items()} == dict.fromkeys(START, True)
    told = "\n".join(session.findings("a.ipynb"))
    assert {way: f"left a process running: pid {pid}, " in told for way, pid in pids.items()} == dict.fromkeys(
        START, True
    )


def test_what_a_lecture_started_ends_with_a_killed_session(project, user):
    """Even if the lecture has stopped its supervisor, which would end with the session otherwise."""
    stop = "import os, signal, time; os.kill(os.getppid(), signal.SIGSTOP)"
    project.notebook("a.ipynb", *START.values(), f"{stop}\nopen('ready', 'w').close()\ntime.sleep(600)")
    give_away(project, user)
    environment = session_environment(XDG_RUNTIME_DIR=str(project.runtime), HOME=str(project.folder))
    command = [*user, sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "--lecture-budget", "a.ipynb"]
    with subprocess.Popen(command, cwd=project.folder, env=environment, stdout=subprocess.DEVNULL) as session:
        wait_until((project.folder / "ready").exists)
        session.kill()
    pids = pids_of(project)
    assert len(pids) == len(START)
    wait_until(lambda: all(map(has_ended, pids)))


def test_an_orphan_s_memory_counts_in_peak_and_cap(project, user):
    project.notebook("a.ipynb", ORPHAN_HOLDS_MEMORY)
    session = run(project, user, "--lecture-memory-cap=300 MB", "a.ipynb")
    found = session.run("a.ipynb")
    told = [*session.findings("a.ipynb"), session.verdict("a.ipynb")["headline"]]
    assert any("cap" in text for text in told), (found["outcome"], told)
    for name in ("held", "holder"):
        (project.folder / name).unlink(missing_ok=True)
    session = run(project, user, "--lecture-memory-cap=off", "a.ipynb")
    assert session.peak("a.ipynb") > 600 << 20


def test_a_process_of_others_in_the_lecture_s_group_lives_on(project, user):
    """With privileges a lecture can write pytest itself into its memory group."""
    project.notebook(
        "a.ipynb",
        """
        import os
        def parent(pid):
            return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
        session = parent(parent(os.getppid()))
        for line in open("/proc/self/cgroup"):
            number, controllers, path = line.strip().split(":", 2)
            for root in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
                if "lecturecheck" in path and os.path.exists(f"{root}{path}/cgroup.procs"):
                    try:
                        open(f"{root}{path}/cgroup.procs", "w").write(str(session))
                    except OSError:
                        pass
        """,
        "import os; os._exit(1)",
    )
    session = run(project, user, "--lecture-memory-cap=2 GB", "a.ipynb")
    assert session.code == 1
    assert session.run("a.ipynb")["outcome"] == "died"
    assert session.outcomes() == {"failed": 1}


def test_a_lecture_that_raises_its_own_limit_is_held_to_it(project, user):
    """With privileges a lecture can raise the limit of its memory group; the watchdog holds it to the cap then."""
    project.notebook(
        "a.ipynb",
        """
        import os
        for line in open("/proc/self/cgroup"):
            path = line.strip().split(":", 2)[2]
            for root, names in (
                ("/sys/fs/cgroup/memory", ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes")),
                ("/sys/fs/cgroup", ("memory.max",)),
            ):
                for name in names if "lecturecheck" in path else ():
                    try:
                        open(f"{root}{path}/{name}", "w").write(str(20 << 30))
                    except OSError:
                        pass
        """,
        "import time\nheld = [bytearray(b'x' * (50 << 20)) for _ in range(16) if time.sleep(0.1) is None]",
    )
    session = run(project, user, "--lecture-memory-cap=400 MB", "a.ipynb")
    assert session.run("a.ipynb")["outcome"] == "died"
    assert "cap" in session.verdict("a.ipynb")["headline"]


def test_the_setup_makes_a_plain_user():
    """A test that ran as root after all could not fail where it should."""
    shown = "import os; print(os.getuid(), open('/proc/self/status').read())"
    done = subprocess.run(as_plain_user([sys.executable, "-c", shown]), capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{NOBODY} ")
    # Only to read files, where root may not open the way to the interpreter in another manner.
    held = int(re.search(r"CapEff:\s*(\w+)", done.stdout)[1], 16)
    assert held in {0, 1 << 2}
    refused = subprocess.run(as_plain_user(["touch", "/root/x"]), capture_output=True, check=False)
    assert refused.returncode != 0
