"""Workers of xdist that are killed, or whose words cross: what the controller tells of them."""

from __future__ import annotations

import re
import sys

import pytest

WORKER_NUMBERS = """
    import os, pathlib
    def pytest_runtest_setup(item):
        pathlib.Path(f"{item.path.stem}.worker").write_text(str(os.getpid()))
    """
"""Has every worker leave its process id before it runs a lecture."""

KILLS_THE_ONE_THAT_WAITS = """
    import os, pathlib, signal, time
    ledger = pathlib.Path(os.environ["XDG_RUNTIME_DIR"], "lecturecheck-leases")
    for _ in range(1200):
        if list(ledger.glob("ticket-*.json")):
            break
        time.sleep(0.05)
    else:
        raise TimeoutError("nobody waits")
    (other,) = [name for name in ("a", "b") if name != {name!r}]
    os.kill(int(pathlib.Path(f"{{other}}.worker").read_text()), signal.SIGKILL)
    """


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_a_lecture_whose_worker_is_killed_while_it_waits_is_in_the_summary(own_project):
    for name in "ab":
        own_project.notebook(
            f"{name}.ipynb", KILLS_THE_ONE_THAT_WAITS.format(name=name), lecturecheck={"exclusive": True}
        )
    own_project.write("conftest.py", WORKER_NUMBERS)
    session = own_project.pytest("--lecture-budget", "-n2", "--max-worker-restart=0")
    outcomes = {name: session.run(f"{name}.ipynb")["outcome"] for name in "ab"}
    assert sorted(outcomes.values()) == ["completed", "not started"], session.text
    lost = next(name for name, outcome in outcomes.items() if outcome == "not started")
    (ran,) = {"a", "b"} - {lost}
    why = f"waiting to start (waits for '{ran}.ipynb', which runs alone)"
    assert session.run(f"{lost}.ipynb")["reason"] == f"its worker went down while it was {why}"
    assert session.verdict(f"{lost}.ipynb")["failed"] is True
    (told,) = [line for line in session.lines if " went down: " in line]
    assert re.fullmatch(rf"worker gw[01] went down: {re.escape(f'{lost}.ipynb was {why}')}", told)
    assert any(line.split()[:3] == [f"{lost}.ipynb", "not", "started"] for line in session.lines), session.text


@pytest.mark.parametrize("dist", ["load", "worksteal"])
def test_output_of_several_workers_arrives_whole(own_project, dist):
    for name in "abcd":
        own_project.notebook(
            f"{name}.ipynb", "import time\nx = bytearray(50 * 2**20)\ntime.sleep(1)", "time.sleep(0.5)"
        )
    own_project.write("lecturecheck.toml", 'heartbeat = "500 ms"\n')
    session = own_project.pytest("--lecture-budget", "-n2", "-v", f"--dist={dist}")
    assert session.outcomes() == {"passed": 4}, session.text
    begin = next(number for number, line in enumerate(session.lines) if line.startswith("scheduling tests via"))
    end = next(number for number, line in enumerate(session.lines) if re.fullmatch("=+ lectures =+", line))
    shown = [line.rstrip() for line in session.lines[begin + 1 : end] if line.strip()]
    size, time = r"[\d.]+ (?:[KMG]iB|B)", r"(?:\d+ (?:h|min) )*[\d.]+ m?s"
    # What others do to this machine meanwhile: a peak that is a range, and memory that runs low.
    peak = rf"(?:>= )?{size}(?: to {size})?"
    machine = rf"(?:; (?:machine|memory group) {size} free of {size})+(?:; load [\d.]+)?"
    patterns = (
        r"[a-d]\.ipynb::lecture(?:@.+)?",
        r"\[gw[01]\] \[ *\d+%\] PASSED [a-d]\.ipynb::lecture(?:@.+)?",
        r"[a-d]\.ipynb: starts, 2 code cells",
        rf"[a-d]\.ipynb: waits .+, \d running(?:, for {time})?",
        rf"[a-d]\.ipynb: (?:kernel (?:start|stop)s|cell [12] of 2), {time}(?:, {size}(?:, peak {size})?)?{machine}",
        rf"[a-d]\.ipynb: no budget after {time}, peak {peak}",
        rf"memory is low: {size} of {size} free \(\d+ %\), (?:machine|memory group)(?:; .+)?",
    )
    assert [line for line in shown if not any(re.fullmatch(pattern, line) for pattern in patterns)] == []
    for name in "abcd":
        words = [line.split()[1:3] for line in shown if line.startswith(f"{name}.ipynb: ")]
        # Of a cell that is over within an interval there may be no line.
        begun = next((index for index, pair in enumerate(words) if pair[0] == "cell"), len(words))
        assert ["kernel", "starts,"] not in words[begun:]
        assert sum(line.startswith(f"{name}.ipynb: no budget after ") for line in shown) == 1
        assert session.peak(f"{name}.ipynb") > 50 * 2**20
        assert len(session.run(f"{name}.ipynb")["timeline"]) > 1


WAITS = (
    "import os, time\ndef wait(name, there):\n    while os.path.exists(name) is not there:\n        time.sleep(0.02)\n"
)


def test_lectures_that_clash_over_a_file_are_told(own_project):
    """Each goes on when the other has done its part, so that the order is always the same."""
    own_project.notebook(
        "a.ipynb", WAITS, "open('a.on', 'w').close()\nwait('b.on', True)\nopen('x.csv', 'w').write('1')",
        "wait('x.csv', False)\nopen('x.csv').read()",
    )  # fmt: skip
    own_project.notebook(
        "b.ipynb", WAITS, "open('b.on', 'w').close()\nwait('a.on', True)\nwait('x.csv', True)\nos.remove('x.csv')"
    )
    session = own_project.pytest("--lecture-budget", "-n2", "--lecture-timeout=60")
    assert session.outcomes() == {"failed": 1, "passed": 1}, session.text
    (told,) = [finding for finding in session.findings("a.ipynb") if "ran in the same folder" in finding]
    assert "'x.csv' changed while 'b.ipynb' ran in the same folder" in told
    assert "'b.ipynb' ran in the same folder" in " ".join(session.failure("a.ipynb").split())
