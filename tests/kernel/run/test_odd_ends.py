import sys

import pytest

from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.run import Outcome


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        ("os.abort", "the kernel was ended by signal 6 after the last cell, while its exit handlers ran"),
        (
            "lambda: __import__('time').sleep(60)",
            "the exit handlers of the kernel did not end within 10 s; it was killed",
        ),
    ],
)
def test_a_bad_end_after_the_last_cell_is_a_finding(bench, handler, message):
    run = bench.run(f"import atexit, os\natexit.register({handler})")
    assert run.outcome is Outcome.COMPLETED
    assert [(item.message, item.fails_when_strict) for item in run.findings] == [(message, True)]


POOL = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
pool = ProcessPoolExecutor(1, mp_context=get_context("fork"))
assert list(pool.map(abs, [-1])) == [1]
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the pool forks")
def test_a_pool_that_is_still_open_ends_with_the_kernel(bench):
    """As in a script: its workers are not left running, and the end does not wait for them."""
    sleeper = "import concurrent.futures, time\nconcurrent.futures.ThreadPoolExecutor(1).submit(time.sleep, 60)"
    run = bench.run_sources(POOL, sleeper)
    assert run.outcome is Outcome.COMPLETED
    # Whether a thread was alive at the peak depends on which cell had it.
    assert [item.message for item in run.findings if item.kind is not FindingKind.THREAD] == []


def test_a_cell_that_was_not_run_is_a_failure(bench):
    run = bench.run(
        "kernel = get_ipython().kernel\n"
        "async def do_execute(*args, **known): return {'status': 'aborted'}\n"
        "kernel.do_execute = do_execute",
        "1 / 0",
    )
    assert (run.outcome, run.cells[1].status) == (Outcome.FAILED, CellStatus.FAILED)
    assert run.cells[1].error.value == "the kernel did not run the cell: its reply has the status 'aborted'"


def test_a_replaced_agent_does_no_harm(bench):
    run = bench.run("get_ipython().kernel.finish_metadata = lambda p, m, r: {'lecturecheck': 5}", "1")
    assert [cell.status for cell in run.cells] == [CellStatus.OK, CellStatus.OK]


def test_unknown_messages_are_logged_on_one_plain_line(bench, caplog):
    run = bench.run(
        "kernel = get_ipython().kernel\n"
        "kind = chr(27) + '[31m' + chr(10) + '::error::##[error]'\n"
        "kernel.session.send(kernel.iopub_socket, kind, content={}, parent=kernel.get_parent())"
    )
    assert run.outcome is Outcome.COMPLETED
    assert caplog.messages == [r"unhandled iopub msg: \x1b[31m\n::error::# #[error]"]
    assert caplog.records[0].pathname.endswith("client.py")
