"""The cache of mystmd: keys and entries are those of the real program."""

import json

import pytest
from support.book_fixtures import MYSTMD_BOOK, MYSTMD_VARIABLES, RealFiles, executed_pages, made_executed, read_page

from pytest_lecturecheck.book_cache.mystmd_cache import MystmdCache
from pytest_lecturecheck.book_cache.port import BookCacheError, CachedEntry

PAGES = executed_pages(MYSTMD_BOOK)


@pytest.mark.parametrize("name", PAGES)
def test_the_key_is_the_one_of_mystmd(name, tmp_path):
    page = read_page(MYSTMD_BOOK, name)
    assert MystmdCache(tmp_path, MYSTMD_VARIABLES).key(page, "python3") == PAGES[name]["key"]


@pytest.mark.parametrize("changed", [{"BOOK_A": "a"}, {"BOOK_UNSET": "set"}])
def test_the_key_depends_on_the_variables_that_a_page_names(changed, tmp_path):
    page = read_page(MYSTMD_BOOK, "variables.md")
    assert MystmdCache(tmp_path, MYSTMD_VARIABLES | changed).key(page, "python3") != PAGES["variables.md"]["key"]


def test_the_key_depends_on_the_kernel(tmp_path):
    page = read_page(MYSTMD_BOOK, "plain.md")
    assert MystmdCache(tmp_path).key(page, "other") != PAGES["plain.md"]["key"]


def test_an_entry_holds_the_messages_of_executed_cells_only(tmp_path):
    page = read_page(MYSTMD_BOOK, "marked.md")
    messages = [[{"cell": number}] for number in range(1, 5)]
    body = MystmdCache(tmp_path).body(page, "python3", made_executed(page.document, messages))
    assert json.loads(body) == [[{"cell": 1}], [{"cell": 3}], [{"cell": 4}]]


def test_an_entry_is_found_after_it_was_put(tmp_path):
    cache, files = MystmdCache(tmp_path / "execute"), RealFiles()
    assert cache.find("0a") is None
    digest = cache.put("0a", '[[{"output_type":"error"}],[]]', source=tmp_path, seconds=1.0, files=files)
    assert files.written == [tmp_path / "execute" / "0a.json"]
    assert cache.find("0a") == CachedEntry(digest=digest, cell_count=2, error_cells=(1,))


def test_half_a_surrogate_pair_in_output_can_be_written(tmp_path):
    page = read_page(MYSTMD_BOOK, "spaces.md")
    cache = MystmdCache(tmp_path)
    body = cache.body(page, "python3", made_executed(page.document, [[{"text": "\ud800"}], []]))
    cache.put("0a", body, source=tmp_path, seconds=1.0, files=RealFiles())
    assert json.loads((tmp_path / "0a.json").read_text(encoding="utf-8")) == [[{"text": "\ud800"}], []]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[", "Expecting value"),
        ('{"a": []}', "expected a list with the outputs of each cell"),
        ("[[1]]", "'int' object has no attribute 'get'"),
        ("[" * 100_000, "maximum recursion depth exceeded"),
    ],
)
def test_a_broken_entry_is_named(text, fault, tmp_path):
    (tmp_path / "0a.json").write_text(text, encoding="utf-8")
    with pytest.raises(BookCacheError, match=rf"0a\.json cannot be read: {fault}.*; remove it"):
        MystmdCache(tmp_path).find("0a")


def test_values_of_inline_expressions_are_no_errors(tmp_path):
    (tmp_path / "0a.json").write_text('[{"status": "ok", "data": {}}, []]', encoding="utf-8")
    assert MystmdCache(tmp_path).find("0a").error_cells == ()
