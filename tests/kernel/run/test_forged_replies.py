"""Replies that a lecture sends in the kernel's name."""

from support.fakes import FakeProbe
from support.forged_replies import UNTRUSTED, forge

from pytest_lecturecheck.model.run import Outcome


def findings(run):
    return {(finding.cell_number, finding.message) for finding in run.findings if finding.fails_when_strict}


def test_a_cell_that_hides_its_error_behind_a_forged_end_is_a_finding(bench):
    run = bench.run(forge("ok", ends=True) + "1 / 0", "2")
    assert run.outcome is Outcome.COMPLETED
    assert findings(run) == {
        (1, f"a reply arrived (status 'error') after the cell had ended{UNTRUSTED}"),
        (1, f"an error arrived after the cell had ended: 'ZeroDivisionError: division by zero'{UNTRUSTED}"),
    }


def test_the_forged_end_of_the_last_cell_is_a_finding_too(bench):
    run = bench.run(forge("ok", ends=True) + "1 / 0")
    assert len(findings(run)) == 2


def test_a_second_reply_with_an_error_counts_and_is_a_finding(bench):
    run = bench.run(forge("ok", ends=False) + "1 / 0", "2")
    assert (run.outcome, run.evidence.error.name) == (Outcome.FAILED, "ZeroDivisionError")
    assert (1, f"more than one reply arrived; a kernel sends one{UNTRUSTED}") in findings(run)


LATE_REPLY = """
import pathlib, threading, time
send = get_ipython().kernel.session.send

def send_when_measured(*args, **named):
    while not pathlib.Path("measured").exists():
        time.sleep(0.01)
    send(*args, **named)

def send_late(stream, kind, *args, **named):
    if kind != "execute_reply":
        return send(stream, kind, *args, **named)
    threading.Thread(target=send_when_measured, args=(stream, kind, *args), kwargs=named, daemon=True).start()
"""


class NotingProbe(FakeProbe):
    """Leaves a file where the kernel runs once the first cell is measured."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def end_cell(self):
        (self.folder / "measured").touch()
        return super().end_cell()


def test_a_second_reply_is_waited_for_after_measuring(bench):
    source = f"{LATE_REPLY}{forge('ok', ends=False)}kernel.session.send = send_late\n1 / 0"
    run = bench.run(source, probe=NotingProbe(bench.folder))
    assert (1, f"more than one reply arrived; a kernel sends one{UNTRUSTED}") in findings(run)


def test_a_reply_that_names_another_error_is_a_finding(bench):
    run = bench.run(
        "kernel = get_ipython().kernel\n"
        "original = kernel.finish_metadata\n"
        "def finish(parent, metadata, content):\n"
        "    content['ename'] = 'Other'\n"
        "    return original(parent, metadata, content)\n"
        "kernel.finish_metadata = finish\n"
        "1 / 0"
    )
    assert (1, "the kernel's reply names the error 'Other', and the cell's output 'ZeroDivisionError'") in findings(run)
