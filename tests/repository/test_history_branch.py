"""The branch that keeps the history of lectures: real repositories of git, and a server that is one of them."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.git_repository import git, make_repository

FOLDER = Path(__file__).parents[2] / ".github" / "actions" / "lecture-budget"
NAME = "lecture-history.jsonl"
BRANCH = "lecture-history"
ONCE = """#!/bin/sh
unset GIT_QUARANTINE_PATH
[ -e overtaken ] && exit 0
touch overtaken
git update-ref refs/heads/lecture-history other
"""
NEVER = "#!/bin/sh\necho denied to github-actions >&2\nexit 1\n"


def line(name):
    return json.dumps({"id": name, "lecture": f"{name}.md"})


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A repository on the server; the job has its address."""
    path = tmp_path / "server" / "o" / "r"
    path.mkdir(parents=True)
    git(path, "init", "-q", "--bare", "-b", "main")
    for name, text in {
        "GITHUB_SERVER_URL": f"file://{tmp_path / 'server'}",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_REF_NAME": "main",
        "INPUT_HISTORY_BRANCH": BRANCH,
        "INPUT_HISTORY": NAME,
    }.items():
        monkeypatch.setenv(name, text)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return path


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    found = importlib.import_module("history_branch")
    monkeypatch.setattr(found, "LONGEST_WAIT_SECONDS", 0)
    yield found
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


def here(*names):
    Path(NAME).write_text("".join(f"{line(name)}\n" for name in names))


def on_branch(server):
    return [json.loads(text)["id"] for text in git(server, "show", f"{BRANCH}:{NAME}").splitlines()]


def hook(server, text):
    path = server / "hooks" / "pre-receive"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_the_branch_is_made_read_and_added_to(script, server, capsys):
    assert script.main(["get"]) == 0
    assert not Path(NAME).exists()
    here("a")
    assert script.main(["put"]) == 0
    assert git(server, "ls-tree", "--name-only", BRANCH).split() == [NAME]
    here("b")
    assert script.main(["get"]) == 0
    assert [json.loads(text)["id"] for text in Path(NAME).read_text().splitlines()] == ["a", "b"]
    assert script.main(["put"]) == 0
    assert on_branch(server) == ["a", "b"]
    assert git(server, "rev-list", "--count", BRANCH).strip() == "2"
    assert script.main(["put"]) == 0
    assert "1 line pushed to the branch\nthe branch has these lines already\n" in capsys.readouterr().out


def test_other_files_of_the_branch_stay(script, server, tmp_path):
    make_repository(tmp_path / "other", {"README.md": "kept", "sub/x": "y"})
    git(tmp_path / "other", "push", "-q", str(server), f"main:{BRANCH}")
    here("a")
    assert script.main(["put"]) == 0
    assert git(server, "ls-tree", "-r", "--name-only", BRANCH).split() == ["README.md", NAME, "sub/x"]


def test_a_push_that_was_overtaken_is_made_anew(script, server, tmp_path):
    make_repository(tmp_path / "other", {NAME: f"{line('theirs')}\n"})
    git(tmp_path / "other", "push", "-q", str(server), "main:refs/tags/other")
    hook(server, ONCE)
    here("ours")
    assert script.main(["put"]) == 0
    assert on_branch(server) == ["theirs", "ours"]


def test_a_token_that_may_not_write_is_a_warning(script, server, capsys):
    hook(server, NEVER)
    here("a")
    assert script.main(["put"]) == 0
    [text] = [row for row in capsys.readouterr().out.splitlines() if row.startswith("::warning::")]
    assert "the history is not pushed to the branch 'lecture-history': git push: " in text
    assert "denied to github-actions" in text
    assert text.endswith("; the artifact has it. A job that pushes needs the permission contents: write")
    assert git(server, "branch", "--list") == ""


def test_a_server_that_does_not_answer_is_a_warning(script, server, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/none")
    assert script.main(["get"]) == 0
    assert "::warning::the history cannot be read from the branch" in capsys.readouterr().out
    assert server.is_dir()


@pytest.mark.usefixtures("server")
def test_a_container_without_git_is_a_warning(script, monkeypatch, capsys):
    monkeypatch.setattr(script, "GIT", "/none/git")
    here("a")
    assert [script.main([verb]) for verb in ("get", "put")] == [0, 0]
    assert capsys.readouterr().out.count("::warning::") == 2


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"GITHUB_EVENT_NAME": "pull_request"}, "a run on pull_request adds nothing to the history"),
        ({"GITHUB_REF_NAME": BRANCH}, "the branch of the code; name a branch of its own"),
    ],
)
def test_what_must_not_push_does_not(script, server, monkeypatch, capsys, variables, said):
    monkeypatch.setattr(script.os, "environ", {**script.os.environ, **variables})
    here("a")
    assert script.main(["put"]) == 0
    assert said in capsys.readouterr().out
    assert git(server, "branch", "--list") == ""


@pytest.mark.parametrize("name", ["--upload-pack=x", "a..b", "x y", "a:b", "\n::warning::x"])
def test_odd_names_of_branches_are_refused(script, server, monkeypatch, capsys, name):
    monkeypatch.setenv("INPUT_HISTORY_BRANCH", name)
    here("a")
    assert script.main(["put"]) == 1
    [row] = capsys.readouterr().out.splitlines()
    assert row.startswith("::error::history-branch is ")
    assert git(server, "branch", "--list") == ""


def test_hooks_and_settings_of_the_checkout_take_no_part(script, server, tmp_path):
    work = make_repository(tmp_path / "work", {"README.md": ""})
    git(work, "config", f"url.file://{tmp_path}/elsewhere.insteadOf", f"file://{tmp_path}/server")
    (work / ".git" / "hooks").mkdir(exist_ok=True)
    (work / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\nexit 1\n")
    (work / ".git" / "hooks" / "pre-push").chmod(0o755)
    here("a")
    assert script.main(["put"]) == 0
    assert on_branch(server) == ["a"]


@pytest.mark.usefixtures("server")
def test_the_token_is_on_no_command_line(script, monkeypatch, tmp_path):
    log = tmp_path / "log"
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {script.GIT} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setattr(script, "GIT", str(fake))
    monkeypatch.setenv("INPUT_TOKEN", "secret-token")
    here("a")
    assert script.main(["put"]) == 0
    assert "push" in log.read_text()
    assert "secret" not in log.read_text()
    assert script._settings("https://host/o/r", "t")["GIT_CONFIG_KEY_0"] == "http.https://host/o/r.extraheader"


def test_a_link_on_the_branch_is_not_followed(script, server, tmp_path, capsys):
    make_repository(tmp_path / "other", {"README.md": ""})
    (tmp_path / "other" / NAME).symlink_to("/etc/passwd")
    git(tmp_path / "other", "add", "--all")
    git(tmp_path / "other", "commit", "-q", "-m", "link")
    git(tmp_path / "other", "push", "-q", str(server), f"main:{BRANCH}")
    here("a")
    assert script.main(["get"]) == 0
    assert "lecture-history.jsonl on the branch is no regular file" in capsys.readouterr().out
    assert Path(NAME).read_text() == f"{line('a')}\n"


def test_merged_histories_have_each_line_once(script):
    cut = '{"id": "x", "lec'
    assert script.merge(f"{line('a')}\n{cut}", f"{cut}\n{line('b')}\n\n{line('a')}\n") == (
        f"{line('a')}\n{cut}\n{line('b')}\n"
    )


def test_jobs_that_push_at_once_lose_no_line(script, server, tmp_path):
    jobs = []
    for name in "abc":
        folder = tmp_path / name
        folder.mkdir()
        (folder / NAME).write_text(f"{line(name)}\n")
        jobs.append(subprocess.Popen([sys.executable, script.__file__, "put"], cwd=folder, stdout=subprocess.PIPE))
    printed = [job.communicate()[0] for job in jobs]
    assert not [text for text in printed if b"::warning::" in text]
    assert sorted(on_branch(server)) == ["a", "b", "c"]
