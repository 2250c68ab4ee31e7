"""What keeps a lecture out of its book's cache, and what does not."""

from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from support.book_fixtures import made_executed
from support.made_records import made_run

from pytest_lecturecheck.book_cache.eligibility import (
    BuildView,
    align_messages,
    explain_page,
    explain_run,
    unexpected_errors,
)
from pytest_lecturecheck.model.cell_run import CellError, CellRun, CellStatus
from pytest_lecturecheck.model.lecture import Cell, Lecture, LectureFormat
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.model.settings import RunSettings


def cell(number, source="x", *tags, skip_reason="", expects_error=False):
    return Cell(
        index=number - 1,
        number=number,
        source=source,
        line=None,
        tags=frozenset(tags),
        skip_reason=skip_reason,
        expects_error=expects_error,
    )


def page(*cells, text="", **metadata):
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
    return Lecture(
        path=Path("a.md"),
        name="a.md",
        format=LectureFormat.MYST,
        kernel_name="python3",
        language="python",
        cells=cells or (cell(1),),
        settings=RunSettings(),
        findings=(),
        document=document,
        metadata=metadata,
    )


def view(lecture=None, **changes):
    values = {"engine": "myst-nb", "lecture": lecture or page(), "kernel_name": "python3", **changes}
    return BuildView(**values)


def run_of(*statuses, error=None, **keys):
    cells = tuple(
        CellRun(number=number, index=number - 1, line=None, status=status, error=error)
        for number, status in enumerate(statuses or (CellStatus.OK,), start=1)
    )
    keys = {"kernel_name": "python3", **keys}
    return made_run(lecture="a.md", platform="p", outcome=Outcome.COMPLETED, cells=cells, **keys)


def why(build=None, ran=None, run=None, *, ran_in_temp=False, inherited=None, **executed):
    return explain_run(
        build or view(),
        ran or page(),
        run or run_of(),
        made_executed(executed.pop("document", {}), **executed),
        ran_in_temp=ran_in_temp,
        inherited=inherited or {},
    )


def test_what_the_build_would_show_may_enter():
    assert why() == ""


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (view(is_page=False), "myst-nb does not read myst files as pages"),
        (
            view(page(execute={"cache": False}), engine="mystmd"),
            "its front matter sets execute.cache to false, so that mystmd runs it in every build",
        ),
        (view(engine="mystmd", kernel_name=None), "it names no kernelspec, without which mystmd does not run a page"),
        (
            view(page(text="It is {eval}`x`."), engine="mystmd"),
            "it has {eval} expressions, which the build evaluates and the gate does not",
        ),
        (view(page(text="It is {eval}`x`.")), ""),
        (view(), ""),
    ],
)
def test_some_pages_can_never_be_cached(build, reason):
    assert explain_page(build) == reason


def test_too_much_output_stays_out():
    assert why(is_whole=False) == "its outputs are larger than what is kept (256 MiB)"


def test_a_traced_run_stays_out():
    assert why(run=run_of(is_profiled=True)) == "cells were traced with a profiler"


@pytest.mark.parametrize(
    ("ran_in", "build_takes", "is_same"),
    [("python3", None, True), ("python", "python3", True), ("conda", "python3", False), ("python3", "conda", False)],
)
def test_the_kernel_must_be_the_one_of_the_build(ran_in, build_takes, is_same):
    reason = f"it ran in the kernel {ran_in!r}, and the build takes {build_takes!r}"
    assert why(view(kernel_name=build_takes), run=run_of(kernel_name=ran_in)) == ("" if is_same else reason)


def test_the_folder_must_be_the_one_of_the_build():
    assert why(ran_in_temp=True) == "it ran in a temporary folder, and the build runs it in its own folder"
    assert why(view(runs_in_temp=True), ran_in_temp=True) == ""


def test_a_cell_that_only_the_gate_leaves_out_keeps_a_lecture_out():
    ran = page(cell(1), cell(2, "y", skip_reason="comment # NBVAL_SKIP"))
    expected = "code cell 2 is left out here (comment # NBVAL_SKIP), and the build runs it"
    assert why(view(ran), ran) == expected


def test_a_cell_that_the_build_leaves_out_too_does_not():
    ran = page(cell(1), cell(2, "y", "skip-execution", skip_reason="tag skip-execution"))
    assert why(view(ran), ran) == ""


def test_other_cells_of_the_build_keep_a_lecture_out():
    build = view(page(cell(1), cell(2, "nested")), engine="mystmd")
    assert why(build) == "mystmd runs other cells of this page than the gate did (2 there, 1 here)"


def test_blank_cells_do_not_matter():
    assert why(view(page(cell(1, " \n"), cell(2, "x\n")))) == ""


@pytest.mark.parametrize(
    ("status", "tags", "reason"),
    [
        (
            CellStatus.ALLOWED_ERROR,
            (),
            "code cell 1 raised an error that is allowed for the lecture as a whole",
        ),
        (
            CellStatus.EXPECTED_ERROR,
            (),
            "code cell 1 raised an error that the build does not expect (it has no tag raises-exception)",
        ),
        (CellStatus.EXPECTED_ERROR, ("raises-exception",), ""),
    ],
)
def test_errors_must_be_expected_by_the_build(status, tags, reason):
    ran = page(cell(1, "x", *tags, expects_error=True))
    assert why(view(ran), ran, run_of(status)) == reason


def test_variables_of_our_own_keep_a_lecture_out():
    environment = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    expected = "the variable CUDA_VISIBLE_DEVICES and 1 more was set for its kernel, and the build does not set it"
    assert why(environment=environment) == expected


def test_variables_that_the_build_inherits_do_not():
    assert why(environment={"A": "1"}, inherited={"A": "1"}) == ""
    assert why(environment={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.40"}) == ""


def test_tracebacks_that_we_lengthen_keep_a_lecture_out():
    environment = {"JAX_TRACEBACK_FILTERING": "off"}
    assert why(environment=environment) == ""
    error = CellError(name="ValueError", value="x")
    ran = page(cell(1, "x", "raises-exception"))
    run = run_of(CellStatus.EXPECTED_ERROR, error=error)
    assert "JAX_TRACEBACK_FILTERING" in why(view(ran), ran, run, environment=environment)


@pytest.mark.parametrize("text", ["LECTURECHECK_RUN_TOKEN=0", "0123abcd", "<lecturecheck agent>"])
def test_output_that_shows_the_gate_keeps_a_lecture_out(text):
    expected = "its output shows that it ran under pytest-lecturecheck"
    assert why(messages=[[{"text": text}]]) == expected
    assert why(document={"cells": [{"outputs": [{"text": text}]}]}) == expected


def test_messages_are_aligned_with_the_cells_of_the_page():
    ran = page(cell(1, "a"), cell(2, "", skip_reason=""), cell(3, "b"), cell(4, "c", skip_reason="x"))
    build = page(cell(1, " "), cell(2, "a"), cell(3, "s", "skip-execution"), cell(4, "b"))
    assert align_messages(build, ran, [["A"], [], ["B"], []]) == [(), ["A"], (), ["B"]]


def test_errors_in_an_entry_are_those_of_untagged_cells():
    cells = [cell(1), cell(3, "x", "raises-exception"), cell(4)]
    assert unexpected_errors((1, 2, 3, 9), cells) == [1, 4]


def test_a_changed_lecture_is_another_lecture():
    ran = page(cell(1, "x"))
    assert why(view(replace(ran, cells=(cell(1, "y"),))), ran) != ""
