"""Word the cause of a plain program's end: it has no kernel and no cells."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause
from pytest_lecturecheck.model.evidence import Evidence

_WORDS: Final = (
    (re.compile(r" \(code cell 1\)| in code cell 1\b|, in code cell 1\b"), ""),
    (re.compile(r"\b(the )?kernel('s)?\b(?! log)"), r"\1program\2"),
    (re.compile(r"\b(the|this|that) (?:code )?cell\b"), r"\1 program"),
    (re.compile(r"memory-cap in its front matter where that is set, else --lecture-memory-cap SIZE"), "--cap SIZE"),
)


def in_words_of_program(cause: Cause, evidence: Evidence) -> Cause:
    """Return the cause in the words of a program if the evidence is about one."""
    if not evidence.is_program:
        return cause
    return replace(
        cause,
        headline=_reworded(cause.headline),
        evidence=tuple(map(_reworded, cause.evidence)),
        advice=tuple(map(_reworded, cause.advice)),
    )


def _reworded(text: str) -> str:
    for pattern, replacement in _WORDS:
        text = pattern.sub(replacement, text)
    return text
