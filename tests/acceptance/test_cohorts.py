"""Cohorts: kernels started at the same moment, in sessions of their own, under every way of sharing out tests."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.real_sessions import Session, session_environment, wait_until

TOUCH = """
    import pathlib, time
    mine, other = pathlib.Path("{mine}.here"), pathlib.Path("{other}.here")
    mine.touch()
    for _ in range(400):
        if other.exists():
            break
        time.sleep(0.05)
    else:
        raise TimeoutError("{other} never came")
    """


def cohort(session: Session, lecture: str, variant: str) -> dict:
    """Give the one record of a cohort."""
    (only,) = [item for item in session.runs[lecture] if item["run"].get("variant", "") == variant]
    return only


def values(record: dict) -> dict[str, float]:
    return {name: reading["value"] for name, reading in record["readings"].items() if "value" in reading}


def items(session: Session) -> list[str]:
    return [line for line in session.lines if "::" in line]


@pytest.fixture
def pair(own_project):
    """Two lectures each of which waits for the other one."""
    own_project.notebook("a.ipynb", TOUCH.format(mine="a", other="b"))
    own_project.notebook("b.ipynb", TOUCH.format(mine="b", other="a"))
    own_project.write("lecturecheck.toml", '[cohort.pair]\nlectures = ["a.ipynb", "b.ipynb"]\n')
    return own_project


@pytest.mark.parametrize(
    "args",
    [
        ("-n", "0"),
        ("-n", "1", "--dist=load"),
        ("-n", "2", "--dist=load"),
        ("-n", "2", "--dist=worksteal"),
        ("-n", "2", "--dist=loadgroup"),
        ("-n", "2", "--dist=loadscope"),
    ],
    ids=" ".join,
)
def test_lectures_that_wait_for_each_other_pass_together(pair, args):
    session = pair.pytest("--lecture-budget", *args, "a.ipynb::cohort[pair]")
    assert session.outcomes() == {"passed": 1}, session.text
    record = cohort(session, "a.ipynb", "pair")["run"]
    assert [member["lecture"] for member in record["members"]] == ["a.ipynb", "b.ipynb"]
    assert [member["outcome"] for member in record["members"]] == ["completed", "completed"]
    assert min(member["first_cell_seconds"] for member in record["members"]) == 0


def test_run_in_turn_they_time_out(pair):
    session = pair.pytest("--lecture-budget", "--lecture-timeout=2", "-k", "not cohort")
    assert session.statuses("a.ipynb") == ["timed out"], session.text


SERIAL = """
    import os, pathlib, time
    mine, other = pathlib.Path("{mine}.at-work"), pathlib.Path("{other}.at-work")
    mine.touch()
    deadline = time.monotonic() + float(os.environ["WORK_SECONDS"])
    while time.monotonic() < deadline:
        assert not other.exists(), "{other} is at work as well"
        time.sleep(0.02)
    mine.unlink()
    """


def test_lectures_that_must_not_run_at_once_do_so_in_a_cohort_only(own_project):
    own_project.notebook("first.ipynb", SERIAL.format(mine="first", other="second"))
    own_project.notebook("second.ipynb", SERIAL.format(mine="second", other="first"))
    own_project.write("lecturecheck.toml", '[cohort.both]\nlectures = ["first.ipynb", "second.ipynb"]\n')
    alone = own_project.pytest("--lecture-budget", "-k", "not cohort", WORK_SECONDS="0.2")
    assert alone.outcomes()["passed"] == 2, alone.text
    # Until they see each other, however late one of them comes.
    session = own_project.pytest("--lecture-budget", "-k", "cohort", WORK_SECONDS="60")
    record = cohort(session, "first.ipynb", "both")
    assert record["run"]["outcome"] == "failed", session.text
    assert "is at work as well" in session.text


# All hold their memory at once, and long enough to be seen by a session that is held up.
GROW_AND_MEET = """
    import os, pathlib, re, time
    x = b'1' * (100 * 1024**2)
    place = re.fullmatch(r"kernel \\d+ of (\\d+) of .*", os.environ["LECTURECHECK_LECTURE"])
    count = int(place[1]) if place else 1
    pathlib.Path(f"{count}-{os.getpid()}.here").touch()
    while len(list(pathlib.Path().glob(f"{count}-*.here"))) < count:
        time.sleep(0.02)
    time.sleep(2.5 if count > 1 else 0)
    """


def test_numbers_of_kernels_replace_the_plain_item(own_project):
    own_project.notebook("grow.ipynb", GROW_AND_MEET)
    session = own_project.pytest("--lecture-budget", "--lecture-concurrency=2,1", "--junitxml=junit.xml", "-v")
    assert [line.split()[0] for line in items(session)] == ["grow.ipynb::lecture[c=1]", "grow.ipynb::lecture[c=2]"]
    assert session.outcomes() == {"passed": 2}, session.text
    alone, both = (cohort(session, "grow.ipynb", variant)["run"] for variant in ("", "c=2"))
    peaks = [values(member)["peak_footprint_bytes"] for member in both["members"]]
    together = both["readings"]["peak_footprint_bytes"]
    assert max(peaks) < together["value"] <= together.get("high", together["value"])
    assert together.get("high", together["value"]) == pytest.approx(sum(peaks), rel=0.02)
    assert together["value"] > 1.8 * values(alone)["peak_footprint_bytes"]
    # Ends of cells are kept to the microsecond.
    longest = max(values(member)["wall_seconds"] for member in both["members"])
    assert values(both)["wall_seconds"] >= longest - 1e-5
    assert values(both)["cpu_seconds"] == pytest.approx(
        sum(values(member)["cpu_seconds"] for member in both["members"])
    )
    assert "safe concurrency on this platform: 2 or more (no higher number was tried)" in session.text
    properties = {item.get("name"): item.get("value") for item in session.junit.iter("property")}
    assert properties["lecturecheck.kernels"] == "2"
    assert properties["lecturecheck.kernel.2.outcome"] == "completed"
    assert float(properties["lecturecheck.start_skew_seconds"]) == pytest.approx(
        max(member["first_cell_seconds"] for member in both["members"]), abs=1e-6
    )


def test_a_lecture_sets_its_own_concurrency(own_project):
    own_project.notebook("own.ipynb", "x = 1", lecturecheck={"concurrency": "1,2"})
    own_project.notebook("plain.ipynb", "'concurrency'")
    own_project.write(
        "own.md",
        "---\nkernelspec:\n  name: python3\nlecturecheck:\n  concurrency: [3]\n---\n\n```{code-cell}\n1\n```\n",
    )
    session = own_project.pytest("--lecture-budget", "--collect-only", "-q")
    assert items(session) == [
        "own.ipynb::lecture[c=1]",
        "own.ipynb::lecture[c=2]",
        "own.md::lecture[c=3]",
        "plain.ipynb::lecture",
    ]


def test_concurrency_missed_by_collection_is_a_finding(own_project):
    more = {"a" * 20_000: 1, "lecturecheck": {"concurrency": 2}, "z" * 20_000: 1}
    own_project.notebook("far.ipynb", "x = 1\n" + "# far\n" * 4000, **more)
    session = own_project.pytest("--lecture-budget")
    (found,) = session.findings("far.ipynb")
    assert found == (
        "concurrency is set too far from the beginning and the end of the lecture's file to be found when lectures are "
        "collected, so the lecture was run by itself; set it with --lecture-concurrency or in the settings file"
    )


def test_a_cohort_has_budgets_of_its_own(own_project):
    own_project.notebook(
        "own.ipynb", "import os, time\nx = b'1' * (int(os.environ.get('MORE', 0)) + 50) * 1024**2\ntime.sleep(0.5)"
    )
    recorded = own_project.pytest("--lecture-record", "--lecture-runs=2", "--lecture-concurrency=2")
    assert recorded.outcomes() == {"passed": 1}, recorded.text
    assert len(recorded.runs["own.ipynb"]) == 2
    text = (own_project.folder / "lecture-budgets" / "linux-x86_64-cpu.toml").read_text()
    assert '[lectures."own.ipynb".variants."c=2"]' in text
    assert '[lectures."own.ipynb"]' not in text
    within = own_project.pytest("--lecture-budget", "--lecture-concurrency=1,2")
    assert cohort(within, "own.ipynb", "c=2")["verdict"]["kind"] == "within"
    assert cohort(within, "own.ipynb", "")["verdict"]["kind"] == "no budget"
    over = own_project.pytest("--lecture-budget", "--lecture-concurrency=2", MORE="200")
    assert cohort(over, "own.ipynb", "c=2")["verdict"]["kind"] == "over"


def test_a_cohort_of_a_lecture_that_is_not_there_starts_nothing(own_project):
    own_project.notebook("a.ipynb", "x = 1")
    own_project.write("lecturecheck.toml", '[cohort.pair]\nlectures = ["a.ipynb", "b.ipynb"]\n')
    session = own_project.pytest("--lecture-budget")
    assert session.code == pytest.ExitCode.USAGE_ERROR
    assert session.text.strip() == (
        "ERROR: lecturecheck: lecturecheck.toml: [cohort.pair]: there is no lecture 'b.ipynb' below rootdir "
        f"{own_project.folder}"
    )


DIES_SECOND = """
    import os, pathlib, time
    try:
        pathlib.Path("first").mkdir()
    except FileExistsError:
        os._exit(7)
    time.sleep(1)
    """


def test_a_kernel_that_dies_leaves_the_others_alone(own_project):
    own_project.notebook("race.ipynb", "x = 1", DIES_SECOND)
    session = own_project.pytest("--lecture-budget", "--lecture-concurrency=3")
    assert session.outcomes() == {"failed": 1}
    item = cohort(session, "race.ipynb", "c=3")
    assert sorted(member["outcome"] for member in item["run"]["members"]) == ["completed", "died", "died"]
    assert item["verdict"]["kind"] == "died"
    assert item["verdict"]["headline"].startswith("2 of 3 kernels died: ")
    places = [place for place, member in enumerate(item["run"]["members"], 1) if member["outcome"] == "completed"]
    assert f"kernel {places[0]} of 3 of race.ipynb completed" in item["verdict"]["notes"]
    assert (
        "safe concurrency on this platform: none of those tried (with 3, two of 3 kernels died: kernel exited)"
        in session.text
    )


def test_a_kernel_that_never_starts_blocks_no_other(own_project):
    own_project.notebook("good.ipynb", "x = 1")
    own_project.notebook("bad.ipynb", "x = 1", kernelspec={"name": "no-such-kernel", "display_name": "No"})
    own_project.write("lecturecheck.toml", '[cohort.mix]\nlectures = ["good.ipynb", "bad.ipynb"]\n')
    session = own_project.pytest("--lecture-budget", "good.ipynb::cohort[mix]")
    record = cohort(session, "good.ipynb", "mix")
    assert [member["outcome"] for member in record["run"]["members"]] == ["completed", "not started"], session.text
    assert record["verdict"]["headline"].startswith("1 of 2 kernels did not start: ")


def test_a_limit_from_outside_ends_all_kernels(own_project):
    own_project.notebook("slow.ipynb", "import time\ntime.sleep(300)")
    # The limit holds for the start of the kernels as well, which takes longer on a busy machine.
    for seconds in (6, 18, 54):
        session = own_project.pytest("--lecture-budget", "--lecture-concurrency=2", f"--timeout={seconds}")
        record = cohort(session, "slow.ipynb", "c=2")
        if all(member["outcome"] != "not started" for member in record["run"]["members"]):
            break
    assert [member["outcome"] for member in record["run"]["members"]] == ["timed out", "timed out"]
    assert record["verdict"]["headline"].startswith("2 of 2 kernels timed out: ")


def living(folder):
    """Give the processes whose folder this is."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "cwd").readlink() == folder:
                found.append(process.name)
        except OSError:
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_an_interruption_ends_all_kernels(own_project):
    own_project.notebook(
        "slow.ipynb", "import os, pathlib, time\npathlib.Path(f'{os.getpid()}.up').touch()\ntime.sleep(300)"
    )
    command = [sys.executable, "-m", "pytest", "--lecture-budget", "--lecture-concurrency=3"]
    process = subprocess.Popen(
        command,
        cwd=own_project.folder,
        env=session_environment(XDG_RUNTIME_DIR=str(own_project.runtime)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while len(list(own_project.folder.glob("*.up"))) < 3 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, output
    wait_until(lambda: living(own_project.folder) == [])


def test_a_failure_is_remembered_for_its_number_of_kernels(own_project):
    own_project.notebook("race.ipynb", "import pathlib\npathlib.Path('once').mkdir()")
    (own_project.folder / "once").mkdir()
    args = ("--lecture-budget", "--lecture-remember-failures", "--lecture-concurrency=2")
    first = own_project.pytest(*args)
    assert cohort(first, "race.ipynb", "c=2")["verdict"]["kind"] == "failed"
    again = own_project.pytest(*args)
    assert cohort(again, "race.ipynb", "c=2")["verdict"]["kind"] == "failed before"
