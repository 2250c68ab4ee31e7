"""Errors among the outputs of a cell whose reply is "ok", and output into widgets."""

import json

import pytest

from pytest_lecturecheck.config.options import DEFAULTS
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.probe.machine import detect_machine
from pytest_lecturecheck.session.workbench import Workbench

# What ipywidgets.Output does, without ipywidgets: output of the request goes to the widget while its id is set.
OUTPUT_WIDGET = """
from comm import create_comm
state = {"_model_module": "@jupyter-widgets/output", "_model_name": "OutputModel", "outputs": []}
widget = create_comm(target_name="jupyter.widget", data={"state": state})
updates = []
widget.on_msg(lambda msg: updates.append(msg["content"]["data"]["state"]["outputs"]))
def take_output(is_on):
    msg_id = get_ipython().kernel.get_parent("shell")["header"]["msg_id"] if is_on else ""
    widget.send({"method": "update", "state": {"msg_id": msg_id}})
"""
SHOWN_ONLY = (
    "the error is among the cell's outputs although the kernel's reply is 'ok' (%run, %%capture, an output widget, or "
    "a figure that fails when it is drawn); other runners pass such a cell"
)


@pytest.fixture(scope="module")
def workbench():
    bench = Workbench(
        platform="here",
        machine=detect_machine(),
        on_kernel=lambda _: None,
        on_progress=lambda _: None,
        on_wait=lambda: None,
    )
    yield bench
    bench.close()


def _run(workbench, folder, *sources):
    cells = [
        {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        for source in sources
    ]
    metadata = {"kernelspec": {"name": "python3"}}
    path = folder / "lecture.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4}))
    lecture = read_lecture(path, name="lecture.ipynb")
    layer = RunSettings(timeout_seconds=30)
    return workbench.run(lecture, lecture.settings.over(layer).over(DEFAULTS), 1)


def test_output_that_goes_into_a_widget_arrives_there(workbench, tmp_path, caplog):
    run = _run(
        workbench,
        tmp_path,
        OUTPUT_WIDGET,
        *10 * ["take_output(True)\nprint('in the widget', flush=True)\ntake_output(False)"],
        "assert [part['text'] for part in updates[-1]] == ['in the widget\\n' * 10], updates",
    )
    assert (run.outcome, run.findings) == (Outcome.COMPLETED, ())
    assert caplog.messages == []


def test_an_error_among_the_outputs_fails_the_cell(workbench, tmp_path):
    run = _run(workbench, tmp_path, "%%capture\n1 / 0", "print('not reached')")
    assert run.outcome is Outcome.FAILED
    assert (run.evidence.cell_number, run.evidence.error.name) == (1, "ZeroDivisionError")
    (finding,) = run.findings
    assert (finding.kind, finding.message, finding.place) == (
        FindingKind.KERNEL,
        SHOWN_ONLY,
        "code cell 1",
    )


def test_threads_of_the_kernel_itself_are_not_the_lectures(workbench, tmp_path):
    large = "print('x' * 1_000_000)"  # pyzmq starts a thread of its own with the first message of this size
    alive = "import threading\nassert any('zmq' in type(thread).__module__ for thread in threading.enumerate())"
    heaviest = "held = bytes(100_000_000)"
    run = _run(
        workbench, tmp_path, f"from IPython.display import HTML\nHTML('x' * 1_000_000)\n{large}", alive, heaviest
    )
    assert run.outcome is Outcome.COMPLETED
    assert [finding.message for finding in run.findings if finding.kind is FindingKind.THREAD] == []


@pytest.mark.parametrize(
    ("said", "result"),
    [
        ("Successfully installed tool-1.0", "changed the environment"),
        ("Requirement already satisfied: tool in /lib", "changed nothing, all was there"),
        ("", "changed nothing, all was there"),
    ],
)
def test_an_install_line_is_reported_by_what_it_did(workbench, tmp_path, said, result):
    run = _run(workbench, tmp_path, f"!echo '{said}'; true pip install tool")
    (finding,) = run.findings
    shown = f"echo '{said}'; true pip install tool"
    assert finding.message == f"install line {shown!r} {result}"
    assert finding.fails_when_strict is (result != "changed nothing, all was there")


def test_a_quiet_install_line_is_judged_by_the_folders_of_packages(workbench, tmp_path):
    folder = "import pathlib, sys\nfolder = pathlib.Path('site-packages').absolute()\nfolder.mkdir()"
    install = "!true pip install tool; touch site-packages/tool"
    run = _run(workbench, tmp_path, f"{folder}\nsys.path.append(str(folder))", install)
    (finding,) = [found for found in run.findings if found.kind is FindingKind.INSTALL]
    assert finding.message == f"install line {install[1:]!r} may have changed the environment"
    assert finding.fails_when_strict


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("%%time\nx = 1\n\n1 / 0\n", 4),
        ("%%time\ndef f(n):\n    return g(n)\ndef g(n):\n    return 1 / n\nf(0)\n", 5),
        ("%%capture\nx = 1\n1 / 0\n", 3),
        ("x = 1\n%time 1 / 0\n", 2),
        ("def f():\n    %time 1 / 0\nf()\n", 2),
    ],
)
def test_the_failing_line_inside_a_magic(workbench, tmp_path, source, line):
    run = _run(workbench, tmp_path, source)
    assert (run.outcome, run.cells[0].error.name) == (Outcome.FAILED, "ZeroDivisionError")
    assert run.cells[0].error.line_in_cell == line
