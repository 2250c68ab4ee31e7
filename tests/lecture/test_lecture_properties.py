"""Properties of every text: a fault is an error of the file, no cell is dropped silently, and lines are right."""

from __future__ import annotations

import json
from pathlib import Path

import jupytext
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.made_pages import HEADER

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.book.sphinx_conf import read_constants
from pytest_lecturecheck.lecture.book.toc import read_toc
from pytest_lecturecheck.lecture.formats.chunks import parse_chunks
from pytest_lecturecheck.lecture.formats.ipynb import parse_ipynb
from pytest_lecturecheck.lecture.formats.jupytext import parse_script
from pytest_lecturecheck.lecture.formats.myst import parse_myst
from pytest_lecturecheck.lecture.formats.myst_dialect import MystDialect
from pytest_lecturecheck.lecture.formats.parsed import Parsed
from pytest_lecturecheck.lecture.formats.peek import find_code_cells, split_front_matter
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.lecture import LectureFormat

HERE = Path(__file__).parent
# No deadline: the machine may be busy.
QUICK = settings(deadline=None, max_examples=examples(60))
PIECES = st.sampled_from(
    [
        "```{code-cell} python", "```{code-cell}", "``` {code-cell}", "````{note}", "```{note}", "```",
        "````", "~~~", "~~~{code-cell}", ":::{code-cell}", ":::", "::::{tip}", "::::", "```python",
        "````md", "- item", "  ", "", "> quote", ":tags: [a]", ":tags: [", "---", "x: 1",
        "+++", '+++ {"a": 1}', "+++ x", "% remark", "<div>", "</div>",
        "a = 1", "    b = 2", "\tc", "\x0c", "\x00", "# %%", "```{python}", "#| eval: false", "é", "<<<<<<< a",
        "=======", ">>>>>>> b",
    ]
)  # fmt: skip
PAGES = st.lists(PIECES, max_size=16).map("\n".join)


def _check_lines(text: str, parsed: Parsed) -> None:
    lines = text.split("\n")
    cells = [cell for cell in parsed.document.cells if cell.cell_type == "code"]
    assert len(cells) == len(parsed.locations)
    for cell, location in zip(cells, parsed.locations, strict=True):
        if location.line is not None and "\x0c" not in text and "\x00" not in text and "\t" not in text:
            # A cell in a quote has the mark of the quote before its source.
            assert lines[location.line - 1].lstrip("> ").strip() == cell.source.split("\n")[0].lstrip("> ").strip()


@QUICK
@given(body=PAGES)
def test_every_myst_cell_runs_or_is_a_finding(body):
    text = HEADER + body
    try:
        parsed = parse_myst(text, path=HERE / "x.md", name="x.md", root=HERE)
    except LectureReadError:
        return
    _check_lines(text, parsed)
    dropped = {FindingKind.NESTED_CELL, FindingKind.NOT_RUN}
    reported = len(parsed.locations) + sum(finding.kind in dropped for finding in parsed.findings)
    # Quotes, lists, HTML and spaces hide fences from find_code_cells, or close them elsewhere: no claim is made there.
    hiding = ("<", "- item", "> quote", "``` {", "\x0c", "\x00", "+++", "% ", "---", "    b", "\t", "#", "  ")
    if not any(piece in body for piece in hiding):
        assert reported >= (1 if next(find_code_cells(body), None) is not None else 0)


@QUICK
@given(body=PAGES, dialect=st.sampled_from([MystDialect.MYSTMD, MystDialect.JUPYTEXT]))
def test_any_page_is_read_or_refused_in_every_dialect(body, dialect):
    text = HEADER + body
    try:
        parsed = parse_myst(text, path=HERE / "x.md", name="x.md", root=HERE, dialect=dialect)
    except LectureReadError:
        return
    _check_lines(text, parsed)
    if dialect is MystDialect.JUPYTEXT and "\x0c" not in text:
        try:
            cells = jupytext.reads(text, fmt="md:myst").cells
        except Exception:  # noqa: BLE001 - jupytext refuses more pages, by exceptions of many kinds
            return
        expected = [cell.source for cell in cells if cell.cell_type == "code"]
        assert [cell.source for cell in parsed.document.cells if cell.cell_type == "code"] == expected


@QUICK
@given(body=PAGES)
def test_any_page_without_header_is_read_or_refused(body):
    try:
        parsed = parse_myst(body, path=HERE / "x.md", name="x.md", root=HERE)
    except LectureReadError:
        return
    if split_front_matter(body) is None:
        assert parsed.locations == ()


@QUICK
@given(body=PAGES, form=st.sampled_from([LectureFormat.QUARTO, LectureFormat.RMARKDOWN]))
def test_any_chunk_document_is_read_or_refused(body, form):
    try:
        parsed = parse_chunks(body, path=HERE / "x", name="x", root=HERE, form=form)
    except LectureReadError:
        return
    _check_lines(body, parsed)


@QUICK
@given(body=PAGES)
def test_any_script_is_read_or_refused(body):
    try:
        parsed = parse_script("# %%\n" + body, name="x.py")
    except LectureReadError:
        return
    assert len(parsed.locations) == sum(cell.cell_type == "code" for cell in parsed.document.cells)


SCRIPT_PIECES = st.sampled_from(
    [
        "# %%", "# %% [markdown]", "# %% [raw]", "# %%time", "# +", "# -", "# {{{", "# }}}", "# region a",
        "# endregion", "# text", "x = 1", "    y = 2", "# !rm x", "# %matplotlib inline", "!ls", "who = !ls",
        "# who = !ls", "# ls", "len?", "# cd .", "", "\x0c", '"""', "# # %%", "#", "\t# %time 1",
        '# %% tags=["a"]', "# %% language='R'", '# %% active="ipynb"',
    ]
)  # fmt: skip
HEADERS = st.sampled_from(["", "percent", "light", "hydrogen", "sphinx"])
OPTIONS = st.sampled_from(["", "comment_magics: false", "cell_markers: '{{{,}}}'", 'cell_markers: \'"""\''])


@QUICK
@given(body=st.lists(SCRIPT_PIECES, max_size=14).map("\n".join), format_name=HEADERS, option=OPTIONS)
def test_cells_of_any_script_are_those_of_jupytext(body, format_name, option):
    option = f"#     {option}\n" if option else ""
    header = (
        f"# ---\n# jupyter:\n#   jupytext:\n{option}#     text_representation:\n#       extension: .py\n"
        f"#       format_name: {format_name}\n# ---\n\n"
    )
    text = (header if format_name else "# %%\n") + body
    try:
        parsed = parse_script(text, name="x.py")
    except LectureReadError:
        return
    expected = [(cell.cell_type, cell.source) for cell in jupytext.reads(text, fmt={"extension": ".py"}).cells]
    assert [(cell.cell_type, cell.source) for cell in parsed.document.cells] == expected
    lines = text.split("\n")
    cells = [cell for cell in parsed.document.cells if cell.cell_type == "code"]
    for cell, location in zip(cells, parsed.locations, strict=True):
        if location.line is None:
            # A form feed splits a line; sphinx-gallery scripts begin with a cell that is not in the file.
            assert not cell.source.strip() or "\x0c" in text or cell.source == "%matplotlib inline"
            continue
        for offset, piece in enumerate(cell.source.rstrip().split("\n")):
            line = lines[location.line - 1 + offset].strip()
            made = offset == 0 and piece.startswith("%%") and line.startswith("# %%")
            assert made or piece.strip() in {line, line.removeprefix("#").strip()}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["cells", "metadata", "source", "cell_type", "id", "nbformat", "worksheets", "input", "tags"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@QUICK
@given(data=JSON, major=st.sampled_from([2, 3, 4]), cells=st.lists(JSON, max_size=3))
def test_any_json_is_read_or_refused(data, major, cells):
    made = [{"cell_type": "code", **cell} if isinstance(cell, dict) else cell for cell in cells]
    top = {"nbformat": major, "cells": made, "metadata": {}}
    text = json.dumps({**top, **data} if isinstance(data, dict) else data)
    try:
        parsed = parse_ipynb(text, name="x.ipynb")
    except LectureReadError:
        return
    assert len(parsed.locations) == sum(cell.cell_type == "code" for cell in parsed.document.cells)


@QUICK
@given(value=JSON)
def test_any_table_of_contents_is_read(value):
    assert read_toc(value, origin="_toc.yml").holds("a.md") in {True, False}


@QUICK
@given(text=st.text(alphabet="abn_=[](){}'\"\n :.,1\x00", max_size=40))
def test_any_conf_py_is_read_or_ignored(text):
    constants = read_constants(text)
    if constants is not None:
        assert all(name in text for name in constants[0])
