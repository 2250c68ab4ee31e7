"""Pages that the gate runs although the build of their book shows them as text."""

from __future__ import annotations

import pytest
from support.made_pages import page

from pytest_lecturecheck.lecture.book.configuration import find_book
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.finding import FindingKind

CELL = "```{code-cell}\n1\n```\n"
KERNELSPEC = "kernelspec:\n  name: python3\n"
MESSAGE = (
    "the book's build (Jupyter Book 1, myst-nb) shows this page without executing it, because its front matter "
    "has neither file_format nor jupytext; add the line 'file_format: mystnb'"
)


def _formats(folder, configuration: str | None, front: str, body: str = CELL):
    if configuration is not None:
        (folder / configuration).write_text("version: 1\nproject: {}\n" if configuration == "myst.yml" else "{}\n")
    path = page(folder, body, header=f"---\n{front}---\n")
    lecture = read_lecture(path, name="lecture.md", root=folder, book=find_book(folder, root=folder))
    return [(item.message, item.line) for item in lecture.findings if item.kind is FindingKind.FORMAT]


def test_jupyter_book_1_does_not_execute_kernelspec_alone(tmp_path):
    assert _formats(tmp_path, "_config.yml", KERNELSPEC) == [(MESSAGE, 1)]


@pytest.mark.parametrize(
    "front",
    [
        f"file_format: mystnb\n{KERNELSPEC}",
        f"jupytext:\n  text_representation:\n    format_name: myst\n{KERNELSPEC}",
    ],
)
def test_headers_that_myst_nb_knows_have_no_finding(tmp_path, front):
    assert _formats(tmp_path, "_config.yml", front) == []


@pytest.mark.parametrize("configuration", ["myst.yml", None])
def test_mystmd_executes_kernelspec_alone(tmp_path, configuration):
    assert _formats(tmp_path, configuration, KERNELSPEC) == []


def test_pages_without_code_need_no_header(tmp_path):
    assert _formats(tmp_path, "_config.yml", KERNELSPEC, "text\n") == []
