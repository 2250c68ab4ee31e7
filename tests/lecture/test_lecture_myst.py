from __future__ import annotations

from pathlib import Path

import pytest
from support.made_pages import CASES, HEADER, page

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import LectureFormat


def _read(path: Path):
    return read_lecture(path, name=path.name)


def _fault(path: Path) -> str:
    with pytest.raises(LectureReadError) as caught:
        _read(path)
    return str(caught.value)


def _nested(line: int) -> Finding:
    message = f"1 nested code-cell (line {line}) is not executed, as in the book build"
    return Finding(kind=FindingKind.NESTED_CELL, message=message, line=line)


def _not_run(how: str, line: int) -> Finding:
    message = f"1 code-cell {how} (line {line}) is not executed, as in the book build"
    return Finding(kind=FindingKind.NOT_RUN, message=message, line=line)


def test_code_cells_without_header_are_refused():
    assert _fault(CASES / "B01-code-cells-without-header" / "headless.md") == (
        "headless.md:3: has 2 code-cell blocks but no kernelspec/jupytext header, so no book runs it; "
        "add one, or use code-block"
    )


def test_nested_code_cell_is_a_finding():
    lecture = _read(CASES / "B02-nested-code-cell" / "nested.md")
    assert [(cell.source, cell.line, cell.opening_line) for cell in lecture.cells] == [
        ("a = 1", 15, 14),
        ("print(a)", 26, 25),
    ]
    assert lecture.findings == (_nested(20),)


def test_every_form_of_tags():
    lecture = _read(CASES / "B04-tag-forms" / "tags.md")
    assert [(sorted(cell.tags), cell.expects_error, cell.line) for cell in lecture.cells] == [
        (["raises-exception"], True, 15),
        (["hide-output", "raises-exception"], True, 22),
        (["hide-input", "raises-exception"], True, 29),
        ([], False, 33),
    ]
    assert [cell.source for cell in lecture.cells] == ["[][1]", "{}['k']", "1 / 0", "last = 'reached'"]
    assert lecture.document.cells[2].metadata == {"tags": ["hide-input", "raises-exception"], "other": "x: y"}


def test_skip_tag():
    lecture = _read(CASES / "B04-tag-forms" / "tag_not_raising.md")
    assert [cell.skip_reason for cell in lecture.cells] == ["", "tag skip-execution"]


def test_plain_string_tags(tmp_path):
    (cell,) = _read(page(tmp_path, "```{code-cell}\n:tags: raises-exception\n1/0\n```\n")).cells
    assert cell.tags == {"raises-exception"}
    assert (cell.source, cell.line) == ("1/0", 12)


def test_verbatim_blocks_are_not_executed():
    lecture = _read(CASES / "B05-display-only-blocks" / "shown.md")
    assert [(cell.source, cell.line) for cell in lecture.cells] == [("ok = 1", 31)]
    assert lecture.findings == ()


def test_cells_between_gated_directives_run():
    lecture = _read(CASES / "B07-error-line-in-md" / "solution.md")
    (cell,) = lecture.cells
    assert (cell.opening_line, cell.line) == (27, 28)
    assert cell.source.split("\n")[3] == "    total += r"
    lines = lecture.path.read_text(encoding="utf-8").split("\n")
    assert lines[cell.line + 3 - 1] == "    total += r"


def test_format_kernel_and_document(tmp_path):
    lecture = _read(page(tmp_path, "# Title\n\n```{code-cell} ipython3\n1\n```\n\nEnd\n"))
    assert lecture.format is LectureFormat.MYST
    assert (lecture.kernel_name, lecture.language) == ("python3", "")
    assert [(cell.cell_type, cell.source) for cell in lecture.document.cells] == [
        ("markdown", "# Title"),
        ("code", "1"),
        ("markdown", "End"),
    ]
    assert lecture.document.nbformat == 4
    assert lecture.cells[0].index == 1


@pytest.mark.parametrize("language", ["", " python", " ipython3", " ipython"])
def test_every_language_counts(tmp_path, language):
    assert len(_read(page(tmp_path, f"```{{code-cell}}{language}\n1\n```\n")).cells) == 1


@pytest.mark.parametrize(
    ("language", "body", "spec", "findings"),
    [
        ("julia", "x = 1", "python3", [("julia", "python")]),
        ("Bash", "ls", "python3", [("Bash", "python")]),
        ("bash", "%%bash\nls", "python3", []),
        ("none", "x = 1", "python3", []),
        ("julia", "x = 1", "julia-1.11", []),
        ("ipython3", "x = 1", "ir", [("ipython3", "r")]),
        ("julia", "x = 1", "my-environment", []),
    ],
)
def test_cells_in_another_language_are_findings(tmp_path, language, body, spec, findings):
    text = f"```{{code-cell}}\n1\n```\n```{{code-cell}} {language}\n{body}\n```\n"
    lecture = _read(page(tmp_path, text, header=HEADER.replace("name: python3", f"name: {spec}")))
    assert lecture.findings == tuple(
        Finding(
            kind=FindingKind.FORMAT,
            message=(
                f"the cell is marked as {named!r} but runs in the lecture's kernel, which executes {kernel!r}; "
                "book builders do the same"
            ),
            cell_number=2,
            line=13,
        )
        for named, kernel in findings
    )


def test_extension_in_the_header_is_ignored(tmp_path):
    header = HEADER.replace("extension: .md", "extension: .myst")
    assert len(_read(page(tmp_path, "```{code-cell}\n1\n```\n", header=header)).cells) == 1


def test_missing_display_name_is_filled_in(tmp_path):
    lecture = _read(page(tmp_path, "```{code-cell}\n1\n```\n", header=HEADER.replace("  display_name: Python 3\n", "")))
    assert lecture.document.metadata.kernelspec == {"name": "python3", "display_name": "python3"}


def test_header_without_kernelspec_uses_default_kernel(tmp_path):
    lecture = _read(page(tmp_path, "```{code-cell}\n1\n```\n", header="---\nfile_format: mystnb\n---\n"))
    assert lecture.kernel_name is None
    message = "no kernelspec is named; the default Python kernel is used"
    assert lecture.findings == (Finding(kind=FindingKind.NO_KERNELSPEC, message=message),)


def test_another_jupytext_format_is_refused(tmp_path):
    path = page(tmp_path, "```python\n1\n```\n", header=HEADER.replace("myst", "markdown"))
    assert _fault(path) == (
        "lecture.md:5: is a jupytext notebook of the format 'markdown'; expected 'myst' "
        "(jupytext --to md:myst converts it)"
    )


@pytest.mark.parametrize(
    ("body", "findings"),
    [
        (":::{code-cell} python\n1\n:::\n", (_not_run("in a colon fence", 10),)),
        ("``` {code-cell} python\n1\n```\n", (_not_run("with a space in front of its name", 10),)),
        ("::::{note}\n```{code-cell}\n1\n```\n::::\n", (_nested(11),)),
        (":::note\n```{code-cell}\n1\n```\n:::\n", (_nested(11),)),
        ("- item\n\n  ```{code-cell}\n  1\n  ```\n", (_nested(12),)),
        ("> ```{code-cell}\n> 1\n> ```\n", (_nested(10),)),
        ("<details>\n```{code-cell}\n1\n```\n</details>\n", (_nested(11),)),
        (
            "`````{tab-set}\n````{tab-item} A\n```{code-cell}\n1\n```\n```{code-cell}\n2\n```\n````\n`````\n",
            (
                Finding(
                    kind=FindingKind.NESTED_CELL,
                    message="2 nested code-cells (lines 12 and 15) are not executed, as in the book build",
                    line=12,
                ),
            ),
        ),
        ("<!--\n```{code-cell}\n1\n```\n-->\n", ()),
        ("````md\n```{code-cell}\n1\n```\n````\n", ()),
        ("````{code-block} md\n```{code-cell}\n1\n```\n````\n", ()),
    ],
)
def test_cells_that_no_builder_runs_are_findings(tmp_path, body, findings):
    lecture = _read(page(tmp_path, body))
    assert lecture.cells == ()
    assert lecture.findings == (
        *findings,
        Finding(kind=FindingKind.NO_CODE, message="no code cells"),
    )


def test_tilde_fences_run(tmp_path):
    assert [cell.source for cell in _read(page(tmp_path, "~~~{code-cell}\n1\n~~~\n")).cells] == ["1"]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (
            "words\n\n```{code-cell} python\na = 1\n",
            "12: fence '```{code-cell} python' is opened here and never closed; close it with '```'",
        ),
        (
            "````{dropdown} More\n```{code-cell}\na = 1\n```\n```\n",
            "10: fence '````{dropdown} More' is opened here and never closed; close it with '````'",
        ),
        (
            "```{code-cell}\na = 1\n\n```{code-cell}\nb = 2\n```\n",
            "10: fence '```{code-cell}' is not closed before the code-cell at line 13; close it with '```'",
        ),
        (
            "```{note}\nwords\n\n```{code-cell}\nb = 2\n```\n",
            "10: fence '```{note}' is not closed before the code-cell at line 13; close it with '```'",
        ),
        (
            ":::\n```{code-cell}\na = 1\n```\n",
            "10: fence ':::' is opened here and never closed; close it with ':::'",
        ),
        (
            "+++ half a thought\n",
            "10: block break '+++' is followed by 'half a thought'; expected nothing or a JSON object",
        ),
        (
            "```{code-cell}\n:tags: [a\n1\n```\n",
            "11: code-cell options is not valid YAML: expected ',' or ']', but got '<stream end>'",
        ),
        ("```{code-cell}\n:tags\n1\n```\n", "11: code-cell options is a str; expected 'key: value' lines"),
    ],
)
def test_broken_pages(tmp_path, body, fault):
    assert _fault(page(tmp_path, body)) == f"lecture.md:{fault}"


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (
            "---\nkernelspec:\n  name: [python3\n---\n",
            "4: front matter is not valid YAML: expected ',' or ']', but got '<stream end>'",
        ),
        ("---\n- kernelspec\n---\n", None),
        (
            "---\nkernelspec:\n  name: python3\n# no end\n",
            "1: front matter is opened here and never closed; expected a line '---' after it",
        ),
        (
            "---\nfile_format: mystnb\ndate: 2024-13-40\n---\n",
            "2: front matter is not valid YAML: month must be in 1..12",
        ),
        (
            "---\nfile_format: mystnb\nx: \x07\n---\n",
            "3: front matter is not valid YAML: character '\\x07' is not allowed",
        ),
        (
            (
                "---\nfile_format: mystnb\na: &a [x, x, x, x, x, x, x, x, x]\n"
                "b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
                "d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: [*d, *d, *d, *d, *d, *d, *d, *d, *d]\n---\n"
            ),
            "2: front matter is not valid YAML: holds more than 50000 values or 60 levels",
        ),
        (
            "---\nfile_format: mystnb\na: &a [*a]\n---\n",
            "2: front matter is not valid YAML: holds more than 50000 values or 60 levels",
        ),
        (
            "<<<<<<< ours\n---\n=======\n---\ntitle: x\n>>>>>>> theirs\nfile_format: mystnb\n---\n",
            "1: has merge conflict markers at line 1; finish the merge",
        ),
    ],
)
def test_broken_headers(tmp_path, header, fault):
    path = page(tmp_path, "```{code-cell}\n1\n```\n", header=header)
    expected = "2: front matter is a list; expected 'key: value' lines" if fault is None else fault
    assert _fault(path) == f"lecture.md:{expected}"


CONFLICT = "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"


@pytest.mark.parametrize("body", [CONFLICT, f"```{{code-cell}}\n{CONFLICT}```\n"])
def test_merge_conflicts(tmp_path, body):
    line = 10 + body.split("\n").index("<<<<<<< ours")
    assert _fault(page(tmp_path, body)) == (
        f"lecture.md:{line}: has merge conflict markers at line {line}; finish the merge"
    )


def test_conflict_markers_in_verbatim_blocks_are_accepted(tmp_path):
    lecture = _read(page(tmp_path, f"```text\n{CONFLICT}```\n\n```{{code-cell}}\n1\n```\n"))
    assert [cell.source for cell in lecture.cells] == ["1"]


def test_loaded_file_replaces_the_body(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "model.py").write_text("a = 1\nb = 2\n", encoding="utf-8")
    (cell,) = _read(page(tmp_path, "```{code-cell}\n:load: code/model.py\n```\n")).cells
    assert (cell.source, cell.line, cell.opening_line, cell.source_path) == (
        "a = 1\nb = 2\n",
        None,
        10,
        "code/model.py",
    )


def test_loaded_file_may_be_anywhere_under_the_root(tmp_path):
    (tmp_path / "shared.py").write_text("a = 1", encoding="utf-8")
    (tmp_path / "lectures").mkdir()
    path = page(tmp_path / "lectures", "```{code-cell}\n:load: ../shared.py\n```\n")
    assert read_lecture(path, name="lectures/lecture.md").cells[0].source == "a = 1"
    with pytest.raises(LectureReadError) as caught:
        read_lecture(path, name="other.md")
    assert str(caught.value) == (
        "other.md:10: :load: '../shared.py' leaves the lectures' folder; expected a file inside it"
    )


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("missing.py", ":load: 'missing.py' is not a file; expected one relative to the lecture"),
        (".", ":load: '.' is not a file; expected one relative to the lecture"),
        ("/etc/hostname", ":load: '/etc/hostname' leaves the lectures' folder; expected a file inside it"),
        ("[a, b]", ":load: is ['a', 'b']; expected a file beside the lecture"),
        ("", ":load: is None; expected a file beside the lecture"),
        ("latin.py", ":load: 'latin.py' is not UTF-8 text (byte 0xe9); expected UTF-8: save it as UTF-8"),
    ],
)
def test_load_faults(tmp_path, target, fault):
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'")
    path = page(tmp_path, f"```{{code-cell}}\n:load: {target}\n```\n")
    assert _fault(path) == f"lecture.md:10: {fault}"


def test_link_out_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "secret.py").write_text("a = 1", encoding="utf-8")
    inner = tmp_path / "lectures"
    inner.mkdir()
    try:
        (inner / "link.py").symlink_to(tmp_path / "secret.py")
    except OSError:
        pytest.skip("this system lets no plain user make links")
    assert _fault(page(inner, "```{code-cell}\n:load: link.py\n```\n")) == (
        "lecture.md:10: :load: 'link.py' leaves the lectures' folder; expected a file inside it"
    )


def test_block_breaks_split_text_and_carry_metadata(tmp_path):
    lecture = _read(page(tmp_path, 'one\n\n+++ {"slide": 1}\n\ntwo\n\n```{raw-cell}\n:mime: text/x\n\nraw\n```\n'))
    assert [(cell.cell_type, cell.source, cell.metadata) for cell in lecture.document.cells] == [
        ("markdown", "one", {}),
        ("markdown", "two", {"slide": 1}),
        ("raw", "raw", {"mime": "text/x"}),
    ]


def test_line_ends_of_windows(tmp_path):
    path = page(tmp_path, "```{code-cell}\n:tags: [hide-input]\n\na = 1\nb = 2\n```\n")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    (cell,) = _read(path).cells
    assert (cell.source, cell.line) == ("a = 1\nb = 2", 13)


def test_form_feed_is_no_line_end(tmp_path):
    (cell,) = _read(page(tmp_path, "```{code-cell}\na = 1\n\x0c\nb = 2\n```\n")).cells
    assert (cell.source, cell.line) == ("a = 1\n\x0c\nb = 2", 11)


def test_path_with_special_characters(tmp_path):
    folder = tmp_path / "a[b]-c d"
    folder.mkdir()
    path = page(folder, "```{code-cell}\n1\n```\n", name="étude, été.md")
    lecture = read_lecture(path, name="a[b]-c d/étude, été.md")
    assert lecture.name == "a[b]-c d/étude, été.md"


def test_code_cells_of_included_files_are_findings(tmp_path):
    (tmp_path / "part.md").write_text("```{code-cell}\n1\n```\n\n```{code-cell}\n2\n```\n", encoding="utf-8")
    (tmp_path / "plain.md").write_text("words, and\n```python\n1\n```\n", encoding="utf-8")
    includes = ["part.md", "plain.md", "missing.md", "/etc/hostname", "", "part.md\n:literal:"]
    body = "".join(f"```{{include}} {target}\n```\n\n" for target in includes)
    lecture = _read(page(tmp_path, body + "```{code-cell}\n3\n```\n"))
    assert [(finding.line, finding.message) for finding in lecture.findings] == [
        (10, "2 code-cells in the included file 'part.md' are not executed, as in the book build")
    ]


def test_header_after_blank_lines_is_refused(tmp_path):
    path = page(tmp_path, "```{code-cell}\n1\n```\n", header=f"\n\n{HEADER}")
    assert _fault(path) == (
        "lecture.md:3: has its header at line 3; expected it on line 1: remove the blank lines above it"
    )
