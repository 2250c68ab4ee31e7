"""``lecturecheck show`` with a history: further sessions, each counted once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.kept_documents import call, keep
from support.made_sessions import GOLDEN, before, drifting

from pytest_lecturecheck.report.terminal.lecture_history import render_history
from pytest_lecturecheck.store.history import append_history
from pytest_lecturecheck.verdict.history_lines import history_lines

FILE = "lecture-history.jsonl"
SESSIONS = [replace(session, name=f"s{number}") for number, session in enumerate(drifting())]


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A repository whose settings name a history."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "lecturecheck.toml").write_text(f"history = '{FILE}'\n", encoding="utf-8")
    return tmp_path


def write(path, sessions):
    for session in sessions:
        append_history(path, history_lines(session))


@pytest.mark.parametrize("kept", [slice(0, 0), slice(None), slice(6, None), slice(0, None, 2)])
def test_a_history_shows_the_same_as_the_sessions_it_came_from(kept):
    lines = [line for session in SESSIONS for line in history_lines(session)]
    text = "\n".join(render_history(SESSIONS[kept], "lectures/nuts.md", history=lines, width=100)) + "\n"
    assert text == (GOLDEN / "history-100.txt").read_text(encoding="utf-8")


def test_a_fresh_clone_shows_the_history(book, capsys, monkeypatch):
    write(book / FILE, SESSIONS)
    (book / "lectures").mkdir()
    monkeypatch.chdir(book / "lectures")
    status, out, err = call(capsys, "show", "nuts.md")
    assert (status, err) == (0, "")
    assert out == (GOLDEN / "history-100.txt").read_text(encoding="utf-8")


def test_kept_sessions_and_history_are_one_series(book, capsys):
    keep(book, before())
    write(book / FILE, [replace(before(), name="other")])
    assert call(capsys, "show", "growth.md")[1].startswith("lectures/growth.md: 2 sessions\n")


def test_the_argument_names_another_history(book, capsys):
    write(book / "old.jsonl", [replace(before(), name="other")])
    assert call(capsys, "show", "growth.md", "--history", "old.jsonl")[0] == 0
    status, _, err = call(capsys, "show", "growth.md", "--history", "no.jsonl")
    assert (status, err) == (2, "lecturecheck: no.jsonl: cannot be read: No such file or directory\n")


def test_skipped_lines_are_reported(book, capsys):
    write(book / FILE, SESSIONS)
    with (book / FILE).open("a", encoding="utf-8") as file:
        file.write("{\n")
    status, _, err = call(capsys, "show", "nuts.md")
    assert status == 0
    number = len(SESSIONS) + 1
    assert err.startswith(f"lecturecheck: skipped: {book / FILE} line {number}: not JSON: ")


def test_an_unknown_lecture_names_both_places(book, capsys):
    write(book / FILE, SESSIONS)
    status, _, err = call(capsys, "show", "nots.md")
    assert status == 2
    assert err == (
        f"lecturecheck: {book / '.lecturecheck' / 'runs'} and {book / FILE}: no kept session ran 'nots.md'; "
        "perhaps lectures/nuts.md\n"
    )
