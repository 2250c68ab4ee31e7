"""Lectures that fail, wait, flood or leave: real kernels under the whole plugin."""

import re
import sys
from pathlib import Path

import pytest
from support.real_sessions import has_ended


@pytest.fixture(scope="module")
def session(project):
    project.put("C01", "C06", "C16", "C18", "C20", "C23", "C26")
    flood = project.folder / "C20" / "flood.ipynb"
    # A twentieth of the flood: still far more messages than a kernel's queue holds.
    text = flood.read_text(encoding="utf-8").replace("300_000", "15_000").replace("299_999", "14_999")
    flood.write_text(text.replace("60_000_000", "20_000_000"), encoding="utf-8")
    return project.pytest("--lecture-budget", "-n", "2", ".")


def test_the_session_as_a_whole(session):
    assert session.code == 1
    assert session.outcomes() == {"failed": 9, "passed": 5}


def test_a_kernel_that_is_not_installed(session):
    failure = session.failure("C01/gone.ipynb").splitlines()
    pattern = (
        r"kernel 'conda-env-lectures2019-py' is not installed; installed: .*\bpython3\b.*\. Install it, or choose "
        r"another one with --lecture-kernel NAME"
    )
    assert re.fullmatch(pattern, failure[0])
    assert session.run("C01/gone.ipynb")["outcome"] == "not started"
    assert session.statuses("C01/good.ipynb") == ["ok"]


@pytest.mark.usefixtures("session")
def test_another_kernel_instead_of_the_one_that_is_not_installed(project):
    session = project.pytest("--lecture-budget", "--lecture-kernel=python3", "C01/gone.ipynb")
    assert (session.code, session.outcomes()) == (0, {"passed": 1})
    assert session.run("C01/gone.ipynb")["kernel_name"] == "python3"


@pytest.mark.parametrize(
    ("name", "headline"),
    [
        ("exit0", "the lecture stops here: SystemExit: 0 (code cell 1, line 8)"),
        ("exit1", "the lecture stops here: SystemExit: bad input (code cell 1, line 8)"),
        (
            "quit",
            (
                "the lecture stops here: SystemExit: exit() or quit() was called; the cells after it would not run "
                "in a script (code cell 1, line 8)"
            ),
        ),
    ],
)
def test_every_way_to_exit_is_a_failure_of_its_cell(session, name, headline):
    assert session.failure(f"C06/{name}.ipynb").splitlines()[0] == headline
    assert session.run(f"C06/{name}.ipynb")["outcome"] == "failed"
    assert session.statuses(f"C06/{name}.ipynb")[1:] in ([], ["not run"])


@pytest.mark.parametrize(("name", "line"), [("ask", 7), ("pw", 8)])
def test_a_cell_that_asks_for_input_fails_at_once(session, name, line):
    headline = session.failure(f"C16/{name}.ipynb").splitlines()[0]
    assert headline == f"the cell asks for input, which is not available here (code cell 1, line {line})"


def test_a_breakpoint_does_not_wait(session):
    assert session.statuses("C16/bp.ipynb") == ["ok"]
    assert session.findings("C16/bp.ipynb") == ["breakpoint() was reached 1 time; it returns at once here"]


def test_a_thread_of_an_earlier_cell_is_named_beside_the_peak(session):
    assert session.peak("C18/late.ipynb") > 300e6
    assert [session.peak("C18/late.ipynb", cell) > 300e6 for cell in (1, 2, 3)] == [False, False, True]
    (finding,) = session.findings("C18/late.ipynb")
    assert re.fullmatch(
        r"thread 'Thread-\d+ \(later\)' started in code cell 1 was still alive when code cell 3 reached the "
        r"lecture's peak",
        finding,
    )


def test_a_flood_of_output_is_cut_and_its_end_arrives(session):
    failure = session.failure("C20/flood.ipynb").splitlines()
    assert failure[0] == "ValueError: short and clear (code cell 3, line 33)"
    assert session.findings("C20/flood.ipynb") == ["the cell's text output was long; its middle is not kept"] * 2
    lines, block = (cell["output_extract"] for cell in session.run("C20/flood.ipynb")["cells"][:2])
    assert lines.startswith("0\n1\n2\n")
    assert lines.endswith("14998\n14999\nLAST LINE\n")
    assert block.endswith("xx\n")
    for extract in (lines, block):
        assert len(re.findall(r"^\[\.\.\. \d+ characters cut \.\.\.\]$", extract, re.MULTILINE)) == 1
        assert len(extract) < 25_000


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_flood_does_not_grow_pytest(own_project):
    own_project.notebook("flood.ipynb", "for _ in range(40):\n    print('x' * 10_000_000, flush=True)")
    own_project.notebook(
        "pictures.ipynb", "for _ in range(40):\n    display({'text/html': 'x' * 10_000_000}, raw=True)"
    )
    own_project.write(
        "conftest.py",
        """
        import re

        def pytest_lecturecheck_verdict(run):
            # Not ru_maxrss, which begins with the peak of the process that started this one.
            with open("/proc/self/status") as status:
                peak_kib = re.search("VmHWM:[^0-9]*([0-9]+) kB", status.read())[1]
            print(f"{run.lecture} {int(peak_kib) // 1024} MiB")
        """,
    )
    session = own_project.pytest("--lecture-budget", "-s", "flood.ipynb", "pictures.ipynb", apart=True)
    assert session.outcomes() == {"passed": 2}
    peaks = {name: int(size) for name, size in re.findall(r"(\w+)\.ipynb (\d+) MiB", session.text)}
    # 400 MB of text and 400 MB of pictures went by. Single messages of 10 MB are in memory several times, and some more
    # wait where the kernel gets more of a busy machine than the session. A session that kept either would need more
    # than 500 MB, because pytest itself takes 100.
    assert max(peaks.values()) < 450, peaks


def test_a_failed_shell_line_is_shown_with_its_failure(session):
    failure = session.failure("C23/bang.ipynb")
    assert failure.startswith("ModuleNotFoundError: No module named 'surely_not_a_package_0001' (code cell 3, line 27)")
    assert "code cell 1, line 7: shell line 'exit 4' ended with code 4" in failure
    assert re.search(r"code cell 2, line 17: install line '.* -m pip install .*' ended with code 1", failure)


def test_a_failed_shell_line_alone_is_a_finding(session):
    assert session.verdict("C23/bang_only.ipynb")["failed"] is False
    assert session.findings("C23/bang_only.ipynb") == ["shell line 'ls /no/such/folder' ended with code 2"]


def test_a_failed_shell_line_alone_fails_under_strict(own_project):
    own_project.put("C23", flat=True)
    own_project.budgets({"bang_only.ipynb": '"1 GiB"'})
    session = own_project.pytest("--lecture-budget", "--lecture-strict", "bang_only.ipynb")
    headline = "strict: shell line 'ls /no/such/folder' ended with code 2 (code cell 1, line 7)"
    assert session.failure("bang_only.ipynb").splitlines()[0] == headline


def test_a_bash_cell_that_fails_raises(session):
    headline = session.failure("C23/bash.ipynb").splitlines()[0]
    assert headline.startswith("CalledProcessError: Command 'b'false\\n'' returned non-zero exit status 1.")


def test_the_kernel_runs_in_the_lectures_own_folder(session, project, tmp_path):
    assert session.statuses("C26/lectures/read.ipynb") == ["ok", "ok"]
    inside = project.pytest("--lecture-budget", ".", cwd="C26/lectures")
    assert (inside.code, inside.outcomes()) == (0, {"passed": 1})
    elsewhere = project.pytest("--lecture-budget", f"--rootdir={tmp_path}", "C26/lectures")
    assert (elsewhere.code, elsewhere.outcomes()) == (0, {"passed": 1})


def test_a_cell_without_end_and_the_lecture_after_it(own_project):
    own_project.put("C13", flat=True)
    session = own_project.pytest("--lecture-budget", "--lecture-timeout=5", ".")
    assert session.outcomes() == {"failed": 1, "passed": 1}
    failure = session.failure("a_loop.ipynb").splitlines()
    assert failure[0].startswith("code cell 2 timed out after 5 s")
    assert session.statuses("a_loop.ipynb") == ["ok", "timed out", "not run"]
    assert session.run("a_loop.ipynb")["evidence"]["stopped_by_interrupt"] is True


def test_nothing_of_a_run_is_alive_after_it(own_project):
    own_project.notebook(
        "leaves.ipynb",
        """
        import subprocess, sys
        sleeper = "import time; time.sleep(600)"
        left = subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=True)
        from pathlib import Path
        Path("pid").write_text(str(left.pid))
        """,
    )
    session = own_project.pytest("--lecture-budget", "leaves.ipynb")
    assert session.outcomes() == {"passed": 1}
    pid = (own_project.folder / "pid").read_text()
    (finding,) = [text for text in session.findings("leaves.ipynb") if text.startswith("left")]
    assert re.fullmatch(rf"left a process running: pid {pid}, '\w.*', [\d.]+ MiB; it was killed", finding)
    assert has_ended(int(pid))


def test_cells_that_are_cut_off_are_not_recorded(own_project):
    own_project.put("C06", "D04", flat=True)
    session = own_project.pytest("--lecture-record", "exit0.ipynb", "quit.ipynb", "pylist.ipynb")
    assert (session.code, session.outcomes()) == (1, {"failed": 3})
    assert {name: len(runs) for name, runs in session.runs.items()} == dict.fromkeys(session.runs, 1)
    assert not list(Path(own_project.folder).glob("lecture-budgets/*.toml"))
