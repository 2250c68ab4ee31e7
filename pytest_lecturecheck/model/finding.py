"""Findings: what was noticed beside the verdict."""

from __future__ import annotations

import re
from enum import StrEnum

from pytest_lecturecheck.deferred_dataclass import dataclass


class FindingKind(StrEnum):
    """The closed set of things that are noticed."""

    NO_KERNELSPEC = "no kernelspec"
    NESTED_CELL = "nested cell"
    NOT_RUN = "not run"
    NO_CODE = "no code"
    FORMAT = "format"
    SHELL = "shell"
    MISSING_PROGRAM = "missing program"
    INSTALL = "install"
    ERROR_EXPECTED = "error expected"
    ALLOWED_ERROR = "allowed error"
    """Cells raised and the lecture went on, because it allows errors."""
    BREAKPOINT = "breakpoint"
    THREAD = "thread"
    PROCESS = "process"
    SHARED_MEMORY = "shared memory"
    FILES = "files"
    OUTPUT_CUT = "output cut"
    MEASURE = "measure"
    KERNEL = "kernel"
    GPU = "gpu"
    LEASE = "lease"
    FIGURE = "figure"
    """A value that the lecture reported and that cannot be used."""
    SETTING = "setting"
    """A flag of the command line that a lecture's own value replaced."""
    PYTHON = "python"
    """The notebook was written with another version of Python than it was run with."""
    BOOK_CACHE = "book cache"
    """Why a lecture stays out of the book's cache, or why an entry there was not taken."""
    PLAN = "plan"
    """A compiled program asks for more memory than there is."""
    PROFILE = "profile"
    """A trace that was asked for and is not there, or not whole."""
    LEAK = "leak"
    """A cell that keeps more memory each time it is run again, or that could not be run again."""
    REPLAY = "replay"
    """What was saved of the state before a cell, and what could not be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One thing noticed.

    Attributes:
        kind: what it is about.
        message: one sentence for people; text from the lecture is quoted with ``!r``.
        cell_number: the code cell it belongs to (1-based), or ``None``.
        line: 1-based line in the lecture's file, or ``None``.
        fails_when_strict: whether ``--lecture-strict`` turns it into a failure.
        may_explain: whether it can be the reason why a later cell failed: of an install line, that it failed itself or
            changed the version of a package that was already imported; of files, that another lecture changed them.
    """

    kind: FindingKind
    message: str
    cell_number: int | None = None
    line: int | None = None
    fails_when_strict: bool = False
    may_explain: bool = False

    @property
    def place(self) -> str:
        """Return the location as the terminal shows it (``code cell 3, line 41``), or an empty string."""
        parts = []
        if self.cell_number is not None:
            parts.append(f"code cell {self.cell_number}")
        if self.line is not None:
            parts.append(f"line {self.line}")
        return ", ".join(parts)

    @property
    def place_beside(self) -> str:
        """Return the location, or an empty string if the message states it already (``(lines 16 and 18)``)."""
        is_stated = f"({self.place})" in self.message
        if self.cell_number is None and self.line is not None:
            is_stated = re.search(rf"\(lines? {self.line}\b", self.message) is not None
        return "" if is_stated else self.place
