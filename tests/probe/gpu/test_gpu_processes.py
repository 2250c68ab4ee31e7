import os
import subprocess
import sys

import pytest

from pytest_lecturecheck.model.probe import RUN_LECTURE_VARIABLE, RUN_TOKEN_VARIABLE
from pytest_lecturecheck.probe.gpu._processes import BareProcesses, ProcessFacts, ProcProcesses

KERNEL = 100


class Proc:
    """A folder like /proc."""

    def __init__(self, root):
        self.root = root

    def write(self, name, content):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def process(self, pid, *, parent=1, token="", lecture="", **changes):
        facts = {"start": 7, "state": "S", "comm": "python", "namespaces": ()} | changes
        environ = {"HOME": "/root"}
        if token:
            environ |= {RUN_TOKEN_VARIABLE: token, RUN_LECTURE_VARIABLE: lecture}
        dead = facts["state"] == "Z"
        self.write(f"{pid}/environ", "" if dead else "\0".join(f"{name}={value}" for name, value in environ.items()))
        self.write(f"{pid}/stat", f"{pid} (a) b) {facts['state']} {parent} " + "0 " * 17 + f"{facts['start']} 0")
        self.write(f"{pid}/comm", f"{facts['comm']}\n")
        numbers = "\t".join(map(str, (pid, *facts["namespaces"])))
        self.write(f"{pid}/status", f"Name:\tpython\nNSpid:\t{numbers}\nThreads:\t1\n")

    def gone(self, pid):
        for name in ("environ", "stat", "comm", "status"):
            (self.root / f"{pid}/{name}").unlink()


@pytest.fixture
def proc(tmp_path):
    made = Proc(tmp_path)
    made.process(KERNEL, parent=50, token="t", lecture="a.md")
    return made


def own(proc, *pids, processes=None):
    return (processes or ProcProcesses(proc.root)).find_own(pids, kernel_pid=KERNEL, token="t")


def test_marked_processes_belong_to_the_run(proc):
    proc.process(200, parent=1, token="t")
    proc.process(201, parent=KERNEL, token="u")
    proc.process(202, parent=1)
    assert own(proc, KERNEL, 200, 201, 202, 999) == {KERNEL, 200}


def test_a_replaced_environment_is_found_by_the_tree(proc):
    proc.process(200, parent=KERNEL)
    proc.process(201, parent=200)
    assert own(proc, 200, 201) == {200, 201}


def test_an_orphan_below_the_supervisor_is_the_runs(proc):
    proc.process(90)
    proc.process(KERNEL, parent=90, token="t")
    proc.process(200, parent=90)
    proc.process(201, parent=90, token="u")
    asked = (90, 200, 201)
    assert own(proc, *asked) == set()
    found = ProcProcesses(proc.root).find_own(asked, kernel_pid=KERNEL, token="t", supervisor_pid=90)
    assert found == {90, 200}


def test_an_unmarked_process_with_the_kernels_id_is_no_kernel(proc):
    proc.process(KERNEL)
    proc.process(200, parent=KERNEL)
    assert own(proc, KERNEL, 200) == set()


def test_numbers_of_inner_namespaces_are_translated(proc):
    proc.process(KERNEL, parent=50, token="t", namespaces=(37,))
    assert own(proc, 37) == {37}
    proc.process(37)
    assert own(proc, 37) == set()


def test_a_process_is_known_after_its_end(proc):
    processes = ProcProcesses(proc.root)
    alive = processes.facts(KERNEL)
    assert (alive.is_there, alive.token, alive.lecture) == (True, "t", "a.md")
    proc.process(KERNEL, state="Z")
    zombie = processes.facts(KERNEL)
    assert (zombie.is_there, zombie.token, zombie.lecture) == (False, "t", "a.md")
    assert own(proc, KERNEL, processes=processes) == {KERNEL}
    proc.gone(KERNEL)
    assert processes.facts(KERNEL) == zombie


def test_a_forked_kernel_has_no_token_until_it_has_written_it(proc):
    processes = ProcProcesses(proc.root)
    proc.process(200, parent=KERNEL, token="-" * 16, lecture="-" * 255)
    assert (processes.facts(200).token, processes.facts(200).lecture) == ("", "")
    assert own(proc, 200, processes=processes) == {200}
    proc.process(200, parent=KERNEL, token="u", lecture="b.md")
    assert processes.facts(200).lecture == "b.md"
    assert own(proc, 200, processes=processes) == set()


def test_a_reused_process_id_is_another_process(proc):
    processes = ProcProcesses(proc.root)
    processes.facts(KERNEL)
    proc.process(KERNEL, start=8)
    assert processes.facts(KERNEL) == ProcessFacts(is_there=True, is_orphan=True, start_ticks=8)
    proc.process(KERNEL, start=9, state="Z")
    assert processes.facts(KERNEL) == ProcessFacts()


@pytest.mark.parametrize(
    ("parent", "comm", "is_orphan"), [(1, "x", True), (60, "systemd", True), (60, "pytest", False)]
)
def test_orphans(proc, parent, comm, is_orphan):
    proc.process(60, comm=comm)
    proc.process(200, parent=parent, token="u")
    assert ProcProcesses(proc.root).facts(200).is_orphan is is_orphan


def test_names_of_lectures_are_fit_for_messages(proc):
    proc.process(200, token="u", lecture="a\x1b[31m\nb é.md" + "x" * 300)
    assert ProcProcesses(proc.root).facts(200).lecture == "a[31mb é.md" + "x" * 187
    proc.process(201, token="", lecture="")
    proc.write("201/environ", f"{RUN_LECTURE_VARIABLE}=a.md\0")
    assert ProcProcesses(proc.root).facts(201).lecture == ""


def test_memory_of_processes_is_bounded(proc):
    processes = ProcProcesses(proc.root)
    for pid in range(1000, 2500):
        proc.write(f"{pid}/stat", f"{pid} (x) S 1 " + "0 " * 17 + "7 0")
        processes.facts(pid)
    assert len(processes._known) == 1000


@pytest.mark.parametrize(("link", "known"), [("pid:[4026531836]", True), ("pid:[4026532211]", False), (None, False)])
@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there, and this is about Linux")
def test_ids_are_known_in_the_initial_namespace(proc, link, known):
    if link is not None:
        (proc.root / "self/ns").mkdir(parents=True)
        (proc.root / "self/ns/pid").symlink_to(link)
    assert ProcProcesses(proc.root).same_namespace is known


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_real_process():
    environ = {**os.environ, RUN_TOKEN_VARIABLE: "real", RUN_LECTURE_VARIABLE: "é.md"}
    code = "print(flush=True); input()"
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], env=environ, **streams) as child:
        # Popen returns before the new program has its environment.
        assert child.stdout.readline()
        processes = ProcProcesses()
        asked = [child.pid, os.getpid(), 2**22 + 1]
        assert processes.find_own(asked, kernel_pid=child.pid, token="real") == {child.pid}
        assert processes.facts(child.pid).lecture == "é.md"
        assert not processes.facts(child.pid).is_orphan
        child.kill()
        child.wait()
        assert processes.find_own(asked, kernel_pid=child.pid, token="real") == {child.pid}
        child.stdin.close()


def test_without_proc_the_tree_is_asked():
    assert BareProcesses().find_own([KERNEL, 7], kernel_pid=KERNEL, token="t") == {KERNEL}
    tree = BareProcesses(lambda pid: frozenset({pid, 7}))
    assert tree.find_own([7, 8], kernel_pid=KERNEL, token="t") == {7}
    assert tree.facts(7) == ProcessFacts()
    assert tree.same_namespace
