"""Lectures as files: what is run, what is refused, and what is said about it."""

import re
import unicodedata

import pytest
from support.real_sessions import CASES, PLATFORM


@pytest.fixture(scope="module")
def session(project):
    project.put("A01", "A03", "A05", "A08", "A10", "A13", "A16", "B01", "B02", "B04", "B05", "B07")
    before = {path: path.read_bytes() for path in project.folder.rglob("*.ipynb")}
    session = project.pytest("--lecture-budget", "-n", "2", "--lecture-timeout", "60", "--junitxml=junit.xml", ".")
    assert {path: path.read_bytes() for path in project.folder.rglob("*.ipynb")} == before, "a lecture was rewritten"
    return session


def test_the_session_as_a_whole(session):
    assert session.code == 1
    assert "INTERNALERROR" not in session.text
    assert session.outcomes() == {"failed": 1, "passed": 12, "skipped": 2, "errors": 5}
    assert list(session.runs) != []


def test_a_notebook_without_kernelspec(session):
    assert session.statuses("A01/bare.ipynb") == ["ok", "ok"]
    assert session.run("A01/bare.ipynb")["kernel_name"] == "python3"
    assert session.findings("A01/bare.ipynb") == ["no kernelspec is named; the default Python kernel is used"]


def test_cells_that_share_an_id_are_measured_separately(session):
    cells = session.run("A03/twice.ipynb")["cells"]
    assert [(cell["number"], cell["index"], cell["line"]) for cell in cells] == [(1, 0, 7), (2, 1, 17), (3, 2, 27)]
    assert all(cell["readings"]["peak_footprint_bytes"]["value"] > 0 for cell in cells)
    shared = [finding for finding in session.findings("A03/twice.ipynb") if " id " in finding]
    assert shared == ["cells share an id ('same'); measurements are matched by position"]


@pytest.mark.parametrize("name", ["A05/zero.ipynb", "A05/text_only.ipynb"])
def test_nothing_to_run_starts_no_kernel_and_needs_no_budget(session, name):
    record = session.run(name)
    assert (record["outcome"], record["reason"]) == ("skipped", "nothing to run: no code cells")
    assert "startup_seconds" not in record
    assert session.verdict(name)["failed"] is False


def test_a_blank_cell_is_no_cell_to_run(session):
    assert session.statuses("A05/blank.ipynb") == ["empty", "ok"]


def test_nothing_to_run_is_success(own_project):
    own_project.put("A05")
    session = own_project.pytest("--lecture-budget", "--lecture-strict", "A05/zero.ipynb", "A05/text_only.ipynb")
    assert session.code == 0
    assert session.outcomes() == {"skipped": 2}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("conflict", "A08/conflict.ipynb:6: has merge conflict markers at line 6; finish the merge"),
        ("cut", "A08/cut.ipynb:11: is not complete JSON: the file ends in the middle (cut off or partly downloaded?)"),
        (
            "list",
            "A08/list.ipynb:1: is JSON but not a notebook: its top level is a list; expected an object with 'cells'",
        ),
        ("zero_bytes", "A08/zero_bytes.ipynb: is empty (0 bytes)"),
    ],
)
def test_a_broken_file_is_one_error_with_a_plain_reason(session, name, reason):
    assert session.failure(f"A08/{name}.ipynb") == reason


def test_the_others_run_beside_broken_files(session, project):
    assert session.statuses("A08/good.ipynb") == ["ok"]
    alone = project.pytest("--lecture-budget", "-k", "good.ipynb", "A08")
    assert (alone.code, alone.outcomes()) == (0, {"passed": 1, "deselected": 4})


def test_built_copies_are_no_lectures(session):
    assert [name for name in session.runs if name.startswith("A10/")] == ["A10/lecture.ipynb"]


@pytest.mark.usefixtures("session")
def test_a_copy_that_is_named_is_collected(project):
    named = "A10/_build/jupyter_execute/lecture.ipynb"
    assert project.node_ids(named) == [f"{named}::lecture"]


def test_percent_scripts(session, project):
    assert [name for name in session.runs if name.startswith("A13/")] == ["A13/lecture_percent.py"]
    assert session.statuses("A13/lecture_percent.py") == ["ok", "ok"]
    collected = project.pytest("--lecture-budget", "--collect-only", "-q", "A13").lines
    assert collected[:2] == ["A13/lecture_percent.py::lecture", "A13/test_unit.py::test_ok"]
    assert collected[3].startswith("2 tests collected in ")


def test_a_percent_script_with_the_name_of_a_test_module_is_one_item(own_project):
    text = (next(CASES.glob("A13-*")) / "lecture_percent.py").read_text(encoding="utf-8")
    own_project.write("test_lecture.py", text)
    assert own_project.node_ids(".") == ["test_lecture.py::lecture"]


def test_names_that_look_like_notebooks(session, project):
    assert [name for name in session.runs if name.startswith("A16/")] == ["A16/UP.IPYNB"]
    asked = project.node_ids("--lecture-suffix=.qmd", "--lecture-suffix=.Rmd", "A16")
    assert asked == ["A16/UP.IPYNB::lecture", "A16/lecture.Rmd::lecture", "A16/slides.qmd::lecture"]


def test_code_cells_without_a_header_are_no_pass(session):
    assert session.failure("B01/headless.md") == (
        "B01/headless.md:3: has 2 code-cell blocks but no kernelspec/jupytext header, so no book runs it; add one, "
        "or use code-block"
    )
    assert "B01/README.md" not in session.text


def test_a_nested_cell_is_not_run_with_a_finding(session):
    assert session.statuses("B02/nested.md") == ["ok", "ok"]
    assert session.findings("B02/nested.md") == [
        "1 nested code-cell (line 20) is not executed, as in the book build",
    ]


def test_a_name_that_only_a_nested_cell_defines(own_project):
    text = (next(CASES.glob("B02-*")) / "nested.md").read_text(encoding="utf-8")
    own_project.write("nested.md", text.replace("print(a)", "print(b)"))
    failure = own_project.pytest("--lecture-budget", "nested.md").failure("nested.md")
    assert "NameError: name 'b' is not defined (code cell 2, line 26)" in failure
    assert "1 nested code-cell (line 20) is not executed, as in the book build" in failure


def test_both_forms_of_tags(session):
    assert session.statuses("B04/tags.md")[-1] == "ok"
    assert set(session.statuses("B04/tags.md")[:-1]) == {"expected error"}
    assert session.statuses("B04/tag_not_raising.md") == ["ok", "skipped"]
    assert session.findings("B04/tag_not_raising.md") == ["the cell is tagged raises-exception and raised nothing"]


def test_a_missing_expected_exception_fails_under_strict(own_project):
    own_project.put("B04")
    own_project.budgets({"B04/tag_not_raising.md": '"1 GiB"'})
    session = own_project.pytest("--lecture-budget", "--lecture-strict", "B04/tag_not_raising.md")
    assert session.code == 1
    assert "the cell is tagged raises-exception and raised nothing" in session.failure("B04/tag_not_raising.md")


def test_blocks_that_are_only_shown_are_not_run(session):
    assert session.statuses("B05/shown.md") == ["ok"]


def test_an_error_leads_to_the_line_of_the_page(session):
    failure = session.failure("B07/solution.md").splitlines()
    assert failure[:7] == [
        "TypeError: unsupported operand type(s) for +=: 'int' and 'str' (code cell 1, line 31)",
        "B07/solution.md:31: code cell 1 of 1, which starts at line 27 (its code at line 28)",
        "",
        "    28 | rows = [1, 2, 'three']",
        "    29 | total = 0",
        "    30 | for r in rows:",
        ">   31 |     total += r",
    ]
    short = "TypeError: unsupported operand type(s) for +=: 'int' and 'str' (code cell 1, line 31)"
    assert f"FAILED B07/solution.md::lecture - {short}" in session.lines


ODD = "a[b]-c::d.ipynb"
"""No such file lies among the inputs: not every system can hold it."""


@pytest.fixture(scope="module")
def odd_project(tmp_path_factory):
    from support.real_sessions import LectureProject  # noqa: PLC0415 - the module's other project is a fixture

    odd = LectureProject(tmp_path_factory.mktemp("odd"))
    odd.put("A09", flat=True)
    odd.notebook(ODD, "x = 1")
    return odd


def test_odd_names_record_and_check_again(odd_project):
    recorded = odd_project.pytest("--lecture-record", "--lecture-runs=1", "-n", "2", "--junitxml=junit.xml", ".")
    assert (recorded.code, recorded.outcomes()) == (0, {"passed": 4})
    assert len(recorded.junit.findall(".//testcase")) == 4
    text = (odd_project.folder / "lecture-budgets" / f"{PLATFORM}.toml").read_text(encoding="utf-8")
    for name in ("étude \u2013 été.ipynb", "sub dir/with space.md", ODD):
        assert f'[lectures."{name}"]' in text
    decomposed = unicodedata.normalize("NFD", text)
    assert decomposed != text
    odd_project.write(f"lecture-budgets/{PLATFORM}.toml", decomposed)
    checked = odd_project.pytest("--lecture-budget", "--lecture-strict", ".")
    assert (checked.code, checked.outcomes()) == (0, {"passed": 4})
    assert {checked.verdict(name)["kind"] for name in checked.runs} == {"within"}


def test_every_node_id_selects_its_own_lecture(odd_project):
    ids = odd_project.node_ids(".")
    assert len(ids) == 4
    odd, spaced = ids[0], ids[2]
    assert odd_project.node_ids(odd) == [odd]
    assert odd_project.node_ids(spaced, ids[3]) == [spaced, ids[3]]
    assert re.fullmatch(r"a_lecture_with_a_name(_very){34}_long\.ipynb::lecture", ids[1])
