"""Values of traces, and the option that asks for them."""

import pytest

from pytest_lecturecheck.config.option_values import read_trace_request
from pytest_lecturecheck.config.options import Mode, resolve
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.profile import (
    Bound,
    DeviceProfile,
    ProfiledOp,
    ProfileKind,
    ProfileSummary,
    TraceRequest,
)
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.store.runs import run_from_dict, run_to_dict


def device(**more):
    figures = {"device": "GPU 0", "kernel_seconds": 0.5, "gap_seconds": 1.5, "launch_count": 3000, "op_count": 3001}
    return DeviceProfile(**{**figures, "bound": Bound.LAUNCH, **more})


def test_what_follows_from_the_sums():
    assert (device().span_seconds, device().busy_fraction, device().launches_per_second) == (2.0, 0.25, 1500.0)
    empty = device(kernel_seconds=0.0, gap_seconds=0.0)
    assert (empty.span_seconds, empty.busy_fraction, empty.launches_per_second) == (0.0, 1.0, None)


@pytest.mark.parametrize(("name", "is_cpu"), [("GPU 0", False), ("TPU 0", False), ("CPU", True), ("CPU 1", True)])
def test_whose_launches_are_executions(name, is_cpu):
    assert device(device=name).is_cpu is is_cpu


def test_a_profile_survives_the_store():
    figures = ProfileSummary(
        devices=(device(top_ops=(ProfiledOp(name="gemm\udcff", seconds=0.5, count=3),)), device(device="GPU 1")),
        cell_seconds=3.0,
        trace=".lecturecheck/traces/a/cell-1/perfetto.json.gz",
        is_cut=True,
    )
    cell = CellRun(number=1, index=0, line=None, status=CellStatus.OK, profile=figures)
    run = Run(lecture="a.md", platform="here", outcome=Outcome.COMPLETED, cells=(cell,), is_profiled=True)
    plain = run_to_dict(run)
    assert plain["cells"][0]["profile"]["devices"][0]["bound"] == "launch bound"
    again = run_from_dict(plain)
    assert again.is_profiled
    assert again.cells[0].profile.devices[1] == figures.devices[1]
    assert again.cells[0].profile.devices[0].top_ops[0].name == "gemm\\udcff"


@pytest.mark.parametrize(
    ("value", "cells"),
    [("over", []), (" OVER ", []), ("3", [3]), ("3,7", [3, 7]), (" 3 , 7,3", [3, 7]), ([3, 7], [3, 7]), (3, [3])],
)
def test_cells_as_people_write_them(value, cells):
    request = read_trace_request(value)
    assert request == TraceRequest(cells=frozenset(cells))
    assert request.is_for_over is not bool(cells)


@pytest.mark.parametrize(
    "value", ["", "3,", "all", "3-7", "-1", "1.5", "over,3", True, None, [], ["over"], "٣", [True]]
)
def test_cells_that_are_not_understood(value):
    with pytest.raises(SettingsError) as caught:
        read_trace_request(value)
    expected = "expected 'over', 'memory', 'levels', or numbers of code cells such as '3', '3,7' or 'memory:3,7'"
    assert str(caught.value) == f"cells {value!r} are not understood; {expected}"


@pytest.mark.parametrize(
    ("value", "kind", "cells", "is_for_over"),
    [
        ("memory", ProfileKind.MEMORY, set(), True),
        ("memory:3,7", ProfileKind.MEMORY, {3, 7}, False),
        ("levels", ProfileKind.LEVELS, set(), False),
        ("3", ProfileKind.TRACE, {3}, False),
    ],
)
def test_memory_is_asked_for_by_name(value, kind, cells, is_for_over):
    request = read_trace_request(value)
    assert (request.kind, request.cells, request.is_for_over) == (kind, cells, is_for_over)


def test_cells_begin_with_one():
    with pytest.raises(SettingsError) as caught:
        read_trace_request("0,1")
    assert str(caught.value) == "cells '0,1': there is no code cell 0; the first one is 1"


def settings(tmp_path, in_file="", **given):
    if in_file:
        (tmp_path / "lecturecheck.toml").write_text(in_file, encoding="utf-8")
    return resolve(given, tmp_path, tmp_path)


def test_the_command_line_comes_before_the_file(tmp_path):
    assert settings(tmp_path, budget=True).trace is None
    found = settings(tmp_path, 'profile = "over"', budget=True)
    assert (found.mode, found.trace) == (Mode.CHECK, TraceRequest())
    cells = TraceRequest(cells=frozenset({2}))
    assert settings(tmp_path, 'profile = "over"', budget=True, profile=cells).trace == cells
    assert settings(tmp_path, "profile = [4, 2]", budget=True).trace == TraceRequest(cells=frozenset({2, 4}))


def test_what_is_over_is_nothing_while_limits_are_recorded(tmp_path):
    assert settings(tmp_path, 'profile = "over"', record=True).trace is None


@pytest.mark.parametrize("request_", [TraceRequest(), TraceRequest(cells=frozenset({2}))])
def test_a_traced_run_is_not_recorded(tmp_path, request_):
    with pytest.raises(SettingsError) as caught:
        settings(tmp_path, record=True, profile=request_)
    assert str(caught.value) == (
        "--lecture-profile and --lecture-record cannot be given together: a traced run cannot be a budget; "
        "record without it, or trace with --lecture-budget"
    )


def test_cells_in_a_file_are_not_recorded_either(tmp_path):
    with pytest.raises(SettingsError) as caught:
        settings(tmp_path, "profile = 2", record=True)
    assert str(caught.value).startswith("lecturecheck.toml profile and --lecture-record cannot be given together: ")


@pytest.mark.parametrize("value", ["memory:", "levels:", "over:", "memory:,", "memory,levels"])
def test_cells_that_are_left_out_are_not_all_cells(value):
    with pytest.raises(SettingsError, match=r"are not understood; expected 'over', 'memory', 'levels', or numbers"):
        read_trace_request(value)
