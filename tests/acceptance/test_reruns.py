"""A lecture that another plugin runs again: its last run counts."""

import pytest

# What pytest-rerunfailures does: the report of a failed phase becomes a "rerun", the teardown follows, and the item
# runs once more.
RERUN_PLUGIN = """
from _pytest.runner import runtestprotocol
import pytest

def pytest_runtest_protocol(item, nextitem):
    for is_last in (False, True):
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        repeats = not is_last and any(report.failed for report in reports)
        for report in reports:
            if repeats and report.failed:
                report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if not repeats:
            break
    return True

def pytest_report_teststatus(report):
    return ("rerun", "R", "RERUN") if report.outcome == "rerun" else None
"""


@pytest.fixture(params=[(), ("-n1",)], ids=["alone", "worker"])
def rerun(request, own_project):
    """A session on GitHub Actions, where failures are remembered, with a lecture that passes at its second run."""
    own_project.put("T10", flat=True)
    own_project.write("conftest.py", RERUN_PLUGIN)
    variables = {"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(own_project.folder / "summary.md")}
    return own_project.pytest("--lecture-budget", "--junitxml=junit.xml", *request.param, **variables)


def test_a_lecture_that_passes_at_its_second_run_passes(rerun, own_project):
    assert rerun.code == 0
    assert rerun.outcomes() == {"passed": 2, "rerun": 1}
    rows = [line.split()[1:3] for line in rerun.lines if line.startswith("flaky.ipynb  ")]
    assert rows == [["no", "budget"]]
    text = (
        "passed on the 2nd run, which another plugin asked for; 1st run failed: RuntimeError: first time "
        "(code cell 1, line 12)"
    )
    assert text in " ".join(" ".join(rerun.lines).split())
    (count,) = [line for line in rerun.lines if line.startswith("2 lectures in 3 runs: ")]
    assert count.startswith("2 lectures in 3 runs: 2 no budget; 1 run again; 2 cells run; ")
    annotations = [line for line in rerun.lines if line.startswith("::")]
    assert [line.split("title=")[1] for line in annotations] == [
        "flaky.ipynb%3A run again after failed::RuntimeError: first time (code cell 1, line 12)"
    ]
    assert annotations[0].startswith("::warning ")
    summary = (own_project.folder / "summary.md").read_text(encoding="utf-8")
    assert text in summary
    assert "1 run again" in summary
    assert "### Failures" not in summary
    assert rerun.verdict("flaky.ipynb")["earlier_ends"] == ["failed: RuntimeError: first time (code cell 1, line 12)"]
    assert rerun.verdict("fine.ipynb").get("earlier_ends", []) == []
    attempts = [
        item.get("value") for item in rerun.junit.iter("property") if item.get("name") == "lecturecheck.attempt"
    ]
    assert attempts == ["2"]
    verdicts = [
        [item.get("value") for item in case.iter("property") if item.get("name") == "lecturecheck.verdict"]
        for case in rerun.junit.iter("testcase")
    ]
    # pytest opens another test case for the second run; that of the first has no property.
    assert [found for found in verdicts if found] == [["no budget"], ["no budget"]]
    assert sorted(rerun.runs) == ["fine.ipynb", "flaky.ipynb"]
    assert rerun.verdict("flaky.ipynb")["kind"] == "no budget"
