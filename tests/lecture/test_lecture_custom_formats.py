"""Books that read pages with jupytext, as they configure in ``nb_custom_formats``."""

from __future__ import annotations

import jupytext
import pytest
from support.made_pages import HEADER, page

from pytest_lecturecheck.errors import LectureReadError, SettingsError
from pytest_lecturecheck.lecture.book.configuration import find_book, read_book
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.lecture.selection import has_jupytext_cells
from pytest_lecturecheck.model.lecture import LectureFormat


def _book(folder, formats: str):
    text = f"sphinx:\n  config:\n    nb_custom_formats:\n      {formats}\n"
    (folder / "_config.yml").write_text(text, encoding="utf-8")


def _read(path):
    folder = path.parent
    return read_lecture(path, name=path.name, root=folder, book=find_book(folder, root=folder))


def _write(folder, name: str, text: str):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


MARKDOWN = """\
---
title: x
jupyter:
  kernelspec:
    name: python3
---

# Title

```python tags=["raises-exception"]
1 / 0
```

```bash
ls
```

```python .noeval
shown
```

```
shown
```
"""


@pytest.mark.parametrize("fmt", ["md", "{extension: .md}", "'md:markdown'"])
def test_markdown_pages_are_read_with_jupytext(tmp_path, fmt):
    _book(tmp_path, f".md: [jupytext.reads, {{fmt: {fmt}}}]")
    lecture = _read(_write(tmp_path, "a.md", MARKDOWN))
    text = MARKDOWN.replace("name: python3\n", "name: python3\n    display_name: x\n")
    expected = [(cell.cell_type, cell.source) for cell in jupytext.reads(text, fmt="md").cells]
    assert [(cell.cell_type, cell.source) for cell in lecture.document.cells] == expected
    assert (lecture.format, lecture.kernel_name) == (LectureFormat.MARKDOWN, "python3")
    assert [(cell.source, cell.line, cell.expects_error) for cell in lecture.cells] == [
        ("1 / 0", 11, True),
        ("%%bash\nls", 14, False),
    ]


def test_r_markdown_pages_are_read_with_jupytext(tmp_path):
    _book(tmp_path, ".Rmd: [jupytext.reads, {fmt: Rmd}]")
    text = '```{python tags=c("raises-exception")}\n1 / 0\n```\n\n```{python active="Rmd"}\n2\n```\n'
    lecture = _read(_write(tmp_path, "a.Rmd", text))
    assert [(cell.source, cell.line, cell.expects_error) for cell in lecture.cells] == [("1 / 0", 2, True)]


def test_scripts_are_read_in_the_configured_format(tmp_path):
    _book(tmp_path, ".py: [jupytext.reads, {fmt: 'py:light'}]")
    lecture = _read(_write(tmp_path, "a.py", "x = 1\n\ny = 2\n"))
    assert [(cell.source, cell.line) for cell in lecture.cells] == [("x = 1", 1), ("y = 2", 3)]


@pytest.mark.parametrize("fmt", ["md", "'md:myst'", "mystnb"])
def test_myst_pages_have_the_cells_of_jupytext(tmp_path, fmt):
    """jupytext knows no colon fences, so a fence inside one is a cell, and a code-cell made of colons is text."""
    _book(tmp_path, f".md: [jupytext.reads, {{fmt: {fmt}}}]")
    body = (
        ":::{note}\n```{code-cell}\n1\n```\n:::\n\n:::{code-cell}\n2\n:::\n\n````{note}\n```{code-cell}\n3\n```\n````\n"
    )
    path = page(tmp_path, body)
    lecture = _read(path)
    expected = [(cell.cell_type, cell.source) for cell in jupytext.reads(path.read_text(), fmt="md").cells]
    assert [(cell.cell_type, cell.source) for cell in lecture.document.cells] == expected
    assert [(cell.source, cell.line) for cell in lecture.cells] == [("1", 12)]
    assert [finding.message for finding in lecture.findings] == [
        "1 code-cell in a colon fence (line 16) is not executed, as in the book build",
        "1 nested code-cell (line 21) is not executed, as in the book build",
    ]


def test_myst_pages_for_jupytext_need_no_header(tmp_path):
    _book(tmp_path, ".md: [jupytext.reads, {fmt: md}]")
    lecture = _read(page(tmp_path, "```{code-cell}\n1\n```\n", header=""))
    assert [(cell.source, cell.line) for cell in lecture.cells] == [("1", 2)]


def test_longest_suffix_decides(tmp_path):
    _book(tmp_path, "{.md: [jupytext.reads, {fmt: md}], .x.md: [other.reader, {}]}")
    book = read_book(tmp_path)
    assert book.custom_format(tmp_path / "a.x.md").reader == "other.reader"
    assert book.custom_format(tmp_path / "a.md").reader == "jupytext.reads"
    assert book.custom_format(tmp_path / "a.ipynb") is None


def test_other_readers_are_never_imported_and_reported(tmp_path):
    _book(tmp_path, ".md: my_package.read")
    lecture = _read(page(tmp_path, "```{code-cell}\n1\n```\n"))
    assert [cell.source for cell in lecture.cells] == ["1"]
    (finding,) = lecture.findings
    assert finding.message == (
        "the book reads '.md' files with 'my_package.read' (_config.yml sphinx.config.nb_custom_formats), which is not "
        "supported; the lecture was read as usual"
    )


def test_custom_formats_of_a_conf_py(tmp_path):
    text = "extensions = ['myst_nb']\nnb_custom_formats = {'.md': ['jupytext.reads', {'fmt': 'md'}]}\n"
    _write(tmp_path, "conf.py", text)
    assert _read(_write(tmp_path, "a.md", MARKDOWN)).format is LectureFormat.MARKDOWN


@pytest.mark.parametrize("formats", [".md: 3", ".md: [jupytext.reads, md]", ".md: []", "[a]"])
def test_custom_formats_of_the_wrong_kind_are_refused(tmp_path, formats):
    _book(tmp_path, formats)
    with pytest.raises(SettingsError, match="nb_custom_formats"):
        read_book(tmp_path)


@pytest.mark.parametrize("fmt", ["ipynb", "jl", "nothing", "3"])
def test_other_formats_of_jupytext_are_refused(tmp_path, fmt):
    _book(tmp_path, f".md: [jupytext.reads, {{fmt: {fmt}}}]")
    with pytest.raises(LectureReadError, match="nb_custom_formats"):
        _read(page(tmp_path, "```{code-cell}\n1\n```\n"))


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.md", "```python\n1\n```\n", True),
        ("a.md", "```{code-cell}\n1\n```\n", True),
        ("a.md", "```text\n1\n```\n", False),
        ("a.md", "```\npython\n```\n", False),
        ("a.Rmd", "```{r}\n1\n```\n", True),
        ("a.py", "# %%\n1\n", True),
        ("conf.py", "x = 1\n", False),
        ("a.md", HEADER, False),
    ],
)
def test_cells_for_jupytext_are_recognised_without_a_parser(tmp_path, name, text, found):
    assert has_jupytext_cells(_write(tmp_path, name, text)) is found
    assert not has_jupytext_cells(tmp_path / "gone.md")
