"""Pages of a mystmd book, which executes code-cells that myst-nb leaves out."""

from __future__ import annotations

import pytest
from support.made_pages import page

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.book.configuration import find_book
from pytest_lecturecheck.lecture.book.included_pages import find_included_pages
from pytest_lecturecheck.lecture.reading import read_lecture


@pytest.fixture
def book(tmp_path):
    (tmp_path / "myst.yml").write_text("version: 1\nproject:\n  title: x\n", encoding="utf-8")
    return tmp_path


def _read(folder, body: str):
    path = page(folder, body)
    return read_lecture(path, name="lecture.md", root=folder, book=find_book(folder, root=folder))


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (":::{code-cell} python\n1\n:::\n", 11),
        ("``` {code-cell} python\n1\n```\n", 11),
        ("```{ code-cell } python\n1\n```\n", 11),
        ("```{code-cell #label .class} python\n1\n```\n", 11),
        ("::::{note}\n```{code-cell}\n1\n```\n::::\n", 12),
        ("::::{tip} Title\n:class: dropdown\n:::{code-cell}\n1\n:::\n::::\n", 13),
        ("- item\n\n  ```{code-cell}\n  1\n  ```\n", 13),
        ("> ```{code-cell}\n> 1\n> ```\n", 11),
        ("`````{tab-set}\n````{tab-item} A\n```{code-cell}\n1\n```\n````\n`````\n", 13),
        ("```{code-cell}\n:tags: [hide-input]\n\n1\n```\n", 13),
        ("```{code-cell}\n---\ntags: [hide-input]\n---\n1\n```\n", 14),
        ("```{code-cell}\n\n\n1\n\n```\n", 13),
    ],
)
def test_mystmd_executes_cells_at_any_depth(book, body, line):
    lecture = _read(book, body)
    assert [(cell.source, cell.line) for cell in lecture.cells] == [("1", line)]
    assert lecture.findings == ()


def test_mystmd_executes_cells_in_document_order(book):
    body = (
        "```{code-cell}\na = 1\n```\n\n::::{note}\n```{code-cell}\nb = 2\n```\n::::\n\n"
        "- item\n\n  ```{code-cell}\n  c = 3\n  ```\n\n:::{code-cell}\nd = 4\n:::\n"
    )
    assert [cell.source for cell in _read(book, body).cells] == ["a = 1", "b = 2", "c = 3", "d = 4"]


@pytest.mark.parametrize(
    "body",
    [
        "````{code-block} md\n```{code-cell}\n1\n```\n````\n",
        "````\n```{code-cell}\n1\n```\n````\n",
        "<!--\n```{code-cell}\n1\n```\n-->\n",
        "% ```{code-cell}\n% 1\n% ```\n",
    ],
)
def test_mystmd_shows_verbatim_blocks(book, body):
    assert _read(book, body).cells == ()


@pytest.mark.parametrize(
    ("options", "tags"),
    [
        (":tags: [raises-exception, hide-input]\n", {"raises-exception", "hide-input"}),
        (":tags: raises-exception, hide-input\n", {"raises-exception", "hide-input"}),
        (":label: a\n:caption: Figure: it is text\n", set()),
        (":tags\n", set()),
    ],
)
def test_mystmd_options_are_text(book, options, tags):
    (cell,) = _read(book, f"```{{code-cell}}\n{options}1\n```\n").cells
    assert cell.tags == tags
    assert cell.source.split("\n")[-1] == "1"


def test_mystmd_executes_included_files(book):
    (book / "part").mkdir()
    (book / "part" / "one.md").write_text(
        "---\ntitle: x\n---\n```{code-cell}\n:tags: [raises-exception]\na = 1\n```\n\n```{include} two.md\n```\n",
        encoding="utf-8",
    )
    two = ":::{note}\n```{code-cell}\nb = 2\n```\n:::\n```{include} one.md\n```\n"
    (book / "part" / "two.md").write_text(two, encoding="utf-8")
    lecture = _read(book, "::::{note}\n```{include} part/one.md\n```\n::::\n\n```{code-cell}\nc = 3\n```\n")
    assert [(cell.source, cell.line, cell.opening_line, cell.source_path) for cell in lecture.cells] == [
        ("a = 1", None, 11, "part/one.md"),
        ("b = 2", None, 11, "part/two.md"),
        ("c = 3", 16, 15, None),
    ]
    assert lecture.cells[0].expects_error


@pytest.mark.parametrize("target", ["/etc/hostname", "../outside.md", "missing.md", ""])
def test_mystmd_includes_no_file_from_outside(book, target):
    inner = book / "inner"
    inner.mkdir()
    (book / "outside.md").write_text("```{code-cell}\n1\n```\n", encoding="utf-8")
    path = page(inner, f"```{{include}} {target}\n```\n")
    lecture = read_lecture(path, name="lecture.md", root=inner, book=find_book(inner, root=book))
    assert lecture.cells == ()


def test_included_pages_of_a_book(book):
    page(book, "```{include} part/one.md\n```\n\n:::{include} ./two.md\n:::\n\n`{include}` no.md\n")
    (book / "part").mkdir()
    (book / "part" / "one.md").write_text("```{include} ../three.md\n```\n", encoding="utf-8")
    (book / "_build").mkdir()
    (book / "_build" / "copy.md").write_text("```{include} ../four.md\n```\n", encoding="utf-8")
    names = {path.relative_to(book.resolve()).as_posix() for path in find_included_pages(book)}
    assert names == {"part/one.md", "two.md", "three.md"}


def test_partly_included_file_is_a_finding(book):
    (book / "one.md").write_text("```{code-cell}\n1\n```\n", encoding="utf-8")
    lecture = _read(book, "```{include} one.md\n:lines: 1-2\n```\n")
    assert lecture.findings[0].message == (
        "1 code-cell in the included file 'one.md' is not executed, although mystmd may execute them: "
        "only a part of the file is included"
    )


def test_inline_expressions_are_one_finding(book):
    (finding,) = _read(book, "```{code-cell}\n1\n```\n\nA {eval}`a` and\n{eval}`b`, not `{eval}`.\n").findings
    assert (finding.line, finding.message) == (
        14,
        "2 inline expressions (lines 14 and 15) are not evaluated; mystmd evaluates {eval} when it builds the page",
    )


def test_page_without_header_is_refused_in_mystmd_too(book):
    path = book / "lecture.md"
    path.write_text("::::{note}\n:::{code-cell}\n1\n:::\n::::\n", encoding="utf-8")
    with pytest.raises(LectureReadError) as caught:
        read_lecture(path, name="lecture.md", root=book, book=find_book(book, root=book))
    assert caught.value.line == 2


def test_cells_in_another_language_have_the_number_of_their_cell(book):
    body = "::::{note}\n```{code-cell}\n1\n```\n```{code-cell} julia\n2\n```\n```{code-cell} julia\n3\n```\n::::\n"
    (finding,) = _read(book, body).findings
    assert (finding.cell_number, finding.line) == (2, 14)
    assert finding.message.startswith("2 cells (first at line 14) are marked as 'julia' but run ")
