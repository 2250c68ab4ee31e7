"""Where the build of a book will differ from the session."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.made_verdicts import run

from pytest_lecturecheck.config.options import resolve
from pytest_lecturecheck.lecture.book.pages import Book, BookEngine
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run_conditions import RunConditions
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.build_differences import explain_build_differences
from pytest_lecturecheck.verdict import Verdict, VerdictKind

ROOT = Path("/book")
TIMED = RunSettings(timeout_seconds=40.0, origins={"timeout_seconds": "_config.yml execute.timeout"})
PINNED = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}


def cell(seconds):
    wall = Measurement(metric=Metric.WALL, value=seconds, method=Method.EXACT, source="clock")
    return CellRun(index=0, number=3, line=9, status=CellStatus.OK, readings={Metric.WALL: wall})


def explain(*, seconds=1.0, variables=None, settings=None, engine=BookEngine.MYST_NB, given=None, environ=None):
    found = replace(run(cells=(cell(seconds),), lecture="a.md"), conditions=RunConditions(environment=variables or {}))
    entry = Entry(run=found, verdict=Verdict(kind=VerdictKind.WITHIN, failed=False, headline=""))
    book = Book(folder=ROOT, source="_config.yml", settings=settings or RunSettings(), engine=engine)
    stated = resolve({"budget": True, **(given or {})}, ROOT, ROOT)
    return explain_build_differences([entry], stated, lambda _: book, rootdir=ROOT, environ=environ or {})


def test_nothing_differs():
    assert explain() == []


def test_variables_that_the_build_lacks_are_named():
    variables = {"OMP_NUM_THREADS": "2", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "CUDA_VISIBLE_DEVICES": "0"}
    [line] = explain(variables=variables)
    assert line == (
        "the build of the book differs: kernels of this session get OMP_NUM_THREADS, XLA_PYTHON_CLIENT_PREALLOCATE "
        "(XLA_PYTHON_CLIENT_PREALLOCATE decide about the memory of GPUs), and a build beside it does not; "
        "`lecturecheck env --github` sets them for later steps, and --shell in a shell"
    )


def test_variables_of_the_session_itself_are_no_difference():
    assert explain(variables={"OMP_NUM_THREADS": "2"}, environ={"OMP_NUM_THREADS": "2"}) == []


def test_a_lecture_without_a_gpu_is_named():
    [line] = explain(variables=PINNED)
    assert line == (
        "the build of the book differs: a.md ran without a GPU here (gpu: cpu), which the book does not know; on a "
        "machine with a GPU its build uses that"
    )


@pytest.mark.parametrize(
    ("seconds", "settings", "text"),
    [
        (41.0, TIMED, "stops a cell after 40 s (_config.yml execute.timeout): code cell 3 of a.md took 41 s"),
        (33.0, TIMED, "nearly stops a cell after 40 s (_config.yml execute.timeout): code cell 3 of a.md took 33 s"),
        (
            35.0,
            RunSettings(),
            "stops a cell after 30 s (the default of Jupyter Book and myst-nb): code cell 3 of a.md took 35 s",
        ),
    ],
)
def test_cells_near_the_limit_of_the_book_are_named(seconds, settings, text):
    assert explain(seconds=seconds, settings=settings) == [f"the build of the book {text}"]


def test_mystmd_has_no_limit():
    assert explain(seconds=99.0, engine=BookEngine.MYSTMD) == []


def test_another_kernel_is_named():
    [line] = explain(given={"kernel": "julia"})
    assert line.startswith("the build of the book differs: lectures run in the kernel 'julia' here (--lecture-kernel)")
