"""The cache of myst-nb: keys are those of the real program, entries are read by the real jupyter-cache."""

import json

import nbformat
import pytest
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from support.book_fixtures import JUPYTER_BOOK, RealFiles, executed_pages, made_executed, read_page

from pytest_lecturecheck.book_cache.myst_nb_cache import MystNbCache
from pytest_lecturecheck.book_cache.port import BookCacheError
from pytest_lecturecheck.lecture.book.configuration import read_book

PAGES = executed_pages(JUPYTER_BOOK)


def kernel_of(page):
    return read_book(JUPYTER_BOOK).cache.kernel_name(page.kernel_name)


def executed_document(page, text="4"):
    document = nbformat.from_dict(page.document)
    for number, cell in enumerate((cell for cell in document.cells if cell.cell_type == "code"), start=1):
        cell.execution_count = number
        cell.outputs = [nbformat.v4.new_output("stream", text=text)]
    document.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    return document


def put(folder, name="plain.md", text="4"):
    page, cache = read_page(JUPYTER_BOOK, name), MystNbCache(folder)
    key = cache.key(page, kernel_of(page))
    body = cache.body(page, kernel_of(page), made_executed(executed_document(page, text)))
    return key, cache.put(key, body, source=page.path, seconds=1.5, files=RealFiles())


@pytest.mark.parametrize("name", PAGES)
def test_the_key_is_the_one_of_myst_nb(name, tmp_path):
    page = read_page(JUPYTER_BOOK, name)
    assert MystNbCache(tmp_path / "cache").key(page, kernel_of(page)) == PAGES[name]["key"]
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", PAGES)
def test_jupyter_cache_finds_an_entry_and_merges_its_outputs(name, tmp_path):
    key, _digest = put(tmp_path, name)
    source = nbformat.from_dict(read_page(JUPYTER_BOOK, name).document)
    source.metadata["kernelspec"]["name"] = "python3"
    cache = get_cache(tmp_path)
    record = cache.match_cache_notebook(source)
    assert (record.hashkey, record.uri, record.data) == (key, str(JUPYTER_BOOK / name), {"execution_seconds": 1.5})
    _pk, merged = cache.merge_match_into_notebook(source)
    cache.db.dispose()
    code = [cell for cell in merged.cells if cell.cell_type == "code"]
    assert [cell.outputs[0].text for cell in code] == ["4"] * len(code)
    assert merged.metadata["language_info"]["pygments_lexer"] == "ipython3"


def test_an_entry_of_a_build_is_found(tmp_path):
    cache = get_cache(tmp_path)
    notebook = executed_document(read_page(JUPYTER_BOOK, "plain.md"))
    cache.cache_notebook_bundle(CacheBundleIn(notebook, "plain.md"), check_validity=False)
    cache.db.dispose()
    assert MystNbCache(tmp_path).find(PAGES["plain.md"]["key"]) is not None


def test_cells_that_show_errors_are_counted(tmp_path):
    for page in PAGES.values():
        cache = get_cache(tmp_path)
        notebook = nbformat.from_dict(page["notebook"])
        cache.cache_notebook_bundle(CacheBundleIn(notebook, "x"), check_validity=False)
        cache.db.dispose()
    found = {name: MystNbCache(tmp_path).find(page["key"]).error_cells for name, page in PAGES.items()}
    assert found == {"plain.md": (), "options.md": (1,), "notebook.ipynb": (4,)}


def test_looking_for_an_entry_creates_nothing(tmp_path):
    assert MystNbCache(tmp_path / "cache").find("0a") is None
    assert not (tmp_path / "cache").exists()


def test_a_record_without_its_notebook_is_no_entry_and_is_replaced(tmp_path):
    key, _digest = put(tmp_path)
    (tmp_path / "executed" / key / "base.ipynb").unlink()
    assert MystNbCache(tmp_path).find(key) is None
    assert put(tmp_path)[0] == key
    assert MystNbCache(tmp_path).find(key) is not None


def test_an_entry_replaces_an_earlier_one(tmp_path):
    key, first = put(tmp_path)
    _key, second = put(tmp_path, text="5")
    assert first != second == MystNbCache(tmp_path).find(key).digest


def test_a_failed_write_leaves_no_record(tmp_path, monkeypatch):
    def fail(*_arguments, **_options):
        msg = "No space left on device"
        raise OSError(msg)

    key, _digest = put(tmp_path / "other")
    monkeypatch.setattr("jupyter_cache.cache.main.nbf.writes", lambda *_: fail())
    page = read_page(JUPYTER_BOOK, "plain.md")
    body = json.dumps(executed_document(page))
    monkeypatch.setattr("pytest_lecturecheck.book_cache.myst_nb_cache._key", lambda *_: key)
    monkeypatch.setattr(
        "jupyter_cache.cache.main.JupyterCacheBase.create_hashed_notebook", lambda _self, notebook: (notebook, key)
    )
    with pytest.raises(OSError, match="No space left"):
        MystNbCache(tmp_path).put(key, body, source=page.path, seconds=1.0, files=RealFiles())
    monkeypatch.undo()
    assert (MystNbCache(tmp_path).find(key), get_records(tmp_path)) == (None, [])


def get_records(folder):
    cache = get_cache(folder)
    records = cache.list_cache_records()
    cache.db.dispose()
    return records


def test_a_notebook_that_its_run_changed_does_not_enter(tmp_path):
    page = read_page(JUPYTER_BOOK, "plain.md")
    document = executed_document(page)
    document.cells[-1].source = "changed"
    with pytest.raises(BookCacheError, match="the run changed the notebook's code or metadata"):
        MystNbCache(tmp_path).put(
            PAGES["plain.md"]["key"], json.dumps(document), source=page.path, seconds=1.0, files=RealFiles()
        )


def test_options_that_json_cannot_hold_are_named(tmp_path):
    page = read_page(JUPYTER_BOOK, "plain.md")
    page.document.cells[-1].metadata["when"] = {1: "a", "b": 2}
    with pytest.raises(BookCacheError, match="the options of its cells cannot be written as JSON"):
        MystNbCache(tmp_path).key(page, "python3")


def test_a_broken_database_is_named(tmp_path):
    (tmp_path / "global.db").write_bytes(b"no database" * 100)
    with pytest.raises(BookCacheError, match=r"cannot be used: .*not a database; remove the folder, or name another"):
        MystNbCache(tmp_path).find("0a")


def test_a_broken_entry_is_named(tmp_path):
    key, _digest = put(tmp_path)
    (tmp_path / "executed" / key / "base.ipynb").write_text("{}", encoding="utf-8")
    with pytest.raises(BookCacheError, match=r"base\.ipynb cannot be read: 'cells'; remove it, or the whole folder"):
        MystNbCache(tmp_path).find(key)
