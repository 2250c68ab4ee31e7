"""What lectures wait for is written even where no other progress is shown."""

from dataclasses import replace

from support.made_entries import within

from pytest_lecturecheck.plugin.wait_lines import WaitLines
from pytest_lecturecheck.report.terminal.progress import ShownProgress

WAITS = ShownProgress(
    name="lectures/nuts.md", cell=0, total=3, elapsed_seconds=0.0, waits_for="waits for 4 GiB, 1 running"
)


def test_each_new_reason_is_one_line():
    lines = []
    waits = WaitLines(lines.append)
    waits.note(WAITS)
    assert lines == []
    for progress in (WAITS, replace(WAITS, elapsed_seconds=5.0), replace(WAITS, waits_for="waits to run alone")):
        waits.note(progress)
        waits.show()
    assert lines == ["lectures/nuts.md: waits for 4 GiB, 1 running", "lectures/nuts.md: waits to run alone"]


def test_a_lecture_that_runs_has_no_line():
    lines = []
    waits = WaitLines(lines.append)
    for progress in (replace(WAITS, waits_for=""), replace(WAITS, waits_for="", cell=1)):
        waits.note(progress)
        waits.show()
    waits.end(within("lectures/nuts.md"))
    waits.clear()
    assert lines == []


def test_the_next_run_that_waits_has_a_line_again():
    lines = []
    waits = WaitLines(lines.append)
    for _ in range(2):
        waits.note(WAITS)
        waits.show()
        waits.end(within("lectures/nuts.md"))
    assert len(lines) == 2
