from __future__ import annotations

from textwrap import dedent

import jupytext
import pytest
from support.made_pages import CASES

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import LectureFormat


def _write(folder, text: str, name: str):
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8", newline="\n")
    return path


def _fault(path) -> str:
    with pytest.raises(LectureReadError) as caught:
        read_lecture(path, name=path.name)
    return str(caught.value)


def _header(format_name: str, options: str = "") -> str:
    return (
        f"# ---\n# jupyter:\n#   jupytext:\n{options}#     text_representation:\n#       extension: .py\n"
        f"#       format_name: {format_name}\n#   kernelspec:\n#     name: python3\n# ---\n\n"
    )


def test_a_percent_script():
    path = CASES / "A13-percent-scripts" / "lecture_percent.py"
    lecture = read_lecture(path, name="lecture_percent.py")
    assert lecture.format is LectureFormat.PERCENT
    assert (lecture.kernel_name, lecture.language) == ("python3", "python")
    assert [(cell.source, cell.line, cell.opening_line) for cell in lecture.cells] == [
        ("k = 5", 17, 16),
        ("assert k == 5", 20, 19),
    ]
    assert lecture.document.cells[0].source == "# Title"


def test_magics_and_tags_in_a_percent_script(tmp_path):
    body = '# %% tags=["raises-exception"]\n\n# %matplotlib inline\n1 / 0\n\n# %% [markdown]\n# 1 / 0\n\n# %%\n1 / 0\n'
    lecture = read_lecture(_write(tmp_path, _header("percent") + body, "a.py"), name="a.py")
    assert [(cell.source, cell.line, cell.expects_error) for cell in lecture.cells] == [
        ("\n%matplotlib inline\n1 / 0", 12, True),
        ("1 / 0", 20, False),
    ]


def test_equal_cells_have_their_own_lines(tmp_path):
    path = _write(tmp_path, "# %%\nx = 1\n# %%\nx = 1\n", "a.py")
    assert [cell.line for cell in read_lecture(path, name="a.py").cells] == [2, 4]


@pytest.mark.parametrize("format_name", ["light", "hydrogen"])
def test_other_script_formats(tmp_path, format_name):
    body = "# # Title\n\nx = 1\n\n# words\n\ny = 2\n" if format_name == "light" else "# %%\nx = 1\n\n# %%\ny = 2\n"
    lecture = read_lecture(_write(tmp_path, _header(format_name) + body, "a.py"), name="a.py")
    lines = lecture.path.read_text(encoding="utf-8").split("\n")
    assert [cell.source for cell in lecture.cells] == ["x = 1", "y = 2"]
    assert [lines[cell.line - 1] for cell in lecture.cells] == ["x = 1", "y = 2"]


def test_settings_in_a_scripts_header(tmp_path):
    header = _header("percent").replace("#   kernelspec", "#   lecturecheck:\n#     timeout: never\n#   kernelspec")
    path = _write(tmp_path, header + "# %%\n1\n", "a.py")
    assert _fault(path) == (
        "a.py:8: front matter lecturecheck.timeout cannot be used: duration 'never' is not understood; "
        "expected numbers with units (ms, s, min, h, days) or m:ss or h:mm:ss"
    )


def test_faults_of_scripts(tmp_path):
    assert _fault(_write(tmp_path, "x = 1\n", "a.py")) == (
        "a.py: is a plain script; expected a jupytext header or '# %%' cells"
    )
    conflict = "# %%\n<<<<<<< a\nx\n=======\ny\n>>>>>>> b\n"
    assert _fault(_write(tmp_path, conflict, "a.py")) == (
        "a.py:2: has merge conflict markers at line 2; finish the merge"
    )
    header = _header("percent").replace("name: python3", "name: [")
    assert _fault(_write(tmp_path, header + "# %%\n1\n", "a.py")) == (
        "a.py:8: front matter is not valid YAML: expected the node content, but found '<stream end>'"
    )


def _same_as_jupytext(path):
    """Return the lecture, after comparing all its cells with those of jupytext."""
    lecture = read_lecture(path, name=path.name, root=path.parent)
    expected = [(cell.cell_type, cell.source) for cell in jupytext.read(path).cells]
    assert [(cell.cell_type, cell.source) for cell in lecture.document.cells] == expected
    return lecture


@pytest.mark.parametrize("name", ["assign", "assign_magic", "cd", "env", "helpq", "ls"])
def test_rewritten_line_does_not_hide_the_cells_line(name):
    lecture = _same_as_jupytext(CASES / "T03-script-cell-without-line" / f"{name}.py")
    (cell,) = lecture.cells
    assert (cell.line, cell.opening_line) == (13, 12)
    assert cell.source.split("\n")[2] == "x / 0"


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("danger.py", [(14, False)]),
        ("fold.py", [(14, False), (20, True), (25, False)]),
        ("region.py", [(14, True), (19, False)]),
    ],
)
def test_header_options_of_jupytext_are_honoured(name, cells):
    lecture = _same_as_jupytext(CASES / "T09-jupytext-header-options" / name)
    assert [(cell.line, cell.expects_error) for cell in lecture.cells] == cells


def test_commented_shell_line_stays_a_comment():
    lecture = read_lecture(CASES / "T09-jupytext-header-options" / "danger.py", name="danger.py")
    assert "# !rm results.csv" in lecture.cells[0].source.split("\n")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("jupytext.toml", "comment_magics = false\n"),
        (".jupytext.toml", 'formats = "ipynb,py:percent"\ncomment_magics = false\n'),
        ("pyproject.toml", "[tool.jupytext]\ncomment_magics = false\n"),
    ],
)
def test_configuration_of_jupytext_keeps_commented_lines(tmp_path, file, text):
    """Jupyter with jupytext shows such a line as a comment, so running it could delete what the author keeps."""
    (tmp_path / file).write_text(text, encoding="utf-8")
    (tmp_path / "part").mkdir()
    path = _write(tmp_path / "part", _header("percent") + "# %%\n# !rm x\n1\n", "a.py")
    assert read_lecture(path, name="part/a.py").cells[0].source == "# !rm x\n1"
    header = _header("percent", "#     comment_magics: true\n")
    path = _write(tmp_path / "part", header + "# %%\n# !rm x\n1\n", "a.py")
    assert read_lecture(path, name="part/a.py").cells[0].source == "!rm x\n1"


BODIES = {
    "cell magic from the language of a cell": ("percent", "# %% language='R'\n# x <- 1\n# y <- 2\n", [12]),
    "cell magic in a comment": ("percent", "# %%\n\n# %%time\nx = 1\n", [13]),
    "active only in notebooks": ("percent", '# %% active="ipynb"\n# y = 1\n', [13]),
    "escaped cell mark": ("percent", "# %%\nx = 1\n# # %%\n", [13]),
    "text that repeats the code": ("percent", "# %% [markdown]\n# x = 1\n\n# %%\nx = 1\n", [16]),
    "explicit light cell": ("light", "# +\n# %matplotlib inline\nx = 1\n\ny = 2\n# -\n\nz = 3\n", [13, 19]),
    "sphinx-gallery": ("sphinx", '"""\nTitle\n"""\n\nx = 1\n\n#' + "#" * 78 + "\n# Text\n\ny = 2\n", [None, 16, 21]),
    "indented magic": ("percent", "# %%\nif x:\n    # %time y\n    pass\n", [13]),
    "indented cell mark": ("percent", "# %%\nx = 1\n    # %%\ny = 2\n", [13, 15]),
}


@pytest.mark.parametrize(("format_name", "body", "lines"), BODIES.values(), ids=BODIES)
def test_cells_of_every_kind_have_lines(tmp_path, format_name, body, lines):
    header = _header(format_name).replace("name: python3", "name: python3\n#     display_name: Python 3")
    lecture = _same_as_jupytext(_write(tmp_path, header + body, "a.py"))
    assert [cell.line for cell in lecture.cells] == lines


def test_form_feed_does_not_shift_later_lines(tmp_path):
    """jupytext splits lines at a form feed, which is no line end of the file."""
    path = _write(tmp_path, "# %%\nx = 1\n\x0c\n# %%\ny = 2\n", "a.py")
    assert [cell.line for cell in read_lecture(path, name="a.py").cells][-1] == 5


def test_script_without_header_is_read_as_jupytext_guesses(tmp_path):
    lecture = _same_as_jupytext(_write(tmp_path, "# %%\n# !rm x\n%time 1\n", "a.py"))
    assert lecture.cells[0].source == "# !rm x\n%time 1"


def test_text_beside_the_jupyter_header_need_not_be_yaml(tmp_path):
    header = _header("percent").replace("# ---\n#", "# ---\n# a: b: c\n#", 1)
    lecture = read_lecture(_write(tmp_path, header + "# %%\n1\n", "a.py"), name="a.py")
    assert [(cell.cell_type, cell.source) for cell in lecture.document.cells] == [
        ("raw", "---\na: b: c\n---"),
        ("code", "1"),
    ]


def test_header_below_other_comments_is_refused(tmp_path):
    path = _write(tmp_path, "# Licence\n" + _header("percent") + "# %%\n1\n", "a.py")
    assert _fault(path) == (
        "a.py:2: has its header at line 2; jupytext reads it only at the top of the file: move it there"
    )


def test_header_below_shebang_and_encoding_is_read(tmp_path):
    first = "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n"
    path = _write(tmp_path, first + _header("percent") + "# %%\n1\n", "a.py")
    lecture = read_lecture(path, name="a.py")
    assert (lecture.kernel_name, [cell.line for cell in lecture.cells]) == ("python3", [14])


def test_code_below_the_text_of_a_cell_is_a_finding():
    (finding,) = read_lecture(CASES / "T16-code-in-markdown-cell" / "quiet.py", name="quiet.py").findings
    message = "code in a markdown cell is not run (line 17); put '# %%' above it to make it a code cell"
    assert finding == Finding(kind=FindingKind.NOT_RUN, message=message, line=17, fails_when_strict=True)


MARK = "# %% [markdown]\n"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (f"{MARK}# Text\n\nx = 1\n", 14),
        (f"{MARK}# Text\n!ls\n", 13),
        (f"{MARK}# Text\n%matplotlib inline\n", 13),
        (f'{MARK}"""\nText\n"""\nx = 1\n', 15),
        (f"{MARK}# Text\nprint(1) if\nx = 1\n", 14),
        (f"{MARK}# Text\nx = 1\n\n{MARK}# More\ny = 2\n", 13),
        ("# %% [raw]\nx = 1\n", 12),
        (f"{MARK}# Text\n# x = 1\n", None),
        (f'{MARK}"""\nText with\nx = 1 and $\\alpha$\n"""\n', None),
        (f"{MARK}Text that is not a comment\n", None),
        ('# %% active="py"\nx = 1\n', None),
    ],
)
def test_code_in_text_cells(tmp_path, body, line):
    lecture = read_lecture(_write(tmp_path, _header("percent") + body + "\n# %%\n1\n", "a.py"), name="a.py")
    assert [finding.line for finding in lecture.findings] == ([] if line is None else [line])


def test_code_in_several_text_cells_is_one_finding(tmp_path):
    body = f"{MARK}# Text\nx = 1\n\n{MARK}# More\ny = 2\n"
    (finding,) = read_lecture(_write(tmp_path, body + "# %%\n1\n", "a.py"), name="a.py").findings[:1]
    assert finding.message == (
        "code in 2 text cells is not run (first at line 3); put '# %%' above it to make it a code cell"
    )
