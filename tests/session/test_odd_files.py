"""
Nothing that a repository or a lecture puts in the place of a file makes a session wait, or fills the memory.

A reader that waits for a pipe would never return: the alarm turns that into a failure of its test.
"""

import contextlib
import gzip
import signal

import pytest
from support.made_entries import MACHINE, failed
from support.odd_files import needs_odd_files, put_odd_file

from pytest_lecturecheck.config.option_reading import read_settings_file
from pytest_lecturecheck.errors import BudgetFileError, LectureReadError, RunFileError, SettingsError, TraceFileError
from pytest_lecturecheck.lecture.book.configuration import read_book
from pytest_lecturecheck.lecture.pairing import find_configuration
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.lecture.selection import contains_at_ends, is_candidate, read_paired_suffixes
from pytest_lecturecheck.session import fingerprint
from pytest_lecturecheck.session.github_actions import GitHub
from pytest_lecturecheck.store.budget_file.files import load_budgets
from pytest_lecturecheck.store.failures import read_failures
from pytest_lecturecheck.store.git_commit import read_commit
from pytest_lecturecheck.store.session_history import read_session
from pytest_lecturecheck.trace.trace_reader import read_trace, write_perfetto_copy

pytestmark = needs_odd_files
KINDS = ("pipe", "link to pipe", "link to /dev/zero", "sparse")


@pytest.fixture(autouse=True)
def alarm():
    """Fail instead of waiting for ever."""

    def ring(*_):
        msg = "the reader waits"
        raise TimeoutError(msg)

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", KINDS)
def test_module_beside_a_lecture_is_described_without_its_content(tmp_path, kind):
    """With remembered failures every code file beside a lecture is read."""
    put_odd_file(tmp_path / "code.py", kind)
    described = list(fingerprint._describe_code(tmp_path))
    assert [name for name, _, _ in described] == ["code.py"]
    assert described == list(fingerprint._describe_code(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "read", "error"),
    [
        ("linux-x86_64-cpu.toml", load_budgets, BudgetFileError),
        ("failures.json", read_failures, RunFileError),
        ("session.json", read_session, RunFileError),
        ("x.trace.json.gz", read_trace, TraceFileError),
        ("a.ipynb", lambda path: read_lecture(path, name="a.ipynb"), LectureReadError),
        ("a.md", lambda path: read_lecture(path, name="a.md"), LectureReadError),
    ],
)
def test_a_file_that_is_needed_is_an_error(tmp_path, kind, name, read, error):
    path = put_odd_file(tmp_path / name, kind)
    with pytest.raises(error):
        read(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_only_searched_is_skipped(tmp_path, kind):
    for name in ("a.md", "a.py", "jupytext.toml", "pyproject.toml"):
        put_odd_file(tmp_path / name, kind)
    assert not is_candidate(tmp_path / "a.md")
    assert not is_candidate(tmp_path / "a.py")
    assert find_configuration(tmp_path) is None


@pytest.mark.parametrize("kind", ["pipe", "link to /dev/zero"])
def test_no_search_reads_from_a_pipe_or_a_device(tmp_path, kind):
    path = put_odd_file(tmp_path / "a.md", kind)
    assert not contains_at_ends(path, b"word")
    assert read_paired_suffixes(path) == frozenset()


@pytest.mark.parametrize("kind", KINDS)
def test_settings_and_books_do_not_wait(tmp_path, kind):
    for name in ("lecturecheck.toml", "pyproject.toml", "_config.yml", "conf.py"):
        put_odd_file(tmp_path / name, kind)
    with pytest.raises(SettingsError):
        read_settings_file(tmp_path)
    with pytest.raises(LectureReadError):
        read_book(tmp_path)


REASONS = {"pipe": "it is a named pipe; expected a regular file", "socket": "it is a socket; expected a regular file"}


@pytest.mark.parametrize("kind", REASONS)
@pytest.mark.parametrize("name", ["lecturecheck.toml", "pyproject.toml"])
def test_settings_that_are_no_file_are_an_error(tmp_path, monkeypatch, kind, name):
    monkeypatch.chdir(tmp_path)
    put_odd_file(tmp_path / name, kind)
    with pytest.raises(SettingsError) as caught:
        read_settings_file(tmp_path)
    assert str(caught.value) == f"{name}: cannot be read as TOML: {tmp_path / name}: {REASONS[kind]}"


@pytest.mark.parametrize("kind", REASONS)
@pytest.mark.parametrize("name", ["_config.yml", "myst.yml", "conf.py", "_quarto.yml"])
def test_configurations_of_books_that_are_no_file_are_an_error(tmp_path, monkeypatch, kind, name):
    monkeypatch.chdir(tmp_path)
    put_odd_file(tmp_path / name, kind)
    (tmp_path / "a.qmd").write_text("```{python}\nx = 1\n```\n", encoding="utf-8")
    reads = {"_quarto.yml": lambda: read_lecture(tmp_path / "a.qmd", name="a.qmd")}
    with pytest.raises(LectureReadError) as caught:
        reads.get(name, lambda: read_book(tmp_path))()
    assert str(caught.value) == f"{tmp_path / name}: cannot be read: {REASONS[kind]}"


def test_folders_with_names_of_settings_are_passed_over(tmp_path):
    for name in ("lecturecheck.toml", "_config.yml", "conf.py"):
        (tmp_path / name).mkdir()
    assert read_settings_file(tmp_path) == ("", {})
    assert read_book(tmp_path) is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_commit_is_unknown_without_waiting(tmp_path, kind):
    (tmp_path / ".git").mkdir()
    put_odd_file(tmp_path / ".git" / "HEAD", kind)
    assert read_commit(tmp_path) == ""


@pytest.mark.parametrize("kind", ["pipe", "link to pipe", "folder"])
def test_the_copy_of_a_trace_replaces_what_is_there(tmp_path, kind):
    """The lecture can write to the folder of its traces."""
    source = tmp_path / "x.trace.json.gz"
    source.write_bytes(gzip.compress(b'{"traceEvents":[]}'))
    target = put_odd_file(tmp_path / "perfetto.json.gz", kind)
    with contextlib.suppress(TraceFileError):
        write_perfetto_copy(source, target)
    assert target.is_file() == (kind != "folder")


@pytest.mark.parametrize("kind", ["pipe", "link to pipe", "link to /dev/zero"])
def test_the_job_summary_is_not_written_to_a_pipe(tmp_path, kind):
    path = put_odd_file(tmp_path / "summary.md", kind)
    github = GitHub({"GITHUB_STEP_SUMMARY": str(path)}, tmp_path, is_on=True)
    assert "expected a regular file" in github.write_summary([failed()], platform="p", machine=MACHINE)
