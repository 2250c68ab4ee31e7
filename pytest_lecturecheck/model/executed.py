"""What a kernel showed while it ran a lecture, whole; kept only where a book's cache is filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from pytest_lecturecheck.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedLecture:
    """
    The outputs of a lecture that ran to its end.

    Attributes:
        document: the notebook as nbformat 4 with outputs, prompt numbers, language and widget state, as nbclient leaves
            it.
        messages: for each code cell of the document its output messages as the kernel sent them, in order. A text that
            the kernel sent in several pieces is one message.
        seconds: time from the start of the first cell to the end of the last one.
        environment: the variables that were set for this kernel only.
        token: the mark of the run in the kernel's environment; it must not show in any output.
        is_whole: whether all outputs were kept; ``False`` where there were too many of them.
    """

    document: Any
    messages: Sequence[Sequence[Mapping[str, Any]]]
    seconds: float
    environment: Mapping[str, str] = field(default_factory=dict)
    token: str
    is_whole: bool = True
