from __future__ import annotations

import json
import re

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.made_pages import CASES, code, notebook

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.formats.json_lines import locate_lines
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import LectureFormat

NO_KERNELSPEC = Finding(
    kind=FindingKind.NO_KERNELSPEC, message="no kernelspec is named; the default Python kernel is used"
)


def _fault(path) -> str:
    with pytest.raises(LectureReadError) as caught:
        read_lecture(path, name=path.name)
    return str(caught.value)


def test_notebook_without_kernelspec_is_a_finding():
    lecture = read_lecture(CASES / "A01-no-kernelspec" / "bare.ipynb", name="bare.ipynb")
    assert lecture.format is LectureFormat.IPYNB
    assert lecture.kernel_name is None
    assert lecture.findings == (NO_KERNELSPEC,)
    assert [(cell.index, cell.number, cell.line) for cell in lecture.cells] == [(1, 1, 15), (2, 2, 27)]
    assert lecture.cells[1].source == "assert balance > 112"


def test_duplicate_cell_ids_are_one_finding():
    path = CASES / "A03-duplicate-cell-ids" / "twice.ipynb"
    before = path.read_bytes()
    lecture = read_lecture(path, name="twice.ipynb")
    message = "cells share an id ('same'); measurements are matched by position"
    assert lecture.findings == (Finding(kind=FindingKind.FORMAT, message=message),)
    assert [cell.id for cell in lecture.document.cells] == ["same", "cell-1", "last"]
    assert path.read_bytes() == before


NO_ID = "measurements are matched by position"


@pytest.mark.parametrize(
    ("minor", "ids", "messages"),
    [
        (5, [None], [f"1 cell has no valid id (cell 1: id null); {NO_ID}"]),
        (5, ["a", 7, None], [f"2 cells have no valid id (first cell 2: id 7); {NO_ID}"]),
        (5, ["a", ...], [f"1 cell has no valid id (cell 2: no id); {NO_ID}"]),
        (5, ["x y", "x y"], [f'2 cells have no valid id (first cell 1: id "x y"); {NO_ID}']),
        (5, ["x" * 70], [f'1 cell has no valid id (cell 1: id "{"x" * 39}...); {NO_ID}']),
        (
            5,
            ["a", "a", None],
            [f"cells share an id ('a'); {NO_ID}", f"1 cell has no valid id (cell 3: id null); {NO_ID}"],
        ),
        (5, ["cell-1", None, "cell-4"], [f"1 cell has no valid id (cell 2: id null); {NO_ID}"]),
        (4, [...], []),
        (4, ["a"], []),
        (4, ["a", 7], [f"1 cell has no valid id (cell 2: id 7); {NO_ID}"]),
    ],
)
def test_invalid_cell_ids_are_one_finding(tmp_path, minor, ids, messages):
    cells = [code("1") | ({} if cell_id is ... else {"id": cell_id}) for cell_id in ids]
    spec = {"kernelspec": {"name": "python3", "display_name": "P"}}
    lecture = read_lecture(notebook(tmp_path, *cells, metadata=spec, nbformat_minor=minor), name="a.ipynb")
    assert [finding.message for finding in lecture.findings] == messages
    found = [cell.get("id") for cell in lecture.document.cells]
    assert len(set(found)) == (len(ids) if minor == 5 else 1)
    nbformat.validate(lecture.document)


@pytest.mark.parametrize("name", ["zero.ipynb", "text_only.ipynb"])
def test_notebook_without_code_is_a_finding(name):
    lecture = read_lecture(CASES / "A05-nothing-to-run" / name, name=name)
    assert lecture.cells == ()
    assert not lecture.has_work
    assert lecture.findings == (Finding(kind=FindingKind.NO_CODE, message="no code cells"),)


def test_comment_only_cell_is_work():
    lecture = read_lecture(CASES / "A05-nothing-to-run" / "blank.ipynb", name="blank.ipynb")
    assert [cell.source for cell in lecture.cells] == ["", "# only a remark"]
    assert lecture.has_work


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("conflict.ipynb", "conflict.ipynb:6: has merge conflict markers at line 6; finish the merge"),
        (
            "cut.ipynb",
            "cut.ipynb:11: is not complete JSON: the file ends in the middle (cut off or partly downloaded?)",
        ),
        (
            "list.ipynb",
            "list.ipynb:1: is JSON but not a notebook: its top level is a list; expected an object with 'cells'",
        ),
        ("zero_bytes.ipynb", "zero_bytes.ipynb: is empty (0 bytes)"),
    ],
)
def test_broken_files(name, fault):
    assert _fault(CASES / "A08-broken-json" / name) == fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (" \n", "x.ipynb:1: is blank; expected a notebook (JSON)"),
        (
            '{"a":\n "un',
            "x.ipynb:2: is not complete JSON: the file ends in the middle (cut off or partly downloaded?)",
        ),
        ("# Notes", "x.ipynb:1: is not JSON: Expecting value (column 1); expected a notebook"),
        ("<html>", "x.ipynb:1: is not JSON but a web page or XML (it begins with '<'); was it saved from a browser?"),
        (
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "x.ipynb:1: is a pointer of Git LFS, not the notebook itself; fetch it with 'git lfs pull'",
        ),
        ('{"cells": []}', "x.ipynb: has cells but no 'nbformat'; expected 4 (3 and 2 are upgraded in memory)"),
        ('{"a": 1}', "x.ipynb: is JSON but not a notebook: it has neither 'nbformat' nor 'cells'"),
        (
            '{"nbformat": 5, "cells": []}',
            "x.ipynb: has nbformat 5; expected 4 (3 and 2 are upgraded in memory)",
        ),
        (
            '{"nbformat": "4", "cells": []}',
            "x.ipynb: has nbformat '4'; expected 4 (3 and 2 are upgraded in memory)",
        ),
        ('{"nbformat": 4}', "x.ipynb: has no 'cells'; expected nbformat 4"),
        (
            '{"nbformat": 4, "cells": {}}',
            "x.ipynb: has no list of cells ('cells' is a dict); expected nbformat 4",
        ),
        (
            '{"nbformat": 4, "cells": [{"cell_type": "sql"}]}',
            "x.ipynb: cell 1 has cell_type 'sql'; expected 'code', 'markdown' or 'raw'",
        ),
        (
            '{"nbformat": 4, "cells": [{"cell_type": []}]}',
            "x.ipynb: cell 1 has cell_type []; expected 'code', 'markdown' or 'raw'",
        ),
        (
            '{"nbformat": 4, "cells": [{"cell_type": "code", "source": 7}]}',
            "x.ipynb: code cell 1 has a source that is neither text nor a list of lines",
        ),
        (
            '{"nbformat": 4, "cells": [{"cell_type": "code", "source": "\\ud800"}]}',
            "x.ipynb: code cell 1 holds half a surrogate pair, which no encoding can write; remove the \\ud8xx escape",
        ),
    ],
)
def test_files_that_are_not_notebooks_are_refused(tmp_path, text, fault):
    path = tmp_path / "x.ipynb"
    path.write_text(text, encoding="utf-8")
    assert _fault(path) == fault


def test_deeply_nested_json_is_refused(tmp_path):
    path = tmp_path / "x.ipynb"
    path.write_text("[" * 200_000, encoding="utf-8")
    assert _fault(path) in {
        "x.ipynb: is not readable JSON: it is nested too deeply",
        "x.ipynb:1: is not complete JSON: the file ends in the middle (cut off or partly downloaded?)",
    }


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ("{}".encode("utf-16"), "x.ipynb: is UTF-16 text; expected UTF-8: save it as UTF-8"),
        ("{}".encode("utf-16-le"), "x.ipynb: is UTF-16 text; expected UTF-8: save it as UTF-8"),
        ("{}".encode("utf-32"), "x.ipynb: is UTF-32 text; expected UTF-8: save it as UTF-8"),
        (
            '{\n"a": "é"}'.encode("latin-1"),
            "x.ipynb:2: is not UTF-8 text (byte 0xe9); expected UTF-8: save it as UTF-8",
        ),
    ],
)
def test_other_encodings_are_refused(tmp_path, data, fault):
    path = tmp_path / "x.ipynb"
    path.write_bytes(data)
    assert _fault(path) == fault


def test_byte_order_mark_and_carriage_returns_are_accepted(tmp_path):
    path = notebook(tmp_path, code("a = 1", "b = 2"))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    lecture = read_lecture(path, name="lecture.ipynb")
    assert [(cell.source, cell.line) for cell in lecture.cells] == [("a = 1\nb = 2", 7)]


def test_missing_file_is_refused(tmp_path):
    assert _fault(tmp_path / "gone.ipynb") == "gone.ipynb: cannot be read: No such file or directory"


def test_nbformat_3_is_upgraded_in_memory(tmp_path):
    cell = {"cell_type": "code", "language": "python", "input": ["a = 1\n", "a"], "outputs": [], "collapsed": False}
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": [cell]}]}
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps(old), encoding="utf-8")
    lecture = read_lecture(path, name="old.ipynb")
    assert [(item.source, item.line) for item in lecture.cells] == [("a = 1\na", None)]
    message = "nbformat 3 was read as nbformat 4; the file is unchanged"
    assert lecture.findings == (Finding(kind=FindingKind.FORMAT, message=message), NO_KERNELSPEC)
    assert json.loads(path.read_text(encoding="utf-8")) == old


def test_invalid_nbformat_3_notebook_is_refused(tmp_path):
    path = tmp_path / "old.ipynb"
    path.write_text('{"nbformat": 3, "worksheets": 7}', encoding="utf-8")
    assert re.fullmatch(r"old\.ipynb: has nbformat 3 and cannot be upgraded to 4: \w+: .+", _fault(path))


def test_stored_outputs_are_dropped(tmp_path):
    cell = code("1")
    cell |= {"outputs": [{"output_type": "stream", "name": "stdout", "text": "1"}], "execution_count": 3}
    lecture = read_lecture(notebook(tmp_path, cell), name="lecture.ipynb")
    assert lecture.document.cells[0].outputs == []
    assert lecture.document.cells[0].execution_count is None


@pytest.mark.parametrize(
    ("cell", "skip_reason", "expects_error"),
    [
        (code("1", tags=["skip-execution"]), "tag skip-execution", False),
        (code("1", tags="skip-execution"), "tag skip-execution", False),
        (code("1", tags="hide-input, raises-exception"), "", True),
        (code("1", tags=["raises-exception", None, 3]), "", True),
        (code("1", tags=["nbval-skip"]), "tag nbval-skip", False),
        (code("1", tags=["nbval-raises-exception"]), "", True),
        (code("# NBVAL_SKIP", "1"), "comment # NBVAL_SKIP", False),
        (code("#NBVAL_RAISES_EXCEPTION", "1/0"), "", True),
        (code("x = '# NBVAL_SKIP'"), "", False),
        (code("1", tags=["no-execute", "hide-output"]), "", False),
    ],
)
def test_tags_and_marks(tmp_path, cell, skip_reason, expects_error):
    (read,) = read_lecture(notebook(tmp_path, cell), name="lecture.ipynb").cells
    assert (read.skip_reason, read.expects_error) == (skip_reason, expects_error)


def test_notebook_with_only_skipped_cells_is_a_finding(tmp_path):
    path = notebook(tmp_path, code("1", tags=["skip-execution"]), metadata={"kernelspec": {"name": "python3"}})
    message = "the only code cell is skipped (tag skip-execution)"
    assert read_lecture(path, name="x.ipynb").findings == (Finding(kind=FindingKind.NOT_RUN, message=message),)


@pytest.mark.parametrize("key", ["mock", "post_cell_execute"])
def test_unsupported_nbmake_metadata_is_a_finding(tmp_path, key):
    path = notebook(tmp_path, code("x = 1", nbmake={key: ["x = 2"]}), metadata={"kernelspec": {"name": "python3"}})
    message = f"cell metadata nbmake.{key} is not supported; the cell runs as written"
    (finding,) = read_lecture(path, name="x.ipynb").findings
    assert (finding.kind, finding.message, finding.cell_number) == (FindingKind.NOT_RUN, message, 1)


def test_kernel_name_must_be_text(tmp_path):
    path = notebook(tmp_path, metadata={"kernelspec": {"name": 3}})
    assert _fault(path) == ("lecture.ipynb:5: notebook metadata kernelspec.name is 3; expected the name of a kernel")


def test_unknown_suffix_is_refused(tmp_path):
    path = tmp_path / "lecture.txt"
    path.write_text("x", encoding="utf-8")
    assert _fault(path) == "lecture.txt: has the suffix '.txt'; expected .ipynb, .md, .py, .Rmd or .qmd"


SOURCES = st.lists(st.text(alphabet='ab "\\\n\té\u2028{}[]:,', max_size=30), max_size=5)


@settings(deadline=None)
@given(
    sources=SOURCES,
    indent=st.sampled_from([None, 0, 1, 4]),
    as_list=st.booleans(),
    ascii_only=st.booleans(),
    keys_first=st.booleans(),
)
def test_every_located_line_holds_the_source(sources, indent, as_list, ascii_only, keys_first):
    cells = [
        {"source": source.splitlines(keepends=True) if as_list else source, "metadata": {"source": "a"}}
        for source in sources
    ]
    data = {"metadata": {"cells": []}, "cells": cells} if keys_first else {"cells": cells, "metadata": {}}
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    lines = locate_lines(text, cells).sources
    assert len(lines) == len(cells)
    for line, cell in zip(lines, cells, strict=True):
        pieces = cell["source"] if isinstance(cell["source"], list) else [cell["source"]]
        # Editors write one list element a line: there every source of one line at least must be found.
        if indent and as_list and pieces and all("\n" not in piece[:-1] for piece in pieces):
            assert line is not None
        if line is not None:
            for offset, piece in enumerate(pieces):
                assert json.dumps(piece, ensure_ascii=ascii_only) in text.split("\n")[line - 1 + offset]


def test_cells_on_one_line_have_no_line(tmp_path):
    path = tmp_path / "compact.ipynb"
    path.write_text(json.dumps({"cells": [code("a"), code("b")], "metadata": {}, "nbformat": 4}), encoding="utf-8")
    assert [cell.line for cell in read_lecture(path, name="x").cells] == [None, None]


def test_settings_in_the_metadata_have_their_lines(tmp_path):
    metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
        "widgets": {"state": {"a": {"timeout": 1}}},
        "execution": {"timeout": 60},
        "lecturecheck": {"memory-cap": "2 GB", "strict-except": ["install", "shell"]},
    }
    data = {"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    rows = path.read_text(encoding="utf-8").split("\n")
    settings = read_lecture(path, name="a.ipynb").settings
    for attribute, key, text in (
        ("timeout_seconds", "timeout", "60"),
        ("memory_cap_bytes", "memory-cap", "2 GB"),
        ("strict_except", "strict-except", "install,shell"),
    ):
        assert rows[settings.lines[attribute] - 1].strip().startswith(f'"{key}"')
        assert settings.texts[attribute] == text


@pytest.mark.parametrize("minor", [{"nbformat": 4}, {"nbformat": 3, "worksheets": []}])
def test_a_bad_setting_in_the_metadata_names_its_line(tmp_path, minor):
    data = {"metadata": {"name": "x", "lecturecheck": {"timeout": "soon"}}, "nbformat_minor": 0, "cells": [], **minor}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    with pytest.raises(LectureReadError) as caught:
        read_lecture(path, name="a.ipynb")
    assert caught.value.line == 5
