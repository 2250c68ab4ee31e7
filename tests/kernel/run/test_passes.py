"""A lecture again in the same kernel: only the times of it are kept."""

import pytest

from pytest_lecturecheck.model.run import Outcome

REPORT = """
from pytest_lecturecheck import report_figures
calls = globals().get("calls", 0) + 1
report_figures(step_seconds=float(calls))
"""


def test_later_passes_keep_times_and_reported_values(bench):
    run = bench.run(REPORT, "raised = calls > 1", passes=3)
    assert [item.number for item in run.passes] == [2, 3]
    assert [item.reported_values[0].value for item in run.passes] == [2.0, 3.0]
    assert all(item.wall_seconds > 0 and item.compile_seconds is None for item in run.passes)
    # What is measured and reported of the run itself is that of the first pass.
    assert run.reported_values["step_seconds"].value == 1.0
    assert [cell.number for cell in run.cells] == [1, 2]


@pytest.mark.parametrize(
    ("source", "what", "settings"),
    [
        ("assert calls < 3", "raised AssertionError", {}),
        ("if calls == 3: __import__('os').kill(__import__('os').getpid(), 9)", "ended the kernel", {}),
        ("if calls == 3: __import__('time').sleep(60)", "took more than 1 s", {"timeout_seconds": 1.0}),
    ],
)
def test_a_pass_that_fails_is_a_finding_and_not_a_failure(bench, source, what, settings):
    run = bench.run(REPORT, source, passes=5, **settings)
    assert run.outcome is Outcome.COMPLETED
    assert [item.number for item in run.passes] == [2]
    (finding,) = [item for item in run.findings if "pass 3" in item.message]
    assert finding.message == (
        f"code cell 2 {what} when the lecture was run again in the same kernel (pass 3); "
        "passes from there on are missing"
    )
