"""Values that cells report by display message or call, and what hostile cells send."""

import json
import subprocess
import sys

import nbclient
import nbformat.v4
import pytest
from support.benches import messages

from pytest_lecturecheck.kernel.messages.reported_values_reader import ReportedValuesReader
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.reported_value import MIME_TYPE, Better, ReportedValue
from pytest_lecturecheck.model.run import Outcome

CELL = Cell(index=0, number=3, source="", line=41)
BY_MESSAGE = """
from IPython.display import update_display
update_display({"application/vnd.lecturecheck+json": %s}, display_id="lecturecheck", raw=True)
"""
BY_CALL = "from pytest_lecturecheck import report_figures\nreport_figures(%s)"
RICH = {"value": 1e-15, "unit": "s", "better": "lower"}
NAMES = "expected lower-case letters, digits and underscores, a letter first, at most 41 characters"


def message(payload, kind="update_display_data"):
    return {"msg_type": kind, "content": {"data": {MIME_TYPE: payload}, "metadata": {}}}


def read(*payloads):
    reader = ReportedValuesReader()
    for payload in payloads:
        reader.take(message(payload))
    found, findings = reader.end_cell(CELL)
    return {figure.name: figure for figure in found}, [finding.message for finding in findings]


def test_cells_report_by_message_and_by_call(bench):
    run = bench.run(
        BY_MESSAGE % {"speedup": 3, "time": RICH},
        "import numpy as np\n"
        + BY_CALL % "draws=np.int64(200), speedup=np.float32(3.5), distance=dict(value=np.array(0.25), better='lower')",
        "print('nothing')",
    )
    assert (run.outcome, run.findings) == (Outcome.COMPLETED, ())
    assert [{figure.name: figure for figure in cell.reported_values} for cell in run.cells] == [
        {
            "speedup": ReportedValue(name="speedup", value=3.0),
            "time": ReportedValue(name="time", value=1e-15, unit="s", better=Better.LOWER),
        },
        {
            "draws": ReportedValue(name="draws", value=200),
            "speedup": ReportedValue(name="speedup", value=3.5),
            "distance": ReportedValue(name="distance", value=0.25, better=Better.LOWER),
        },
        {},
    ]
    assert repr(run.reported_values["draws"].value) == "200"
    assert (run.reported_values["speedup"].value, run.reporting_cell("speedup").number) == (3.5, 2)
    assert run.reporting_cell("time").number == 1
    assert run.reporting_cell("unknown") is None
    assert [cell.output_extract for cell in run.cells] == ["", "", "nothing\n"]


def test_a_display_of_its_own_is_read_as_well(bench):
    run = bench.run(
        "from IPython.display import display\n"
        "for step in range(300):\n"
        "    display({'application/vnd.lecturecheck+json': {'step': step}}, raw=True)"
    )
    assert run.reported_values == {"step": ReportedValue(name="step", value=299.0)}


def test_a_failing_cell_has_reported_what_it_reported(bench):
    run = bench.run(BY_MESSAGE % {"speedup": 3} + "1 / 0")
    assert (run.outcome, run.reported_values["speedup"].value) == (Outcome.FAILED, 3.0)


def test_nothing_of_it_stays_in_a_notebook_that_others_run(tmp_path):
    sources = [BY_MESSAGE % {"speedup": 3}, BY_CALL % "speedup=3"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbclient.NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    assert [cell.outputs for cell in notebook.cells] == [[], []]


def test_the_call_does_nothing_outside_a_kernel():
    program = (
        "import sys\nfrom pytest_lecturecheck import report_figures\nreport_figures(speedup=object(), x='y')\n"
        "print([name for name in ('pytest', 'IPython', 'nbclient', 'psutil') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_what_the_call_is_given_never_fails_the_lecture(bench):
    run = bench.run(BY_CALL % "nan=float('nan'), text='3', yes=True, many=[1], big=10**400, Odd=1, some=dict(valeu=1)")
    assert (run.outcome, run.reported_values) == (Outcome.COMPLETED, {})
    assert messages(run) == [
        "reported value 'nan' is 'nan'; expected a finite number",
        "reported value 'text' is \"'3'\"; expected a finite number",
        "reported value 'yes' is 'True'; expected a finite number",
        "reported value 'many' is '[1]'; expected a finite number",
        f"reported value 'big' is '1{'0' * 59}'...; expected a finite number",
        "2 more faults in the values that this cell reported",
    ]
    assert {
        (finding.kind, finding.cell_number, finding.line, finding.fails_when_strict) for finding in run.findings
    } == {(FindingKind.FIGURE, 1, 100, True)}


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        ([1], "values were reported as a list; expected a mapping of names to values, as in {'speedup': 3.57}"),
        (
            "x" * 100,
            (
                f"values were reported as '{'x' * 60}'...; "
                "expected a mapping of names to values, as in {'speedup': 3.57}"
            ),
        ),
        (None, "values were reported as None; expected a mapping of names to values, as in {'speedup': 3.57}"),
        ({"Speed": 1}, f"reported value 'Speed' has an invalid name; {NAMES}"),
        ({"a\x1b[31m": 1}, f"reported value 'a\\x1b[31m' has an invalid name; {NAMES}"),
        ({"a\n": 1}, f"reported value 'a\\n' has an invalid name; {NAMES}"),
        ({"a" * 42: 1}, f"reported value '{'a' * 42}' has an invalid name; {NAMES}"),
        ({"": 1}, f"reported value '' has an invalid name; {NAMES}"),
        ({"a": True}, "reported value 'a' is True; expected a finite number"),
        ({"a": float("inf")}, "reported value 'a' is inf; expected a finite number"),
        ({"a": None}, "reported value 'a' is None; expected a finite number"),
        ({"a": [1]}, "reported value 'a' is a list; expected a finite number"),
        ({"a": 10**400}, "reported value 'a' is a huge number; expected a finite number"),
        ({"a": {"value": {}}}, "reported value 'a' is a mapping; expected a finite number"),
        (
            {"a": {"value": 1, "units": "s"}},
            "reported value 'a' has the unknown key 'units'; expected the keys value, unit, better",
        ),
        ({"a": {"unit": "s"}}, "reported value 'a' has no value; expected the keys value, unit, better"),
        ({"a": {"value": 1, "unit": 3}}, "reported value 'a' has the unit 3; expected a short text such as 's' or 'x'"),
        (
            {"a": {"value": 1, "unit": "\x07"}},
            "reported value 'a' has the unit '\\x07'; expected a short text such as 's' or 'x'",
        ),
        ({"a": {"value": 1, "better": "more"}}, "reported value 'a' has better='more'; expected 'higher' or 'lower'"),
        (
            {"a": {"value": 1, "better": ["higher"]}},
            "reported value 'a' has better=a list; expected 'higher' or 'lower'",
        ),
    ],
)
def test_what_cannot_be_used_is_a_finding(payload, fault):
    assert read(payload) == ({}, [fault])


def test_whole_numbers_stay_whole():
    figures, _ = read({"a": 200, "b": 200.0, "c": -(2**53), "d": 2**53 + 1, "e": {"value": 7}})
    assert [repr(figure.value) for figure in figures.values()] == [
        "200",
        "200.0",
        "-9007199254740992",
        "9007199254740992.0",
        "7",
    ]


def test_one_fault_keeps_the_other_values():
    figures, faults = read({"a": "x", "b": 2})
    assert figures == {"b": ReportedValue(name="b", value=2.0)}
    assert faults == ["reported value 'a' is 'x'; expected a finite number"]


def test_fifty_names_are_kept_and_known_ones_go_on():
    reported = ReportedValuesReader()
    reported.take(message({f"f{number}": number for number in range(52)}))
    figures, findings = reported.end_cell(CELL)
    assert len(figures) == 50
    assert [finding.message for finding in findings] == [
        f"reported value 'f{number}' is ignored: a lecture may report at most 50 names" for number in (50, 51)
    ]
    reported.take(message({"f0": 7, "new": 1}))
    figures, findings = reported.end_cell(CELL)
    assert (figures, len(findings)) == ((ReportedValue(name="f0", value=7.0),), 1)


def test_faults_are_bounded_however_often_they_are_sent():
    _, same = read(*[{"A": 1}] * 1000)
    assert len(same) == 1
    _, many = read({f"A{number}": 1 for number in range(1000)})
    assert (len(many), many[-1]) == (6, "995 more faults in the values that this cell reported")


@pytest.mark.parametrize(
    "other",
    [
        {"msg_type": "stream", "content": {"text": "x"}},
        {"msg_type": "display_data", "content": {}},
        {"msg_type": "display_data", "content": {"data": None}},
        {"msg_type": "display_data", "content": {"data": {"text/plain": "1"}}},
        message({"a": 1}, kind="execute_result"),
    ],
)
def test_other_messages_are_passed_over(other):
    reader = ReportedValuesReader()
    reader.take(other)
    assert reader.end_cell(CELL) == ((), [])


def test_a_message_that_is_broken_ends_nothing(bench):
    broken = json.dumps({"data": [], "metadata": {}, "transient": {}})
    run = bench.run(
        f"k = get_ipython().kernel\nk.session.send(k.iopub_socket, 'display_data', {broken}, k.get_parent('shell'))",
        BY_MESSAGE % {"a": 1},
    )
    assert (run.outcome, run.reported_values["a"].value) == (Outcome.COMPLETED, 1.0)
