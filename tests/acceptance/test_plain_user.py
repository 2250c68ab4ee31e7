"""What tests of other rooms show as root, in a session of a user without privileges, and without a writable home."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from support.forged_replies import UNTRUSTED, forge
from support.odd_files import put_odd_file
from support.plain_user import as_plain_user, give_to_plain_user, is_root
from support.real_sessions import LectureProject

from pytest_lecturecheck.kernel.launchers.supervised import IS_SUPPORTED

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="supervisors of kernels are Linux's")

KILL_BOTH = """
import os, signal, subprocess, time
subprocess.run(["env", "-i", "/bin/sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $! > orphan"])
# The probe looks every 25 ms, less often on a busy machine.
time.sleep(2)
supervisor = os.getppid()
server = int(open(f"/proc/{supervisor}/stat").read().rpartition(")")[2].split()[1])
os.kill(server, signal.SIGKILL)
os.kill(supervisor, signal.SIGKILL)
time.sleep(600)
"""
SEGMENT = """
import ctypes
identity = ctypes.CDLL(None).shmget(0, 5_000_000, 0o1600)
assert identity >= 0
"""
# What sudo does: the program belongs to root and sets the user.
OTHER_USER = """
import subprocess, time
child = subprocess.Popen(["./sudo", "--reuid=0", "--regid=0", "--clear-groups", "sleep", "600"], env={})
while open(f"/proc/{child.pid}/comm").read() != "sleep\\n":
    time.sleep(0.01)
open("root.pid", "w").write(str(child.pid))
"""
# The mark by which processes of a run are found without a supervisor, in the environment of the session itself.
MARK_SESSION = """
import os, signal, time
def fields(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()
session = int(fields(int(fields(os.getppid())[1]))[1])
mark = b"LECTURECHECK_RUN=" + os.environ["LECTURECHECK_RUN"].encode() + b"\\0"
memory = os.open(f"/proc/{session}/mem", os.O_WRONLY)
os.pwrite(memory, mark, int(fields(session)[47]))
assert open(f"/proc/{session}/environ", "rb").read().startswith(mark)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(600)
"""
LECTURES = {
    "lost.ipynb": ("import sys\nsys.stdout = object()",),
    "forged.ipynb": (forge("ok", ends=True) + "1 / 0", "2"),
    "surrogate.ipynb": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(0.5,), name='a\\ud800').start()",
    ),
    "kills.ipynb": (KILL_BOTH,),
    "marks.ipynb": (MARK_SESSION,),
    "segment.ipynb": (SEGMENT,),
    "root.ipynb": (OTHER_USER,),
}


@pytest.fixture(scope="module")
def project():
    with tempfile.TemporaryDirectory(prefix="lecturecheck-test-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        place = Path(folder, "project")
        place.mkdir()
        yield LectureProject(place)


@pytest.fixture(scope="module")
def session(project):
    for name, cells in LECTURES.items():
        project.notebook(name, *cells)
    temporary = project.folder.parent / "tmp"
    temporary.mkdir()
    for number, kind in enumerate(("pipe", "link to /dev/zero")):
        put_odd_file(project.folder / f"code{number}.py", kind)
    before = []
    if is_root():
        before = as_plain_user([])
        give_to_plain_user(project.folder, project.runtime, temporary)
        shutil.copy(shutil.which("setpriv"), project.folder / "sudo")
        project.folder.joinpath("sudo").chmod(0o4755)
    # CI: failures are remembered, and the code beside the lectures is read.
    variables = {"CI": "1", "HOME": "/nonexistent", "TMPDIR": str(temporary)}
    ran = project.pytest("--lecture-budget", "-n2", *LECTURES, before=before, **variables)
    yield ran
    if is_root() and (project.folder / "root.pid").exists():
        subprocess.run(["kill", "-KILL", (project.folder / "root.pid").read_text(encoding="ascii")], check=False)


def test_odd_files_beside_lectures_do_not_hold_up_the_session(session):
    assert session.runs.keys() == LECTURES.keys()


def test_a_lost_reply_is_noticed(session):
    assert session.verdict("lost.ipynb")["headline"].startswith("kernel lost the reply to the cell in code cell 1")


def test_a_forged_end_is_a_finding(session):
    found = f"a reply arrived (status 'error') after the cell had ended{UNTRUSTED}"
    assert found in session.findings("forged.ipynb")


def test_half_a_surrogate_pair_harms_nothing(session):
    assert session.run("surrogate.ipynb")["outcome"] == "completed"


def test_an_orphan_does_not_outlive_supervisor_and_server(session, project):
    pid = int((project.folder / "orphan").read_text(encoding="ascii"))
    assert not Path(f"/proc/{pid}").exists()
    found = session.findings("kills.ipynb")
    assert any(text.startswith(f"left a process running: pid {pid}, ") for text in found)
    assert any(text.startswith("somebody killed the kernel's supervisor and the server of kernels") for text in found)


def test_a_session_with_the_mark_of_a_run_does_not_end_itself(session):
    assert session.verdict("marks.ipynb")["headline"].startswith("kernel was killed together with its supervisor")
    assert "went down" not in session.text


def test_a_segment_of_system_v_is_removed(session):
    (found,) = [text for text in session.findings("segment.ipynb") if "System V" in text]
    assert found.startswith("left 4.77 MiB in System V shared memory (")
    assert found.endswith("; it was removed")


def test_a_process_of_another_user_is_not_said_to_have_ended(session, project):
    if not is_root():
        pytest.skip("only root can make a program that sets its user")
    pid = int((project.folder / "root.pid").read_text(encoding="ascii"))
    (found,) = [text for text in session.findings("root.ipynb") if f"pid {pid}, " in text]
    assert found.endswith("; it runs as root and still runs: this session may not end it")
    assert Path(f"/proc/{pid}").exists()


@pytest.mark.usefixtures("session")
def test_no_temporary_folder_is_left(project):
    # But for pytest's own.
    left = [path.name for path in (project.folder.parent / "tmp").iterdir() if not path.name.startswith("pytest-of-")]
    assert left == []
