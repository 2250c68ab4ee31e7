from __future__ import annotations

from textwrap import dedent

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


def _header(format_name: str) -> str:
    return (
        "# ---\n# jupyter:\n#   jupytext:\n#     text_representation:\n"
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
        ("\n%matplotlib inline\n1 / 0", 11, True),
        ("1 / 0", 19, False),
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
        "a.py:7: front matter lecturecheck.timeout cannot be used: duration 'never' is not understood; "
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
        "a.py:7: front matter is not valid YAML: expected the node content, but found '<stream end>'"
    )


QUARTO = """\
---
title: Slides
jupyter: python3
---

```{python}
#| tags: [hide]
#| eval: false
a = 1
```

::: {.callout-note}
```{python}
b = 2
```
:::

```{r}
stop()
```

```python
shown = True
```

```{{python}}
escaped = True
```
"""


def test_a_quarto_document(tmp_path):
    lecture = read_lecture(_write(tmp_path, QUARTO, "a.qmd"), name="a.qmd")
    assert lecture.format is LectureFormat.QUARTO
    assert lecture.kernel_name == "python3"
    assert [(cell.line, cell.opening_line, cell.skip_reason, cell.tags) for cell in lecture.cells] == [
        (7, 6, "option eval: false", {"hide"}),
        (14, 13, "", set()),
    ]
    message = "1 chunk in 'r' (line 18) is not executed: the kernel runs 'python'"
    assert lecture.findings == (Finding(kind=FindingKind.NOT_RUN, message=message, line=18),)
    assert [cell.cell_type for cell in lecture.document.cells] == ["code", "markdown", "code", "markdown"]


def test_quarto_document_that_is_not_executed(tmp_path):
    path = _write(tmp_path, "---\nexecute:\n  enabled: false\n---\n```{python}\n1\n```\n", "a.qmd")
    assert [cell.skip_reason for cell in read_lecture(path, name="a.qmd").cells] == [
        "front matter execute.enabled is false"
    ]


def test_r_markdown_in_python(tmp_path):
    text = '```{python, tags=c("raises-exception")}\n1 / 0\n```\n\n```{python echo=TRUE, eval=FALSE}\n2\n```\n'
    lecture = read_lecture(_write(tmp_path, text, "a.Rmd"), name="a.Rmd")
    assert lecture.format is LectureFormat.RMARKDOWN
    assert [(cell.source, cell.expects_error, cell.skip_reason) for cell in lecture.cells] == [
        ("1 / 0", True, ""),
        ("2", False, "option eval: false"),
    ]


def test_r_chunks_with_r_kernel(tmp_path):
    text = "---\njupyter:\n  kernelspec:\n    name: ir\n---\n```{r}\nx <- 1\n```\n"
    lecture = read_lecture(_write(tmp_path, text, "a.Rmd"), name="a.Rmd")
    assert lecture.kernel_name == "ir"
    assert [cell.source for cell in lecture.cells] == ["x <- 1"]


def test_faults_of_chunks(tmp_path):
    assert _fault(CASES / "A16-case-and-ext" / "lecture.Rmd") == (
        "lecture.Rmd:5: has chunks in 'r' but no kernelspec that runs them; name one under 'jupyter: kernelspec:'"
    )
    only_r = "---\njupyter: python3\n---\n```{r}\n1\n```\n"
    assert _fault(_write(tmp_path, only_r, "a.qmd")) == (
        "a.qmd:4: has no chunk in 'python', the language of its kernel; its chunks are in 'r' (1)"
    )
    assert _fault(_write(tmp_path, "```{python}\n1\n", "a.qmd")) == (
        "a.qmd:1: chunk {python} is opened here and never closed; close it with '```'"
    )
