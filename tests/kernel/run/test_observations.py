from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.messages.request import Reply
from pytest_lecturecheck.kernel.run.observations import (
    allowed_error_findings,
    cell_error,
    cell_findings,
    exit_error,
    line_of_error,
    mapped_file_findings,
    plain,
    thread_findings,
)
from pytest_lecturecheck.model.cell_run import CellError, CellRun, CellStatus
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.units import MIB, format_size

CELL = Cell(index=4, number=3, source="a = 1\nb = 2\nc = a / 0", line=41)
ERROR = {"ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["\x1b[31mCell In[3], line 3\x1b[0m"]}


def reply(status="ok", content=None, **payload):
    return Reply(status=status, content=content or {}, payload=payload, idle_seen=True)


def findings(given_reply, cell=CELL, *, is_cut=False, raised=False, output=""):
    return list(cell_findings(cell, given_reply, is_cut=is_cut, raised=raised, output=output))


def test_allowed_errors_are_one_finding_with_count_and_first_line():
    error = CellError(name="ModuleNotFoundError", value="no", line_in_cell=2)
    cells = [
        CellRun(number=1, index=0, line=10, status=CellStatus.OK),
        CellRun(number=2, index=1, line=20, status=CellStatus.ALLOWED_ERROR, error=error),
        CellRun(number=3, index=2, line=30, status=CellStatus.ALLOWED_ERROR, error=error),
        CellRun(number=4, index=3, line=40, status=CellStatus.SKIPPED),
    ]
    (found,) = allowed_error_findings(cells)
    assert (found.kind, found.cell_number, found.line) == (FindingKind.ALLOWED_ERROR, 2, 21)
    assert found.fails_when_strict
    assert found.message == (
        "2 of 3 cells raised and the lecture went on (allow_errors), first with 'ModuleNotFoundError'; "
        "tag single cells with raises-exception instead"
    )
    assert list(allowed_error_findings(cells[:1])) == []


def test_no_error():
    assert cell_error(reply(), [], CELL) is None


def test_an_error_in_the_reply():
    error = cell_error(reply("error", ERROR, error_line=2), [], CELL)
    assert (error.name, error.value, error.line_in_cell) == ("ZeroDivisionError", "division by zero", 2)
    assert error.traceback == ("Cell In[3], line 3",)


def test_an_error_among_the_outputs_of_a_good_reply():
    error = cell_error(reply(), [ERROR], CELL)
    assert (error.name, error.line_in_cell) == ("ZeroDivisionError", 3)


def test_the_traceback_of_the_output_where_the_reply_has_none():
    error = cell_error(reply("error", {**ERROR, "traceback": []}), [ERROR], CELL)
    assert error.traceback == ("Cell In[3], line 3",)


def test_a_failing_representation_is_found_in_the_output():
    content = {"ename": "NoneType", "evalue": "None", "traceback": []}
    error = cell_error(reply("error", content), [ERROR], CELL)
    assert (error.name, error.value) == ("ZeroDivisionError", "division by zero")
    assert cell_error(reply("error", content), [], CELL).name == "NoneType"


@pytest.mark.parametrize("line", [0, -1, 4, True, "2", None])
def test_a_line_outside_the_cell_is_no_line(line):
    content = {**ERROR, "traceback": []}
    error = cell_error(reply("error", content, error_line=line), [], CELL)
    assert error.line_in_cell in (None, 1 if line is True else None)


@given(st.lists(st.text(), max_size=300), st.text(max_size=6000), st.text(max_size=3000))
def test_an_error_is_bounded_whatever_the_kernel_says(traceback, value, name):
    error = cell_error(reply("error", {"ename": name, "evalue": value, "traceback": traceback}), [], CELL)
    assert len(error.traceback) <= 121
    assert all(len(line) <= 1100 for line in error.traceback)
    assert len(error.value) <= 4100
    assert len(error.name) <= 1000


def test_colours_go_and_text_stays():
    assert plain("\x1b[1;31mred\x1b[0m [1m] \x1b[38;5;28;01mgreen\x1b[39;00m") == "red [1m] green"


def test_the_line_in_the_file():
    error = cell_error(reply("error", ERROR), [], CELL)
    assert line_of_error(CELL, error) == 43
    assert (line_of_error(CELL, exit_error()), line_of_error(CELL, None)) == (None, None)
    nowhere = Cell(index=0, number=1, source="x", line=None)
    assert line_of_error(nowhere, error) is None


@pytest.mark.parametrize(
    ("command", "code", "kind", "message"),
    [
        ("ls  /no\n", 2, FindingKind.SHELL, "shell line 'ls /no' ended with code 2"),
        ("dot -V", 127, FindingKind.MISSING_PROGRAM, "shell line 'dot -V' ended with code 127: program not found"),
        ("pip install x", 1, FindingKind.INSTALL, "install line 'pip install x' ended with code 1"),
        (
            "pip3 -q install x",
            0,
            FindingKind.INSTALL,
            "install line 'pip3 -q install x' may have changed the environment",
        ),
    ],
)
def test_shell_lines(command, code, kind, message):
    (finding,) = findings(reply(shell_lines=[(command, code)]))
    assert (finding.kind, finding.message, finding.fails_when_strict) == (kind, message, True)
    assert finding.place == "code cell 3, line 41"


def test_a_quiet_install_line_that_changed_nothing_passes():
    (finding,) = findings(reply(shell_lines=[("pip install -q x", 0)], nothing_installed=True))
    assert finding.message == "install line 'pip install -q x' changed nothing, all was there"
    assert not finding.fails_when_strict


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (
            "\x1b[31mERROR: No matching distribution found for x\x1b[0m\r\n",
            "ended with code 0, though the cell's output has 'ERROR: No matching distribution found for x'",
        ),
        ("ERROR: pip's dependency resolver does not know x", "changed nothing, all was there"),
    ],
)
def test_a_failed_install_whose_code_was_dropped_is_reported(output, said):
    command = "pip install -q x || true"
    (finding,) = findings(reply(shell_lines=[(command, 0)], nothing_installed=True), output=output)
    assert finding.message == f"install line {command!r} {said}"
    assert finding.fails_when_strict is finding.may_explain is ("ERROR: No" in output)


def test_what_a_coloured_installer_did_is_read():
    output = "\x1b[2mInstalled \x1b[1m2 packages\x1b[0m \x1b[2min 5ms\x1b[0m"
    (finding,) = findings(reply(shell_lines=[("uv pip install x", 0)]), output=output)
    assert finding.message == "install line 'uv pip install x' changed the environment"


def test_a_shell_line_names_its_own_line():
    source = "x = 1\n!ls  /no\n%pip install y\n!echo $x"
    cell = Cell(index=0, number=1, source=source, line=10)
    commands = [("ls /no", 2), ("/usr/bin/python -m pip install y", 1), ("echo 1", 3)]
    assert [found.line for found in findings(reply(shell_lines=commands), cell)] == [11, 12, 10]


@pytest.mark.parametrize(
    ("code", "replaced", "may_explain", "effect"),
    [
        (0, [], False, "may have changed the environment"),
        (1, [], True, "ended with code 1"),
        (
            0,
            ["numpy 1.26.4 -> 2.1.0"],
            True,
            "changed packages that were already imported: numpy 1.26.4 -> 2.1.0",
        ),
    ],
)
def test_an_install_line_may_explain_a_later_error(code, replaced, may_explain, effect):
    (finding,) = findings(reply(shell_lines=[("pip install -q x", code)], replaced=replaced))
    assert finding.message == f"install line 'pip install -q x' {effect}"
    assert finding.may_explain is may_explain


def test_a_shell_line_that_went_well_is_no_finding():
    assert findings(reply(shell_lines=[("ls", 0)])) == []


@pytest.mark.parametrize(
    ("source", "command", "line"),
    [
        ("x = 1\n!echo a && \\\n  exit 9", "echo a &&    exit 9", 11),
        ("x = 1\nfor i in range(3):\n    !exit {i}", "exit 1", 12),
        ("x = 1\na, b = %sx exit $x", "exit 1", 11),
        ("!exit {i}\n!exit {j}", "exit 1", 10),
        ("print('done')\\", "ls", 10),
    ],
)
def test_a_shell_line_that_is_joined_or_has_variables_names_its_line(source, command, line):
    cell = replace(CELL, source=source, line=10)
    (finding,) = findings(reply(shell_lines=[(command, 1)]), cell)
    assert finding.line == line


@pytest.mark.parametrize(
    ("source", "line"), [("x = 1\nbreakpoint()", 11), ("breakpoint()\nbreakpoint()", 10), ("f()", 10)]
)
def test_a_breakpoint_names_its_line_where_it_is_the_only_one(source, line):
    (finding,) = findings(reply(breakpoints=1), replace(CELL, source=source, line=10))
    assert finding.line == line


@pytest.mark.parametrize(("count", "text"), [(1, "1 time"), (2, "2 times")])
def test_breakpoints(count, text):
    (finding,) = findings(reply(breakpoints=count))
    assert finding.message == f"breakpoint() was reached {text}; it returns at once here"
    assert not finding.fails_when_strict


def test_a_promise_of_an_error():
    promising = Cell(index=0, number=1, source="x", line=1, expects_error=True)
    (finding,) = findings(reply(), promising)
    assert finding.message == "the cell is tagged raises-exception and raised nothing"
    assert findings(reply("error", ERROR), promising, raised=True) == []


def test_output_that_was_cut_or_has_no_end():
    lost = Reply(status="ok")
    assert [item.message for item in findings(lost, is_cut=True)] == [
        "the cell's text output was long; its middle is not kept",
        "the end of the cell's output did not arrive",
    ]


@pytest.mark.parametrize(
    ("mapped_bytes", "peak_bytes", "is_told"),
    [(300 * MIB, 1000 * MIB, True), (299 * MIB, 1000 * MIB, False), (256 * MIB, 300 * MIB, True), (255, 300, False)],
)
def test_a_peak_that_is_largely_mapped_files(mapped_bytes, peak_bytes, is_told):
    peak = Measurement(metric=Metric.PEAK_FOOTPRINT, value=peak_bytes, method=Method.EXACT, source="VmHWM")
    cell = CellRun(number=3, index=4, line=41, status=CellStatus.OK, readings={Metric.PEAK_FOOTPRINT: peak})
    messages = [finding.message for finding in mapped_file_findings(cell, mapped_bytes)]
    text = (
        f"at the peak of code cell 3, {format_size(mapped_bytes)} of its resident memory were pages of mapped files "
        "(memory-mapped data, libraries): they count in the peak, but the system can reclaim those that "
        "were only read"
    )
    assert messages == [text] * is_told


PLAIN_JAX = (
    "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed. Falling back to cpu."
)


@pytest.mark.parametrize(
    ("output", "line", "is_fault"),
    [
        (
            f"WARNING:2026-01-01 10:00:00,1:jax._src.xla_bridge:808: {PLAIN_JAX}\n42\n",
            PLAIN_JAX,
            True,
        ),
        (
            "CUDA backend failed to initialize: Found CUDA version 12010 (Set TF_CPP_MIN_LOG_LEVEL=0 for more info.)",
            "CUDA backend failed to initialize: Found CUDA version 12010 (Set TF_CPP_MIN_LOG_LEVEL=0 for more info.)",
            True,
        ),
        ("x.py:1: UserWarning: CUDA initialization: old driver", "CUDA initialization: old driver", True),
        (
            "WARNING:absl:No GPU/TPU found, falling back to CPU. (Set ...)",
            "No GPU/TPU found, falling back to CPU. (Set ...)",
            False,
        ),
    ],
)
def test_a_library_that_goes_on_on_the_cpu(output, line, is_fault):
    (finding,) = cell_findings(CELL, reply(), is_cut=False, raised=False, output=output)
    assert finding.message == f"a library uses the CPU and not a GPU: {line!r}"
    assert (finding.kind, finding.fails_when_strict) == (FindingKind.GPU, is_fault)


def test_threads_of_earlier_cells():
    threads = {1: [("worker", 1)], 2: [("worker", 1), ("kernel's", 0)], 3: [("worker", 1)]}
    (finding,) = thread_findings(3, threads)
    assert finding.message == (
        "thread 'worker' started in code cell 1 was still alive when code cell 3 reached the lecture's peak"
    )
    assert list(thread_findings(1, threads)) == []
    assert list(thread_findings(3, {2: [("of its own", 3)]})) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("invalid syntax (573523354.py, line 1)", "invalid syntax"),
        ("invalid syntax (<ipython-input-3-8de1a>, line 1)", "invalid syntax"),
        ("invalid syntax (tools.py, line 7)", "invalid syntax (tools.py, line 7)"),
    ],
)
def test_the_generated_file_name_of_a_cell_is_hidden(value, shown):
    content = {"ename": "SyntaxError", "evalue": value, "traceback": []}
    error = cell_error(reply("error", content), [], CELL)
    assert error is not None
    assert error.value == shown


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            "a\nException in thread Thread-5 (f):\nTraceback (most recent call last):\n  File ...\nValueError: no\n",
            "an error ended a thread and was only printed: 'ValueError: no'",
        ),
        (
            "Task exception was never retrieved\nfuture: <Task>\nTraceback (most recent call last):\ntools.OddError\n",
            "an error ended a task of asyncio and was only printed: 'tools.OddError'",
        ),
        ("Exception in thread Thread-5 (f):", "an error ended a thread and was only printed"),
        ("the words 'Exception in thread x' in a line", None),
    ],
)
def test_errors_that_python_only_prints(output, message):
    found = list(cell_findings(CELL, reply(), is_cut=False, raised=False, output=output))
    assert [finding.message for finding in found] == ([] if message is None else [message])
    assert all(finding.kind is FindingKind.THREAD and finding.fails_when_strict for finding in found)
    assert list(cell_findings(CELL, reply("error"), is_cut=False, raised=True, output=output)) == []
