"""The line that every output names is the line of the source, wherever IPython changes the number of lines."""

from __future__ import annotations

import re

import pytest

HEADER = "---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n\n"
CASES = ("T01", "T02", "T15")
LINES = {
    "bang.ipynb": 11,
    "page.md": 11,
    "assign.ipynb": 11,
    "syntax_bang.ipynb": 11,
    "timeout_bang.ipynb": 13,
    "blank.ipynb": 13,
    "blank_page.md": 12,
    "timeout_blank.ipynb": 13,
    "crash_blank.ipynb": 13,
    "ff.md": 11,
    "abort.ipynb": 10,
}
MAGICS = {"timed.ipynb": 7, "captured.ipynb": 5}
"""Their cells are one text in the file, so that only the line within the cell is known."""


@pytest.fixture(scope="module")
def session(project):
    project.put(*CASES, flat=True)
    project.notebook("timed.ipynb", "%%time\n\n\n!echo a \\\n  b\nx = 1\n1 / 0")
    project.notebook("captured.ipynb", "\n\n%%capture\n\n1 / 0")
    cells = (
        f"```{{code-cell}} ipython3\n{source}\n```\n"
        for source in ("import os\n\ndef f():\n    os.abort()", "x = 1\n\nf()")
    )
    project.write("helper.md", HEADER + "\n".join(cells))
    project.notebook("killed.ipynb", "x = 1", "import os\nos.kill(os.getpid(), 9)")
    options = ("--lecture-budget", "--lecture-timeout=8", "-n", "2", "--junitxml=junit.xml", ".")
    return project.pytest(*options, GITHUB_ACTIONS="true")


def written_line(project, name, number):
    """Return a line of the file as a person reads it."""
    text = (project.folder / name).read_text(encoding="utf-8").split("\n")[number - 1]
    return text.strip().strip('",').replace("\\n", "") if name.endswith(".ipynb") else text


def test_every_lecture_fails(session):
    assert session.outcomes() == {"failed": len(LINES) + len(MAGICS) + 2}


@pytest.mark.parametrize(("name", "line"), LINES.items())
def test_every_output_names_the_same_line(session, name, line):
    failure = session.failure(name)
    rows = failure.splitlines()
    assert f"line {line}" in rows[0]
    assert any(row.startswith(f"{name}:{line}: code cell 1 of 1") for row in rows)
    assert session.run(name)["evidence"]["line"] == line
    properties = {
        item.get("name"): item.get("value")
        for case in session.junit.iter("testcase")
        if name in {case.get("name"), case.get("classname"), case.get("file")}
        for item in case.iter("property")
    }
    assert properties["lecturecheck.line"] == str(line)


def test_annotations_name_the_same_lines(session):
    """There are at most ten of them."""
    found = re.findall(r"^::error file=([^,]+),line=(\d+),", session.text, re.MULTILINE)
    assert len(found) >= 6
    assert {name: int(line) for name, line in found}.items() <= (LINES | {"helper.md": 17}).items()


@pytest.mark.parametrize(
    ("name", "line", "text"),
    [
        ("timeout_bang.ipynb", 13, "stack: code cell 1, line 13"),
        ("timeout_blank.ipynb", 13, "stack: code cell 1, line 13"),
        ("crash_blank.ipynb", 13, "running Python: line 13: os.abort()"),
        ("helper.md", 17, "running Python: code cell 1, line 11, in f; called from line 17: f()"),
    ],
)
def test_evidence_counts_lines_as_the_file_does(session, name, line, text):
    assert session.run(name)["evidence"]["line"] == line
    assert text in [" ".join(row.split()) for row in session.failure(name).splitlines()]


@pytest.mark.parametrize(("name", "line"), MAGICS.items())
def test_the_body_of_a_cell_magic_keeps_its_lines(session, name, line):
    (marked,) = re.findall(r"^> +(\d+) \| (.*)$", session.failure(name), re.MULTILINE)
    assert marked == (str(line), "1 / 0")


@pytest.mark.parametrize(("name", "line"), LINES.items())
def test_the_marked_line_is_the_source_of_that_line(session, project, name, line):
    (marked,) = re.findall(r"^> +(\d+) \| (.*)$", session.failure(name), re.MULTILINE)
    assert int(marked[0]) == line
    if not name.endswith(".ipynb"):
        assert marked[1].strip() == written_line(project, name, line).strip()
    else:
        # In a notebook's file the line is a JSON string, perhaps with all of the cell in it.
        assert marked[1].strip()


def test_a_killed_kernel_names_its_cell_and_no_line(session):
    assert session.failure("killed.ipynb").splitlines()[0] == (
        "kernel was killed from outside (SIGKILL) in code cell 2; no record of memory shortage"
    )
    assert session.run("killed.ipynb")["evidence"].get("line") is None
