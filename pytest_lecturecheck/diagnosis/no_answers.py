"""Kernels whose process lives and that can never answer a cell."""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.wording import LONGEST_QUOTE, all_lines, within
from pytest_lecturecheck.model.evidence import Evidence, NoAnswerReason
from pytest_lecturecheck.safe_text import one_line

_LOST_ADVICE: Final = (
    "the cell, or one before it, replaced something that the kernel needs to answer (sys.stdout, a method of "
    "get_ipython()); keep a reference and put it back"
)
_IDLE_ADVICE: Final = "run the lecture in a notebook: the kernel's log says what became of the reply"
_REPLACED_ADVICE: Final = "start other programs with subprocess.run, which leaves the kernel as it is"


def find_no_answer(evidence: Evidence) -> Cause | None:
    """Recognise a kernel that has ended a cell without a reply, or has become another program."""
    found = evidence.exit.no_answer
    if found is None or evidence.exit.signal is not None or evidence.exit.exit_code is not None:
        return None
    text = one_line(found.text, LONGEST_QUOTE)
    if found.reason is NoAnswerReason.LOST_REPLY:
        why = f": {text}" if text else ""
        headline, advice = f"kernel lost the reply to the cell{within(evidence)}{why}", _LOST_ADVICE
    elif found.reason is NoAnswerReason.IDLE:
        headline, advice = f"kernel is idle and sent no reply{within(evidence)}", _IDLE_ADVICE
    else:
        now = f"; its process now runs: {text}" if text else ""
        headline, advice = f"kernel was replaced by another program{within(evidence)}{now}", _REPLACED_ADVICE
    return Cause(kind=CauseKind.NO_ANSWER, headline=headline, evidence=all_lines(evidence), advice=(advice,))
