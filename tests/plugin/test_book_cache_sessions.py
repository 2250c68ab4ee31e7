"""Sessions that fill the cache of a book, and find lectures there."""

import json
import shutil

import nbformat
import pytest
from jupyter_cache import get_cache
from support.book_fixtures import JUPYTER_BOOK, MYSTMD_BOOK, MYSTMD_VARIABLES, executed_pages

from pytest_lecturecheck.book_cache.stamp import read_stamp


@pytest.fixture
def book(pytester, monkeypatch):
    """Copy some pages of a book into pytester's folder; return that folder."""
    monkeypatch.setenv("COLUMNS", "200")

    def copy(folder, configuration, *names):
        for name in (configuration, *names):
            shutil.copy(folder / name, pytester.path / name)
        return pytester.path

    return copy


def without_tracebacks(outputs):
    """Leave out what depends on the version of IPython."""
    return [
        [{key: value for key, value in output.items() if key != "traceback"} for output in cell] for cell in outputs
    ]


def test_mystmd_finds_what_it_would_have_cached_itself(pytester, book, monkeypatch):
    for name, value in MYSTMD_VARIABLES.items():
        monkeypatch.setenv(name, value)
    pages = ("plain.md", "marked.md", "nested.md", "variables.md", "notebook.ipynb")
    folder = book(MYSTMD_BOOK, "myst.yml", *pages) / "_build" / "execute"
    pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto").assert_outcomes(passed=len(pages))
    known = executed_pages(MYSTMD_BOOK)
    for name in pages:
        made = json.loads((folder / f"{known[name]['key']}.json").read_text(encoding="utf-8"))
        assert without_tracebacks(made) == without_tracebacks(known[name]["outputs"])


def test_a_worker_hands_its_outputs_to_the_controller(pytester, book):
    book(MYSTMD_BOOK, "myst.yml", "spaces.md")
    result = pytester.runpytest_subprocess("--lecture-budget", "--lecture-cache=auto", "-n1")
    result.stdout.fnmatch_lines(["1 lecture put into the cache of mystmd (_build/execute); *"])


def test_cached_lectures_are_not_run_again(pytester, book):
    folder = book(MYSTMD_BOOK, "myst.yml", "spaces.md") / "_build" / "execute"
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto")
    result.stdout.fnmatch_lines(["1 lecture put into the cache of mystmd (_build/execute); *"])
    entry, stamp = folder / f"{executed_pages(MYSTMD_BOOK)['spaces.md']['key']}.json", folder / "lecturecheck"
    made = read_stamp(folder, entry.stem)
    assert (made.lecture, made.environment.python[:7], made.values["wall_seconds"] > 0) == (
        "spaces.md",
        "CPython",
        True,
    )
    again = pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto")
    again.assert_outcomes(skipped=1)
    again.stdout.fnmatch_lines(["*skipped: cached, not measured: in mystmd's cache since 20*"])
    options = ("--lecture-budget", "--lecture-cache=auto", "--lecture-measure-cached")
    pytester.runpytest_inprocess(*options).assert_outcomes(passed=1)
    assert sorted(path.name for path in folder.iterdir()) == [entry.name, stamp.name]


def test_recording_fills_the_cache_although_the_cache_has_an_entry(pytester, book):
    folder = book(MYSTMD_BOOK, "myst.yml", "spaces.md") / "_build" / "execute"
    options = ("--lecture-record", "--lecture-runs=1", "--lecture-cache=auto")
    for _ in range(2):
        result = pytester.runpytest_inprocess(*options)
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["1 lecture put into the cache of mystmd (_build/execute); *"])
    assert (folder / f"{executed_pages(MYSTMD_BOOK)['spaces.md']['key']}.json").is_file()
    assert list(pytester.path.glob("lecture-budgets/*.toml"))


def test_an_entry_of_another_environment_is_refused(pytester, book):
    folder = book(MYSTMD_BOOK, "myst.yml", "spaces.md") / "_build" / "execute"
    pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto")
    (path,) = (folder / "lecturecheck").iterdir()
    data = json.loads(path.read_text(encoding="utf-8"))
    data["environment"]["packages"]["pytest"] = "1.0"
    path.write_text(json.dumps(data), encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto", "--lecture-report=r.json")
    result.assert_outcomes(passed=1)
    (record,) = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["runs"]
    (finding,) = [item["message"] for item in record["run"]["findings"] if item["kind"] == "book cache"]
    assert "made in another environment" in finding
    assert "(pytest 1.0 there and " in finding
    pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto").assert_outcomes(skipped=1)


def test_an_entry_of_a_build_is_taken_unless_it_is_wrong(pytester, book):
    folder = book(MYSTMD_BOOK, "myst.yml", "spaces.md") / "_build" / "execute"
    folder.mkdir(parents=True)
    entry = folder / f"{executed_pages(MYSTMD_BOOK)['spaces.md']['key']}.json"
    entry.write_text("[[], []]", encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto")
    result.stdout.fnmatch_lines(["*skipped: cached, not measured: in mystmd's cache by a build*"])
    entry.write_text('[[], [{"output_type": "error"}]]', encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*its entry in mystmd's cache shows an error in code cell 2*"])
    entry.write_text("[[]]", encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "1 lecture put into the cache of mystmd*",
            "*its entry in mystmd's cache has another number of code cells (1 there and 2 here), so it was run again*",
        ]
    )
    assert len(json.loads(entry.read_text(encoding="utf-8"))) == 2


def test_jupyter_cache_merges_what_was_run(pytester, book):
    (book(JUPYTER_BOOK, "_config.yml", "plain.md", "notebook.ipynb") / "broken.md").write_text(
        "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n\n```{code-cell}\n1 / 0\n```\n", encoding="utf-8"
    )
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["2 lectures put into the cache of myst-nb (_build/.jupyter_cache); *"])
    cache = get_cache(pytester.path / "_build" / ".jupyter_cache")
    records = {record.hashkey: cache.get_cache_bundle(record.pk).nb for record in cache.list_cache_records()}
    cache.db.dispose()
    known = executed_pages(JUPYTER_BOOK)
    assert set(records) == {known["plain.md"]["key"], known["notebook.ipynb"]["key"]}
    for name in ("plain.md", "notebook.ipynb"):
        build = nbformat.reads(json.dumps(known[name]["notebook"]), as_version=4)
        made = records[known[name]["key"]]
        assert without_tracebacks(cell.outputs for cell in made.cells) == without_tracebacks(
            cell.outputs for cell in build.cells
        )
        assert [cell.execution_count for cell in made.cells] == [cell.execution_count for cell in build.cells]
        assert made.metadata["language_info"]["pygments_lexer"] == "ipython3"


def test_a_book_that_does_not_look_into_its_cache_is_named(pytester, book):
    folder = book(JUPYTER_BOOK, "_config.yml", "plain.md")
    (folder / "_config.yml").write_text("execute:\n  execute_notebooks: force\n", encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*not put into the book's cache: _config.yml execute.execute_notebooks is 'force'*"])
    assert not (folder / "_build").exists()


def test_a_missing_library_is_named_before_anything_runs(pytester, book, monkeypatch):
    book(JUPYTER_BOOK, "_config.yml", "plain.md")
    monkeypatch.setattr("pytest_lecturecheck.session.cache_requirements.find_spec", lambda _name: None)
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--lecture-cache: jupyter-cache is not installed beside pytest, *"])


def test_a_page_that_the_build_does_not_execute_stays_out(pytester, book):
    folder = book(JUPYTER_BOOK, "_config.yml")
    text = "---\nkernelspec:\n  name: python3\n---\n```{code-cell}\n1\n```\n"
    (folder / "plain.md").write_text(text, encoding="utf-8")
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-cache=auto")
    result.stdout.fnmatch_lines(
        [
            "*shows this page without executing it*",
            "*not put into the book's cache: the build does not execute this page, because its front matter has*",
        ]
    )
    assert not (folder / "_build").exists()
