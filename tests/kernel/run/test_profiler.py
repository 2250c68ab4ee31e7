"""Cells traced by jax.profiler, in real kernels with JAX on the CPU."""

import os
from dataclasses import replace

import pytest
from support.benches import lecture, messages, run_to_limit, statuses

from pytest_lecturecheck.config.options import DEFAULTS
from pytest_lecturecheck.errors import TraceFileError
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.session.trace_plan import plan_tracing

SET_UP = """
    import jax, jax.numpy as jnp
    square = jax.jit(lambda a: a @ a)
    step = jax.jit(lambda a: a + 1)
    x, y = jnp.ones((600, 600)), jnp.ones(10)
    square(x).block_until_ready(), step(y).block_until_ready()
    """
LARGE = "for _ in range(5): square(x).block_until_ready()"
SMALL = "for _ in range(2500): y = step(y)"
NOT_WAITED_FOR = "z = [square(x) for _ in range(3)]"
FAILING = "jnp.ones(3) @ jnp.ones(4)"
STATE = "import sys; print(sorted(dir()), len(In), len(Out), hasattr(sys, 'last_value'))"
OWN = {"JAX_PLATFORMS": "cpu"}


def run(bench, folder, cells, *sources, read=None, **settings):
    """Run a lecture with these cells traced below ``folder``; with the real probe, for the cells' wall times."""
    made = lecture(folder, *sources)
    tracing = plan_tracing(folder, made, 1, frozenset(cells))
    if read is not None:
        tracing = replace(tracing, read=read)
    bench._bench._ports = bench._real_ports
    layer = replace(DEFAULTS, **{"timeout_seconds": 60.0, **settings})
    return bench._bench.run(made, layer, 1, OWN, tracing=tracing)


@pytest.fixture(scope="module")
def traced(_bench, tmp_path_factory):
    folder = tmp_path_factory.mktemp("traced")
    cells = (SET_UP, LARGE, SMALL, NOT_WAITED_FOR, "1 + 1", STATE)
    return folder, run(_bench, folder, {2, 3, 4, 5}, *cells)


def devices(run_, number):
    return run_.cells[number - 1].profile.devices


def test_a_traced_run_says_so_and_ends_well(traced):
    _, record = traced
    assert record.is_profiled
    assert set(statuses(record)) == {"ok"}
    assert [cell.number for cell in record.cells if cell.profile is not None] == [2, 3, 4, 5]
    assert [item for item in record.findings if item.kind is FindingKind.PROFILE] == []


def test_a_few_large_operations(traced):
    (device,) = devices(traced[1], 2)
    assert device.device == "CPU"
    # Each is one execution; how many operations XLA makes of it is its own affair.
    assert device.launch_count == 5
    assert device.op_count >= 5
    assert device.kernel_seconds > 0
    assert sum(op.count for op in device.top_ops) <= device.op_count


def test_thousands_of_small_operations(traced):
    (device,) = devices(traced[1], 3)
    (large,) = devices(traced[1], 2)
    assert device.launch_count == 2500
    assert device.top_ops[0].count == 2500
    # Ten numbers against 432 million floating-point operations.
    small_op, large_op = device.top_ops[0], large.top_ops[0]
    assert small_op.seconds / small_op.count < large_op.seconds / large_op.count


def test_what_a_cell_does_not_wait_for_is_its_own(traced):
    assert devices(traced[1], 4)[0].launch_count == 3


def test_a_cell_without_an_operation(traced):
    assert devices(traced[1], 5) == ()


def test_the_span_lies_within_the_cell(traced):
    for number in (2, 3):
        cell = traced[1].cells[number - 1]
        (device,) = cell.profile.devices
        assert device.span_seconds == pytest.approx(device.kernel_seconds + device.gap_seconds)
        assert 0 < device.span_seconds <= cell.profile.cell_seconds


def test_the_files_lie_where_the_record_says(traced):
    folder, record = traced
    place = folder / ".lecturecheck"
    assert (place / ".gitignore").read_text() == "*\n"
    (own,) = (place / "traces").iterdir()
    assert own.name.startswith("lecture.md-")
    assert sorted(path.name for path in own.iterdir()) == ["cell-2", "cell-3", "cell-4", "cell-5"]
    assert record.cells[2].profile.trace == f".lecturecheck/traces/{own.name}/cell-3/perfetto.json.gz"
    assert (folder / record.cells[2].profile.trace).is_file()
    assert sorted(path.name for path in folder.iterdir()) == [".lecturecheck"]


def test_the_lecture_sees_nothing_of_it(traced, bench):
    plain = bench.run(SET_UP, LARGE, SMALL, NOT_WAITED_FOR, "1 + 1", STATE)
    assert traced[1].cells[-1].output_extract == plain.cells[-1].output_extract != ""


def test_a_second_trace_takes_the_place_of_the_first(traced, bench):
    folder, before = traced
    record = run(bench, folder, {3}, SET_UP, "1", "step(y)")
    assert devices(record, 3)[0].launch_count == 1
    place = (folder / before.cells[2].profile.trace).parent
    assert len(list(place.glob("plugins/profile/*"))) == 1


def test_what_cannot_be_traced_says_why(bench, tmp_path):
    sources = ("x = 1", "import jax", "import os; os.environ['XLA_FLAGS'] = ''", "y = 'profiler'", "", "z = 3")
    record = run(bench, tmp_path, {1, 2, 3, 4, 5, 9}, *sources)
    assert messages(record) == [
        "code cell 5 was not traced: it is blank",
        "code cell 9 was not traced: the lecture has 6 code cells",
        "code cell 1 was not traced: JAX is not imported before it",
        (
            "code cell 2 was not traced: it imports JAX itself, and a trace can only start after that; "
            "import JAX in an earlier cell"
        ),
        "code cell 3 was not traced: it chooses JAX's devices, and a trace would have chosen them before it",
        "code cell 4 was not traced: it uses a profiler itself, and only one can be at work",
    ]
    assert [(item.cell_number, item.line) for item in record.findings[2:]] == [(1, 100), (2, 200), (3, 300), (4, 400)]
    (own,) = (tmp_path / ".lecturecheck" / "traces").iterdir()
    assert list(own.iterdir()) == []
    assert record.is_profiled


def test_a_cell_that_fails_has_its_trace(bench, tmp_path):
    record = run(bench, tmp_path, {2}, SET_UP, f"step(y)\n{FAILING}")
    assert statuses(record) == ["ok", "failed"]
    assert devices(record, 2)[0].launch_count >= 1


def test_a_cell_out_of_time_has_its_trace(bench, tmp_path):
    record = run_to_limit(
        lambda limit: run(bench, tmp_path, {2}, SET_UP, "step(y)\nwhile True: pass", timeout_seconds=limit),
        lambda record: statuses(record)[0] == "ok",
        4.0,
    )
    assert statuses(record) == ["ok", "timed out"]
    assert devices(record, 2)[0].launch_count == 1


def test_a_kernel_that_dies_takes_its_trace_along(bench, tmp_path):
    record = run(bench, tmp_path, {2}, "import jax", "import os; os._exit(3)")
    assert statuses(record) == ["ok", "died"]
    assert messages(record) == ["the trace of code cell 2 is lost: the kernel died in that cell"]


def test_a_profiler_that_does_not_start(bench, tmp_path):
    broken = "import jax\ndef start_trace(*a, **k): raise OSError('no room')\njax.profiler.start_trace = start_trace"
    record = run(bench, tmp_path, {2}, broken, "x = 1")
    assert messages(record) == ["code cell 2 was not traced: the trace could not be started: OSError: no room"]
    assert statuses(record) == ["ok", "ok"]


def test_a_profiler_that_does_not_stop(bench, tmp_path):
    record = run(bench, tmp_path, {2}, "import jax", "getattr(getattr(jax, 'prof' 'iler'), 'stop_' 'trace')()")
    assert messages(record) == ["the trace of code cell 2 is lost: RuntimeError: No profile started"]


def test_a_trace_that_cannot_be_read(bench, tmp_path):
    def read(folder, seconds):
        msg = f"{folder.name} is odd after {seconds is not None}"
        raise TraceFileError(msg)

    record = run(bench, tmp_path, {2}, "import jax", "x = 1", read=read)
    assert messages(record) == ["the trace of code cell 2 is lost: cell-2 is odd after True"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_link_to_elsewhere_is_not_followed(bench, tmp_path):
    outside, root = tmp_path / "outside", tmp_path / "root"
    (outside / "cell-1").mkdir(parents=True)
    (root / ".lecturecheck").mkdir(parents=True)
    (root / ".lecturecheck" / "traces").symlink_to(outside)
    record = run(bench, root, {1}, "import os")
    assert messages(record) == [
        "code cell 1 was not traced: no folder could be made for its trace: it would lie outside of pytest's rootdir"
    ]
    assert (outside / "cell-1").is_dir()
