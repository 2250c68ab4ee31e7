"""The controller puts what passed into the cache, once, and names what could not be written."""

import json

import pytest

from pytest_lecturecheck.book_cache.mystmd_cache import MystmdCache
from pytest_lecturecheck.book_cache.stamp import Stamp, StampedEnvironment, read_stamp
from pytest_lecturecheck.session.cache_filling import CacheFiller

STAMP = Stamp(
    digest="",
    lecture="a.md",
    made="2026-12-01T05:00:00+00:00",
    version="0.1.0",
    environment=StampedEnvironment(platform="p", system="Linux x86_64"),
)


@pytest.fixture
def sent(tmp_path):
    """Write what a run leaves for the controller."""

    def write(folder, name="sent.json"):
        entry = {
            "engine": "mystmd",
            "folder": str(folder),
            "key": "0a",
            "source": "a.md",
            "seconds": 1.0,
            "stamp": STAMP.to_plain(),
            "body": "[[]]",
        }
        path = tmp_path / name
        path.write_text(json.dumps([entry]), encoding="utf-8")
        return path

    return write


def test_a_lecture_that_passed_enters_with_its_stamp(tmp_path, sent):
    filler, folder = CacheFiller(tmp_path), tmp_path / "_build" / "execute"
    path = sent(folder)
    filler.fill(str(path), passed=True)
    entry = MystmdCache(folder).find("0a")
    assert read_stamp(folder, "0a").digest == entry.digest
    assert list(filler.lines()) == [
        "1 lecture put into the cache of mystmd (_build/execute); the build does not execute it again"
    ]
    assert (filler.is_whole, path.exists()) == (True, False)


def test_a_lecture_that_failed_never_enters(tmp_path, sent):
    filler, path = CacheFiller(tmp_path), sent(tmp_path / "execute")
    filler.fill(str(path), passed=False)
    assert (list(filler.lines()), path.exists(), (tmp_path / "execute").exists()) == ([], False, False)


def test_several_lectures_are_counted(tmp_path, sent):
    filler = CacheFiller(tmp_path / "root")
    for name in ("1", "2"):
        filler.fill(str(sent(tmp_path / "execute", name)), passed=True)
    assert list(filler.lines()) == [
        f"2 lectures put into the cache of mystmd ({tmp_path / 'execute'}); the build does not execute them again"
    ]


def test_a_cache_that_cannot_be_written_is_named(tmp_path, sent):
    (tmp_path / "execute").write_text("a file", encoding="utf-8")
    filler, path = CacheFiller(tmp_path), sent(tmp_path / "execute")
    filler.fill(str(path), passed=True)
    (line,) = filler.lines()
    assert line.startswith("ERROR: a.md could not be put into the book's cache: ")
    assert (filler.is_whole, path.exists()) == (False, False)
