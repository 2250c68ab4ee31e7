"""The scripts of the actions in .github/actions: what they run, write and send."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.fake_github import FakeGitHub
from support.git_repository import make_repository, write
from support.kept_documents import document
from support.made_sessions import kept, session_of

from pytest_lecturecheck.store.budget_file.files import load_budgets
from pytest_lecturecheck.verdict import VerdictKind

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "actions" / "lecture-budget"
SHA = "a" * 40
BOT = {"type": "Bot"}


@pytest.fixture
def script(monkeypatch, tmp_path):
    """Return a function that imports a script as its step would find it, in an empty working folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_ENV"):
        monkeypatch.setenv(name, str(tmp_path / name))
    names = [path.stem for path in FOLDER.glob("*.py")]
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def inputs(monkeypatch):
    def set_them(**values):
        for name, text in values.items():
            monkeypatch.setenv(f"INPUT_{name}", text)

    return set_them


@pytest.fixture
def github(monkeypatch):
    lists = {}
    fake = FakeGitHub(lists)
    monkeypatch.setenv("GITHUB_API_URL", fake.url)
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
    monkeypatch.setenv("GITHUB_TOKEN", "t")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://host")
    yield fake
    fake.close()


def written(tmp_path, name):
    path = tmp_path / name
    return path.read_text() if path.exists() else ""


# -- the gate ----------------------------------------------------------------------------------------------------------


def test_the_command_has_an_option_for_each_input(script, inputs):
    inputs(
        LECTURES="lectures -odd.md",
        STRICT="true",
        CHANGED="origin/main",
        HISTORY="h.jsonl",
        BOOK_CACHE="_build/.jupyter_cache",
        WORKERS="2",
        ARGS="-k 'a or b'",
    )
    line = script("gate").command(Path("/out"))
    assert line[1:] == [
        *("-m", "pytest", "--lecture-budget", "--lecture-strict", "--lecture-changed=origin/main"),
        *("--lecture-history=h.jsonl", "--lecture-cache=_build/.jupyter_cache", "-n", "2"),
        *("--lecture-report=/out/report.json", "--lecture-report=/out/report.html", "--lecture-report=/out/report.md"),
        *("--junitxml=/out/junit.xml", "-k", "a or b", "lectures", "./-odd.md"),
    ]


def test_the_status_of_the_gate_is_the_status_of_the_step(script, monkeypatch):
    gate = script("gate")
    Path("lecture-report").mkdir()
    Path("lecture-report/report.json").write_text("old")
    for status, expected in ((0, 0), (5, 5), (-9, 1)):
        monkeypatch.setattr(
            gate.subprocess, "run", lambda *_, status=status, **__: subprocess.CompletedProcess([], status)
        )
        assert gate.main() == expected
    assert not Path("lecture-report/report.json").exists()


def test_a_history_outlives_the_job_and_a_committed_one_stays(script):
    gate, path = script("gate"), Path("sub/h.jsonl")
    gate.bring_history(path)
    assert not path.exists()
    path.parent.mkdir()
    path.write_text("1\n")
    gate.keep_history(path)
    path.unlink()
    gate.bring_history(path)
    assert path.read_text() == "1\n"
    path.write_text("committed\n")
    gate.bring_history(path)
    assert path.read_text() == "committed\n"


# -- outputs -----------------------------------------------------------------------------------------------------------


def report(**totals):
    machine = {"ram_bytes": 16 * 2**30, "core_count": 8}
    values = {
        "failed": 1,
        "highest_peak_footprint_bytes": 4 * 2**30,
        "highest_peak_footprint_lecture": "a\nfailed=0\n.md",
        **totals,
    }
    return {"totals": values, "runs": [{"run": {"machine": machine}}]}


def test_outputs_come_from_the_report(script, tmp_path):
    write(tmp_path, {"lecture-report/report.json": json.dumps(report())})
    script("gate_outputs").main()
    text = written(tmp_path, "GITHUB_OUTPUT")
    blocks = {row.partition("<<")[0] for row in text.splitlines() if "<<END_" in row}
    assert blocks == {"failed", "heaviest", "heaviest-bytes", "safe-concurrency"}
    assert "safe-concurrency<<" in text
    assert "\n3\n" in text


def test_a_missing_report_is_said_in_the_summary(script, tmp_path, capsys):
    script("gate_outputs").main()
    assert "The job ended before the gate had written a report." in written(tmp_path, "GITHUB_STEP_SUMMARY")
    assert "::error::the gate ended before it had written a report" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, 3), ({"highest_peak_footprint_bytes": None}, 1), ({"highest_peak_footprint_bytes": 1}, 8)],
)
def test_safe_concurrency_is_what_the_heaviest_lecture_allows(script, changes, expected):
    assert script("gate_outputs").safe_concurrency(report(**changes)) == expected


# -- proposed budgets --------------------------------------------------------------------------------------------------


def test_proposed_budgets_are_a_patch_for_git(script, tmp_path):
    make_repository(tmp_path, {"README.md": ""})
    session = session_of(kept("a.md", 50, kind=VerdictKind.NO_BUDGET), kept("b.md", 50))
    write(tmp_path, {"lecture-report/report.json": document(session)})
    assert script("propose").main() == 0
    assert not Path("lecture-budgets").exists()
    subprocess.run(["git", "apply", "lecture-report/proposed-budgets.patch"], cwd=tmp_path, check=True)
    [(name, _variant)] = load_budgets(tmp_path / "lecture-budgets" / "linux-x86_64-cpu.toml").lectures
    assert name == "a.md"


def test_only_runs_that_are_not_within_propose_budgets(script):
    kinds = ("within", "over", "no budget", "improved", "failed")
    given = {"platform": "here", "runs": [{"verdict": {"kind": kind}} for kind in kinds]}
    found = script("propose").without_good_runs(given)
    assert found["platform"] == "here"
    assert [item["verdict"]["kind"] for item in found["runs"]] == ["over", "no budget", "improved"]


def test_nothing_to_propose_leaves_no_patch(script, tmp_path):
    propose = script("propose")
    assert propose.main() == 0
    write(tmp_path, {"lecture-report/report.json": document(session_of(kept("b.md", 50)))})
    assert propose.main() == 0
    assert not Path("lecture-report/proposed-budgets.patch").exists()


# -- caches ------------------------------------------------------------------------------------------------------------


def test_cache_keys_are_apart_from_those_of_others(script, inputs, monkeypatch, tmp_path):
    inputs(PLATFORM="g4dn.2xlarge", BOOK_CACHE="_build/.jupyter_cache")
    monkeypatch.setenv("GITHUB_REF_NAME", "12/merge")
    prepare = script("prepare")
    prepare.main()
    text = written(tmp_path, "GITHUB_OUTPUT")
    assert f"\nlecturecheck-1-{sys.platform}-" in text
    assert "-12_merge-" in text
    assert prepare.book_cache() == "_build/.jupyter_cache"
    (tmp_path / "_build" / ".jupyter_cache").mkdir(parents=True)
    assert prepare.book_cache() == ""


# -- the comment -------------------------------------------------------------------------------------------------------


@pytest.fixture
def pull(github, monkeypatch, tmp_path):
    for name, text in {"HEAD_SHA": SHA, "HEAD_OWNER": "fork", "HEAD_BRANCH": "b", "RUN_ID": "5"}.items():
        monkeypatch.setenv(name, text)
    github.lists["pulls"] = [{"number": 3, "head": {"sha": "b" * 40}}, {"number": 4, "head": {"sha": SHA}}]
    (tmp_path / "reports").mkdir()
    return github


def test_a_comment_is_written_once_and_then_updated(script, pull):
    comment = script("comment")
    assert comment.main() == 0
    [(method, path, body)] = pull.calls
    assert (method, path) == ("POST", "issues/4/comments")
    assert body["body"].startswith("<!-- lecturecheck: lectures -->\n## Lecture check")
    assert "https://host/o/r/actions/runs/5" in body["body"]
    others = [{"id": number, "user": {"type": "User"}, "body": body["body"]} for number in range(100)]
    pull.lists["issues/4/comments"] = [*others, {"id": 111, "user": BOT, "body": body["body"]}]
    assert comment.main() == 0
    assert pull.calls[-1][:2] == ("PATCH", "issues/comments/111")


def test_reports_are_rendered_here_and_escaped(script, pull, tmp_path):
    session = session_of(kept("<img src=x>@all.md", 50))
    write(tmp_path, {"reports/lecture-budget-a/report.json": document(session), "reports/b/report.json": "{"})
    assert script("comment").main() == 0
    text = pull.calls[0][2]["body"]
    assert "&lt;img src=x&gt;" in text
    assert "<img" not in text
    assert "@all" not in text


def test_a_commit_that_is_no_tip_gets_no_comment(script, pull, monkeypatch):
    monkeypatch.setenv("HEAD_SHA", "c" * 40)
    assert script("comment").main() == 0
    assert pull.calls == []


def test_a_long_comment_is_cut_with_no_block_left_open(script):
    text = "<details>\n```\n" + "line\n" * 100
    found = script("comment").cut(text, 400)
    assert len(found) <= 400
    assert found.endswith("\n```\n</details>\n\nThe rest is cut; the report of the run has all of it.")


# -- the issue ---------------------------------------------------------------------------------------------------------


def test_an_issue_is_opened_once_refreshed_and_closed(script, github, inputs, monkeypatch):
    monkeypatch.setenv("GITHUB_WORKFLOW", "Nightly")
    monkeypatch.setenv("GITHUB_RUN_ID", "9")
    inputs(NEEDS=json.dumps({"lectures": {"result": "failure", "outputs": {"failed": ""}}}))
    issue = script("issue")
    assert issue.main() == 0
    [(method, path, body)] = github.calls
    assert (method, path, body["title"]) == ("POST", "issues", "Scheduled run fails: Nightly")
    assert "| lectures | failure | unknown: the job ended before the gate had written a report |" in body["body"]
    github.lists["issues"] = [
        {"number": 1, "user": {"type": "User"}, "body": body["body"]},
        {"number": 2, "user": BOT, "body": body["body"], "pull_request": {}},
        {"number": 7, "user": BOT, "body": body["body"]},
    ]
    assert issue.main() == 0
    assert github.calls[-1][:2] == ("PATCH", "issues/7")
    inputs(STATE="passed")
    assert issue.main() == 0
    assert github.calls[-1] == ("PATCH", "issues/7", {"state": "closed", "state_reason": "completed"})


# -- the files of the actions ------------------------------------------------------------------------------------------


def steps():
    for path in sorted(ROOT.glob(".github/actions/*/action.yml")):
        for step in yaml.safe_load(path.read_text(encoding="utf-8"))["runs"]["steps"]:
            yield path, step


def test_every_script_that_a_step_names_exists():
    named = [word for _path, step in steps() for word in step.get("run", "").split() if word.endswith('.py"')]
    assert named
    for word in named:
        assert (FOLDER / word.strip('"').rpartition("/")[2]).is_file()


def test_no_step_puts_an_input_into_a_script():
    assert not [step["name"] for _path, step in steps() if "${{" in step.get("run", "")]


def test_login_shells_fail_with_the_first_command_that_fails():
    runs = [step for _path, step in steps() if step.get("shell") == "bash -l {0}"]
    assert runs
    first = 'set -eo pipefail\n. "$GITHUB_ACTION_PATH/python_path.sh"\n'
    assert all(step["run"].startswith(first) and "exit" not in step["run"] for step in runs)
    assert all("PYTHON_FOLDER" in step["env"] for step in runs)


def test_no_step_takes_a_folder_of_the_host_for_the_action():
    assert not [
        path for path in ROOT.glob(".github/actions/*/action.yml") if "{{ github.action_path" in path.read_text()
    ]


@pytest.mark.parametrize(
    ("path", "conda", "expected"),
    [
        ("/usr/bin:/bin", "", "/venv/bin:/usr/bin:/bin"),
        ("/usr/bin:/venv/bin", "", "/usr/bin:/venv/bin"),
        ("/opt/conda/envs/q/bin:/bin", "/opt/conda/envs/q", "/opt/conda/envs/q/bin:/bin"),
        ("/usr/bin:/bin", "/opt/conda", "/venv/bin:/usr/bin:/bin"),
    ],
)
def test_a_login_shell_keeps_the_python_of_the_job(path, conda, expected):
    script = f'. {FOLDER}/python_path.sh; echo "$PATH"'
    environment = {"PATH": path, "PYTHON_FOLDER": "/venv/bin", **({"CONDA_PREFIX": conda} if conda else {})}
    done = subprocess.run(["/bin/bash", "-ec", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
