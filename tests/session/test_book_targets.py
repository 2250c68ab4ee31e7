"""Where the cache of a book may be filled."""

from types import SimpleNamespace

from pytest_lecturecheck.session.book_targets import _place_obstacle


def obstacle(rootdir, folder, chosen=None):
    return _place_obstacle(rootdir, SimpleNamespace(cache=SimpleNamespace(folder=folder)), chosen)


def test_a_cache_below_rootdir_or_in_its_repository_is_filled(tmp_path):
    book = tmp_path / "repository" / "book"
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    book.mkdir()
    assert obstacle(book, book / "_build" / ".jupyter_cache") == ""
    assert obstacle(book, book / ".." / "cache") == ""


def test_a_book_does_not_decide_on_a_cache_elsewhere(tmp_path):
    book, other = tmp_path / "book", tmp_path / "other"
    book.mkdir()
    expected = (
        f"the configuration of its book puts the cache outside of the project, into {other}; if that is meant, "
        "name the folder with --lecture-cache DIR"
    )
    assert [obstacle(book, folder) for folder in (other, book / ".." / "other")] == [expected, expected]
    assert obstacle(book, other, chosen=other) == ""
