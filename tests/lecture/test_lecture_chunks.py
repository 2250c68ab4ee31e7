from __future__ import annotations

import pytest
from support.made_pages import CASES

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import LectureFormat


def _write(folder, text: str, name: str):
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _fault(path) -> str:
    with pytest.raises(LectureReadError) as caught:
        read_lecture(path, name=path.name)
    return str(caught.value)


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
        (9, 6, "option eval: false", {"hide"}),
        (14, 13, "", set()),
    ]
    message = "1 chunk in 'r' (line 18) is not executed: the kernel runs 'python'"
    skipped = "1 code cell (line 6) is skipped (option eval: false)"
    assert lecture.findings == (
        Finding(kind=FindingKind.NOT_RUN, message=message, line=18),
        Finding(kind=FindingKind.NOT_RUN, message=skipped, line=6),
    )
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


def _quarto(folder, body: str, front: str = "jupyter: python3\n"):
    path = _write(folder, f"---\n{front}---\n{body}", "a.qmd")
    return read_lecture(path, name="a.qmd", root=folder)


@pytest.mark.parametrize(
    ("name", "sources"),
    [("magic", [("%%time\nx = 1", 8), ("assert x == 1", 13)]), ("bash", [("%%bash\necho hi", 8)])],
)
def test_options_are_removed_before_a_cell_magic(name, sources):
    lecture = read_lecture(CASES / "T04-quarto-options-before-magic" / f"{name}.qmd", name="a.qmd")
    assert [(cell.source, cell.line) for cell in lecture.cells] == sources


def test_options_may_have_spaces_before_the_bar():
    lecture = read_lecture(CASES / "T05-quarto-option-with-space" / "space.qmd", name="space.qmd")
    assert [(cell.skip_reason, cell.expects_error, cell.line) for cell in lecture.cells] == [
        ("option eval: false", False, 8),
        ("", True, 13),
        ("", False, 17),
    ]
    assert [finding.message for finding in lecture.findings] == ["1 code cell (line 6) is skipped (option eval: false)"]


@pytest.mark.parametrize(
    ("name", "skip_reason", "allow_errors"),
    [
        ("eval_true.qmd", "", None),
        ("error_false.qmd", "", None),
        ("project/page.qmd", "_quarto.yml execute.eval is false", None),
    ],
)
def test_chunk_options_override_the_documents(name, skip_reason, allow_errors):
    lecture = read_lecture(CASES / "T06-quarto-document-execute" / name, name=name)
    (cell,) = lecture.cells
    assert (cell.skip_reason, cell.expects_error) == (skip_reason, False)
    assert lecture.settings.allow_errors is allow_errors


CHUNK = "```{python}\n1\n```\n"


@pytest.mark.parametrize(
    ("front", "reason"),
    [
        ("execute:\n  eval: false\n", "front matter execute.eval is false"),
        ("eval: false\n", "front matter eval is false"),
        ("execute: false\n", "front matter execute is false"),
        ("format:\n  html:\n    execute:\n      eval: false\n", "front matter format.html.execute.eval is false"),
        ("execute:\n  eval: false\nformat:\n  html:\n    eval: true\n", ""),
        ("format: html\n", ""),
    ],
)
def test_document_options_that_execute_nothing(tmp_path, front, reason):
    assert _quarto(tmp_path, CHUNK, front).cells[0].skip_reason == reason


def test_disabled_document_executes_no_chunk(tmp_path):
    lecture = _quarto(tmp_path, "```{python}\n#| eval: true\n1\n```\n", "execute:\n  enabled: false\n")
    assert lecture.cells[0].skip_reason == "front matter execute.enabled is false"


@pytest.mark.parametrize(
    ("option", "reason"),
    [("eval: true", ""), ("eval: false", "option eval: false"), ("eval: [1, 2]", "option eval: [1, 2]")],
)
def test_chunk_runs_only_if_eval_is_true(tmp_path, option, reason):
    assert _quarto(tmp_path, f"```{{python}}\n#| {option}\n1\n```\n").cells[0].skip_reason == reason


def test_document_that_allows_errors(tmp_path):
    settings = _quarto(tmp_path, CHUNK, "execute:\n  error: true\n").settings
    assert (settings.allow_errors, settings.origin("allow_errors")) == (True, "front matter execute.error")


def test_chunk_may_forbid_errors_that_the_document_allows(tmp_path):
    lecture = _quarto(tmp_path, f"```{{python}}\n#| error: false\n1\n```\n{CHUNK}", "execute:\n  error: true\n")
    assert lecture.settings.allow_errors is None
    assert [cell.expects_error for cell in lecture.cells] == [False, True]


def test_own_settings_override_the_documents_errors(tmp_path):
    front = "execute:\n  error: true\nlecturecheck:\n  allow-errors: false\n"
    assert _quarto(tmp_path, CHUNK, front).settings.allow_errors is False


def test_project_and_folder_options(tmp_path):
    part = tmp_path / "part"
    part.mkdir()
    _write(tmp_path, "execute:\n  eval: false\njupyter: python3\n", "_quarto.yml")
    lecture = _quarto(part, CHUNK, "title: x\n")
    # The folder that is named as the root is the last one that is looked in.
    assert (lecture.cells[0].skip_reason, lecture.kernel_name) == ("", None)
    lecture = read_lecture(part / "a.qmd", name="part/a.qmd")
    assert (lecture.cells[0].skip_reason, lecture.kernel_name) == ("_quarto.yml execute.eval is false", "python3")
    _write(part, "execute:\n  eval: true\n  error: true\n", "_metadata.yml")
    lecture = read_lecture(part / "a.qmd", name="part/a.qmd")
    assert lecture.cells[0].skip_reason == ""
    assert lecture.settings.origin("allow_errors") == "part/_metadata.yml execute.error"


def test_project_that_sets_the_working_directory_is_a_finding(tmp_path):
    _write(tmp_path, "project:\n  execute-dir: project\n", "_quarto.yml")
    (finding,) = _quarto(tmp_path, CHUNK).findings
    assert finding.message == "_quarto.yml project.execute-dir is not supported; the lecture runs in its own folder"


def test_profiles_that_decide_what_runs_are_named(tmp_path):
    _write(tmp_path, "project:\n  type: book\nprofile:\n  default: draft\n", "_quarto.yml")
    _write(tmp_path, "execute:\n  eval: false\n", "_quarto-draft.yml")
    _write(tmp_path, "jupyter: julia-1.10\n", "_quarto-julia.yml")
    _write(tmp_path, "book:\n  title: x\n", "_quarto-title.yml")
    (finding,) = _quarto(tmp_path, CHUNK).findings
    assert finding.message == (
        "profiles of Quarto are not applied; options in _quarto-draft.yml, _quarto-julia.yml are left out"
    )


def test_broken_project_file_names_its_line(tmp_path):
    project = _write(tmp_path, "project:\n  type: [\n", "_quarto.yml")
    assert _fault(_write(tmp_path, CHUNK, "a.qmd")).startswith(f"{project}:3: _quarto.yml is not valid YAML: ")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (f"<!--\n{CHUNK}-->\n", 6),
        (f"````\n{CHUNK}````\n", 6),
        ("- item\n\n  ```{python}\n  1\n  ```\n", 7),
        (f"::: {{.callout-note}}\n{CHUNK}:::\n", 6),
        ("````{python}\n1\n````\n", 5),
        ("``` {python .hidden}\n1\n```\n", 5),
        ("```{python}\n\n#| label: x\n\n1\n```\n", 8),
    ],
)
def test_chunks_that_markdown_would_hide_are_executed(tmp_path, body, line):
    """Quarto splits a document into chunks before any Markdown is parsed."""
    (cell,) = _quarto(tmp_path, body).cells
    assert (cell.source.strip(), cell.line + cell.source.count("\n")) == ("1", line)


@pytest.mark.parametrize(
    "body", ["```{{python}}\n1\n```", "~~~{python}\n1\n~~~", "```{.python}\n1\n```", "```python\n1\n```"]
)
def test_blocks_that_are_no_chunks(tmp_path, body):
    assert _quarto(tmp_path, body).cells == ()


def test_chunks_drawn_without_kernel_are_ignored(tmp_path):
    lecture = _quarto(tmp_path, "```{mermaid}\nflowchart\n```\n```{ojs}\nx = 1\n```\n", "title: x\n")
    assert (lecture.cells, [finding.kind for finding in lecture.findings]) == ((), [FindingKind.NO_CODE])


def test_inline_code_is_one_finding(tmp_path):
    lecture = _quarto(tmp_path, f"{CHUNK}\nIt is `{{python}} x` and\n`{{python}} y`, not ``{{python}} z``.\n")
    (finding,) = lecture.findings
    message = "2 inline expressions (lines 8 and 9) are not evaluated"
    assert finding.line == 8
    assert finding.message == f"{message}; Quarto evaluates inline code when it renders the page"


def test_chunks_of_an_included_file_are_a_finding(tmp_path):
    _write(tmp_path, CHUNK, "_part.qmd")
    (finding,) = _quarto(tmp_path, f"{CHUNK}{{{{< include _part.qmd >}}}}\n{{{{< include gone.qmd >}}}}\n").findings
    assert (finding.line, finding.message) == (
        7,
        "1 chunk in the included file '_part.qmd' is not executed, although Quarto executes included files",
    )


def test_options_that_are_no_table_are_ignored_and_reported(tmp_path):
    (finding,) = _quarto(tmp_path, "```{python}\n#| echo = FALSE\n1\n```\n").findings
    assert finding.message == ("chunk options (line 5) are ignored: found 'echo = FALSE', expected 'key: value' lines")


def test_options_use_the_comment_sign_of_the_language(tmp_path):
    front = "jupyter:\n  kernelspec:\n    name: scala\n    language: scala\n"
    (cell,) = _quarto(tmp_path, "```{scala}\n//| eval: false\n1\n```\n", front).cells
    assert (cell.source, cell.skip_reason) == ("1", "option eval: false")


def test_chunks_of_another_language_are_one_finding(tmp_path):
    lecture = _quarto(tmp_path, f"{CHUNK}```{{r}}\n1\n```\n```{{r}}\n2\n```\n")
    message = "2 chunks in 'r' (lines 7 and 10) are not executed: the kernel runs 'python'"
    assert lecture.findings == (Finding(kind=FindingKind.NOT_RUN, message=message, line=7),)


@pytest.mark.parametrize(
    ("front", "kernel"), [("jupyter:\n  kernel: julia-1.10\n", "julia-1.10"), ("jupyter: julia-1.10\n", "julia-1.10")]
)
def test_short_forms_of_the_kernel(tmp_path, front, kernel):
    assert _quarto(tmp_path, "```{julia}\n1\n```\n", front).kernel_name == kernel


def test_chunks_run_in_the_language_of_the_kernel(tmp_path):
    lecture = _quarto(tmp_path, f"{CHUNK}```{{julia}}\n2\n```\n", "jupyter: julia-1.10\n")
    assert [cell.source for cell in lecture.cells] == ["2"]


def test_kernel_that_is_no_text_is_refused(tmp_path):
    path = _write(tmp_path, f"---\njupyter: 3\n---\n{CHUNK}", "a.qmd")
    assert _fault(path) == "a.qmd:2: front matter jupyter is 3; expected the name of a kernel"
