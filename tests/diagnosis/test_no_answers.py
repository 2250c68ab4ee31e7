"""Kernels that live and never answer, and kernels whose supervisor is gone."""

from __future__ import annotations

import pytest
from support.made_records import changed
from support.roomy_evidence import ROOMY, ROOMY_LINES, check

from pytest_lecturecheck.diagnosis import CauseKind
from pytest_lecturecheck.model.evidence import NoAnswer, NoAnswerReason


@pytest.mark.parametrize(
    ("reason", "text", "headline"),
    [
        (
            NoAnswerReason.LOST_REPLY,
            "TypeError: 'NoneType' object is not callable\x1b[2J",
            "kernel lost the reply to the cell in code cell 2, line 9: TypeError: 'NoneType' object is not callable",
        ),
        (NoAnswerReason.LOST_REPLY, "", "kernel lost the reply to the cell in code cell 2, line 9"),
        (NoAnswerReason.IDLE, "", "kernel is idle and sent no reply in code cell 2, line 9"),
        (
            NoAnswerReason.SOCKETS_CLOSED,
            "sleep 1000",
            "kernel was replaced by another program in code cell 2, line 9; its process now runs: sleep 1000",
        ),
    ],
)
def test_the_headline_says_why_no_reply_can_come(reason, text, headline):
    evidence = changed(ROOMY, no_answer=NoAnswer(reason=reason, text=text), stderr_tail=("a line",))
    cause = check(evidence, CauseKind.NO_ANSWER, headline, lines=(*ROOMY_LINES, "stderr: a line"))
    assert len(cause.advice) == 1


def test_a_process_that_ended_after_all_has_its_own_cause():
    evidence = changed(ROOMY, no_answer=NoAnswer(reason=NoAnswerReason.IDLE), exit_code=3)
    check(evidence, CauseKind.EXITED, "kernel ended with exit code 3 in code cell 2, line 9")


def test_a_kernel_killed_with_its_supervisor_says_so():
    headline = (
        "kernel was killed together with its supervisor process in code cell 2, line 9; no record of memory shortage"
    )
    check(changed(ROOMY, signal=9, lost_supervisor=True), CauseKind.KILLED, headline)
