"""Timeouts from recorded times, and where they are written."""

import pytest
from support.made_cohorts import cohort, kernel
from support.made_matrix import kept_in
from support.made_sessions import KeptRun, kept, replace, session_of

from pytest_lecturecheck.findings.measured import measure
from pytest_lecturecheck.findings.timeout_edits import with_book_timeout, with_job_timeout, with_own_timeout
from pytest_lecturecheck.findings.timeouts import propose_timeouts, rounded_seconds


def test_the_default_covers_nine_of_ten_and_others_get_their_own():
    runs = [kept(f"{number}.md", 100, 30.0) for number in range(9)] + [kept("long.md", 100, 400.0)]
    found = propose_timeouts(measure([session_of(*runs)]))
    assert found.default_seconds == 120
    assert dict(found.own_seconds) == {"long.md": 1200}
    # 1.5 times 670 s and ten minutes.
    assert found.job_minutes == 30


def test_each_lecture_of_a_cohort_has_its_own_time():
    joined = cohort(kernel("a.md"), kernel("b.md"), name="mix")
    slow = replace(joined.run.members[1], cells=kept("b.md", 100, 400.0).run.cells)
    run = replace(joined.run, members=(kept("a.md", 100, 30.0).run, slow))
    found = propose_timeouts(measure([session_of(KeptRun(run=run, verdict=joined.verdict))]))
    assert (found.default_seconds, found.lecture_count) == (1200, 2)
    usual = [kept(f"{number}.md", 100, 30.0) for number in range(9)]
    found = propose_timeouts(measure([session_of(*usual, KeptRun(run=run, verdict=joined.verdict))]))
    assert dict(found.own_seconds) == {"b.md": 1200}


def test_a_job_runs_all_variants_of_the_last_session():
    tried = session_of(*(kept_in(f"size={size}", 5000) for size in (1, 2, 3)), name="tried")
    usual = session_of(kept_in("size=1", 600), kept_in("size=4", 1200), kept_in("", 200, lecture="b.md"), name="usual")
    # 1.5 times 5000 + 1200 + 200 s and ten minutes; size=1 took 5000 s at most.
    assert propose_timeouts(measure([tried, usual])).job_minutes == 170


def test_without_complete_runs_nothing_is_proposed():
    assert propose_timeouts(measure([])) is None


@pytest.mark.parametrize(("seconds", "expected"), [(0.1, 60), (61, 120), (600, 600), (601, 900), (3601, 4200)])
def test_timeouts_are_rounded_up(seconds, expected):
    assert rounded_seconds(seconds) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("---\na: 1\n---\ntext\n", "---\na: 1\nlecturecheck:\n  timeout: 90\n---\ntext\n"),
        (
            "---\nlecturecheck:\n    gpu: cpu\n---\n",
            "---\nlecturecheck:\n    timeout: 90\n    gpu: cpu\n---\n",
        ),
        ("---\nlecturecheck:\n  timeout: 5  # old\n---\n", "---\nlecturecheck:\n  timeout: 90  # old\n---\n"),
        ("---\r\na: 1\r\n---\r\n", "---\r\na: 1\r\nlecturecheck:\r\n  timeout: 90\r\n---\r\n"),
        ("---\nlecturecheck: {gpu: cpu}\n---\n", None),
        ("# no front matter\n", None),
    ],
)
def test_front_matter_gets_the_timeout(before, after):
    assert with_own_timeout(before, 90) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("title: x\nexecute:\n  timeout: 30\n", "title: x\nexecute:\n  timeout: 120\n"),
        ("execute:\n  cache: a\nhtml: {}\n", "execute:\n  timeout: 120\n  cache: a\nhtml: {}\n"),
        ("title: x", "title: x\nexecute:\n  timeout: 120\n"),
        ("execute: {timeout: 3}\n", None),
    ],
)
def test_a_book_gets_the_default(before, after):
    assert with_book_timeout(before, 120) == after


def test_a_job_gets_its_minutes():
    text = "jobs:\n  a:\n    runs-on: x\n    timeout-minutes: 5\n"
    assert with_job_timeout(text, 4, 30) == text.replace(": 5", ": 30")
    assert with_job_timeout(text, 3, 30) == text.replace("x\n", "x\n    timeout-minutes: 30\n")
    assert with_job_timeout(text, 2, 30) is None
