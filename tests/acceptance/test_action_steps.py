"""The steps of the action lecture-budget, in order, on a stand-in for GitHub's runner."""

import json
from pathlib import Path

import pytest
from support.action_runner import ActionRunner
from support.git_repository import git, make_repository, page

ACTION = Path(__file__).parents[2] / ".github" / "actions" / "lecture-budget"
INPUTS = {"install": "none", "strict": "false", "history-branch": "lecture-history"}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """Two jobs of one repository: a push that runs its lecture, and a pull request that changes nothing."""
    base = tmp_path_factory.mktemp("runner")
    server = base / "server" / "o" / "r"
    server.mkdir(parents=True)
    git(server, "init", "-q", "--bare")
    environment = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_SERVER_URL": f"file://{base / 'server'}",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_REF_NAME": "main",
        "GITHUB_RUN_ID": "1",
    }
    runner = ActionRunner(ACTION, base, environment)
    runs = []
    for name, event, inputs, until in (
        ("a", "push", INPUTS, ""),
        ("b", "pull_request", {**INPUTS, "changed": "HEAD"}, "Put the history on its branch"),
    ):
        workspace = base / name
        workspace.mkdir()
        make_repository(workspace, {"lectures/a.md": page("print(1)"), ".gitignore": ".lecturecheck/\nlecture-*\n"})
        job = runner.run(workspace, {**inputs, "artifact": name}, until, GITHUB_EVENT_NAME=event, GITHUB_RUN_ID=name)
        runs.append(job)
    return runner, server, runs


def test_all_steps_of_a_job_pass_in_order(jobs):
    _runner, _server, (job, _second) = jobs
    assert set(job.statuses.values()) == {0}, job.printed
    assert list(job.statuses) == [
        "Find the Python of the job",
        "Install lecturecheck",
        "Trust the checkout inside a container",
        "Find the keys of the caches",
        "Restore compile cache, memory of failures and history",
        "Get the history from its branch",
        "Check the lectures",
        "Put the history on its branch",
        "Give later steps the variables of kernels",
        "Set the outputs",
        "Propose budgets",
        "Upload reports, history and proposed budgets",
        "Keep compile cache, memory of failures and history",
    ]
    assert job.outputs["failed"] == "0"
    assert job.outputs["heaviest"] == "lectures/a.md"
    assert int(job.outputs["heaviest-bytes"]) > 2**20
    assert int(job.outputs["safe-concurrency"]) >= 1
    assert "lectures/a.md" in job.summary


def test_a_job_leaves_reports_history_and_budgets(jobs):
    runner, server, _runs = jobs
    names = {path.name for path in (runner.artifacts / "a").rglob("*") if path.is_file()}
    expected = {"report.json", "report.html", "report.md", "junit.xml", "proposed-budgets.patch"}
    assert names == expected | {"lecture-history.jsonl"}
    [line] = git(server, "show", "lecture-history:lecture-history.jsonl").splitlines()
    assert json.loads(line)["lecture"] == "lectures/a.md"


def test_a_pull_request_reads_what_earlier_jobs_left(jobs):
    runner, server, (_job, second) = jobs
    assert set(second.statuses.values()) == {0}, second.printed
    assert second.printed["Restore compile cache, memory of failures and history"].startswith("lecturecheck-1-")
    assert "adds nothing to the history" in second.printed["Put the history on its branch"]
    assert "unchanged since HEAD" in second.printed["Check the lectures"]
    assert json.loads((runner.base / "b" / "lecture-history.jsonl").read_text())["lecture"] == "lectures/a.md"
    assert git(server, "rev-list", "--count", "lecture-history").strip() == "1"
