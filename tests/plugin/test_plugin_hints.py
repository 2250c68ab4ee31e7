"""Calls that do not do what was meant explain themselves."""

import pytest

QUIET = ("-p", "no:cacheprovider")


@pytest.fixture
def subfolder(pytester, lecture, monkeypatch):
    """A call in a folder whose parent has the budgets; without a configuration file it becomes rootdir."""
    lecture("lectures/a.ipynb", "1 / 0")
    (pytester.path / "lecture-budgets").mkdir()
    monkeypatch.chdir(pytester.path / "lectures")
    monkeypatch.setenv("CI", "true")
    return pytester.path / "lectures"


def test_a_subfolder_of_a_project_with_budgets_keeps_nothing(pytester, subfolder):
    """A folder .lecturecheck there would hide the history of the project."""
    result = pytester.runpytest_inprocess("--lecture-budget", "--rootdir=.", *QUIET)
    result.stdout.fnmatch_lines(
        [
            f"rootdir {subfolder} has no budgets, but .. has: call pytest from there, or with --rootdir=..",
            "nothing is kept of this session: a folder .lecturecheck here would hide the history in ..",
        ],
        consecutive=True,
    )
    assert sorted(path.name for path in subfolder.iterdir()) == ["a.ipynb"]


def test_the_hint_is_in_the_summary_of_a_quiet_session(pytester, subfolder):
    result = pytester.runpytest_inprocess("--lecture-budget", "--rootdir=.", "-q", *QUIET)
    assert sum(line.startswith(f"rootdir {subfolder} has no budgets") for line in result.outlines) == 1


def test_a_subfolder_with_a_history_of_its_own_keeps_it(pytester, subfolder):
    (subfolder / ".lecturecheck").mkdir()
    result = pytester.runpytest_inprocess("--lecture-budget", "--rootdir=.", *QUIET)
    result.stdout.no_fnmatch_line("nothing is kept*")
    assert (subfolder / ".lecturecheck" / "runs").is_dir()


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("notes.md", "# Notes\n", "it has no notebook header (kernelspec, jupytext, or file_format: mystnb) and no *"),
        ("late.md", "\n\n---\nkernelspec: {name: python3}\n---\n", "its header begins on line 3; a header has to *"),
        ("tool.py", "x = 1\n", "it has no jupytext header and no `# %%` cell"),
        ("table.rst", "x\n", "its name ends in '.rst'; lectures end in .ipynb, .md, .py, .Rmd or .qmd"),
    ],
)
def test_a_named_file_that_is_no_lecture_says_why(pytester, name, text, reason):
    (pytester.path / name).write_text(text, encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", name, *QUIET)
    result.stdout.fnmatch_lines([f"'{name}' is not a lecture: {reason}"])


def test_a_named_file_that_another_plugin_collects_needs_no_reason(pytester):
    pytester.makepyfile(test_it="def test_it(): pass")
    result = pytester.runpytest_inprocess("--lecture-budget", "test_it.py", *QUIET)
    result.stdout.no_fnmatch_line("*is no lecture*")


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_options_without_a_mode_explain_why_nothing_ran(pytester, lecture, quiet):
    lecture("a.ipynb")
    result = pytester.runpytest_inprocess("--lecture-declared-memory=4GiB", *quiet, *QUIET)
    result.stdout.fnmatch_lines(
        ["lecturecheck: no lecture was run, because --lecture-declared-memory has no effect without --lecture-*"]
    )
