"""--lecture-changed: what runs, what is left out, and why."""

import json

import pytest
from support.git_repository import git, make_repository, page, write

UNCHANGED = "skipped: unchanged since base"
FILES = {
    "a.md": page("import helper"),
    "b.md": page("print(open('x.csv').read())"),
    "c.md": page("print(3)"),
    "helper.py": "N = 1\n",
    "x.csv": "1\n",
    "_config.yml": "title: A book\nexecute:\n  timeout: 60\n",
    "lecturecheck.toml": "timeout = 60\n",
}


@pytest.fixture
def book(pytester):
    make_repository(pytester.path, FILES)

    def run(*args):
        given = ("--lecture-budget", "--lecture-changed", "base", "--lecture-report", "r.json")
        start = pytester.runpytest_subprocess if "-n" in args else pytester.runpytest_inprocess
        result = start(*given, *args)
        runs = json.loads((pytester.path / "r.json").read_text())["runs"]
        return result, {item["run"]["lecture"]: item["run"] for item in runs}

    return run


def left_out(runs):
    return {name for name, run in runs.items() if run["outcome"] == "skipped"}


def test_prose_runs_nothing(pytester, book):
    write(pytester.path, {"c.md": page("print(3)", "Other prose."), "README.md": "new"})
    result, runs = book()
    assert left_out(runs) == {"a.md", "b.md", "c.md"}
    assert runs["c.md"]["reason"].startswith("unchanged since base (")
    assert result.ret == 0
    assert UNCHANGED in result.stdout.str().replace("\n  ", " ")


def test_code_modules_and_files_run_their_lecture_under_xdist(pytester, book):
    write(pytester.path, {"helper.py": "N = 2\n", "c.md": page("print(4)")})
    _result, runs = book("-n", "2")
    assert left_out(runs) == {"b.md"}
    assert runs["a.md"]["outcome"] == "completed"


def test_book_settings_run_all_lectures(pytester, book):
    write(pytester.path, {"_config.yml": "title: A book\nexecute:\n  timeout: 61\n"})
    assert left_out(book()[1]) == set()


@pytest.mark.parametrize("more", [(), ("--collect-only",)], ids=["run", "collect"])
def test_an_unknown_commit_is_a_usage_error(pytester, more):
    make_repository(pytester.path, FILES)
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-changed", "nowhere", *more)
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*lecturecheck: --lecture-changed: 'nowhere' names no commit of this repository;*"])


def test_committed_changes_count(pytester, book):
    write(pytester.path, {"c.md": page("print(4)")})
    git(pytester.path, "commit", "-q", "-a", "-m", "next")
    assert left_out(book()[1]) == {"a.md", "b.md"}
