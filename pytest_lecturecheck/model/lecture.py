"""The lecture as a value: cells with their place in the source, and what was noticed while reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.finding import Finding
from pytest_lecturecheck.model.settings import RunSettings


class LectureFormat(StrEnum):
    """The file formats that are read."""

    IPYNB = "ipynb"
    MYST = "myst"
    MARKDOWN = "markdown"
    PERCENT = "percent"
    RMARKDOWN = "Rmd"
    QUARTO = "qmd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """
    One code cell.

    Attributes:
        index: position among all cells of the notebook, 0-based (nbclient's cell index).
        number: position among the code cells, 1-based; the number that reports show.
        source: the code that runs.
        line: 1-based line in the lecture's file where ``source`` starts, or ``None`` where it is not known. Line ``k``
            of the source is line ``line + k - 1`` of the file; where that does not hold, ``line`` is ``None``.
        opening_line: 1-based line where the cell itself begins (its fence or ``# %%`` mark), or ``None``.
        tags: the cell's tags, whichever way they were written.
        skip_reason: why this cell is not run ("tag skip-execution"), or an empty string.
        expects_error: the cell is tagged as raising.
        source_path: the file that ``source`` was loaded from (MyST ``:load:``) where that is not the lecture's own,
            relative to the lecture's folder; ``line`` is then ``None``.
    """

    index: int
    number: int
    source: str
    line: int | None
    tags: frozenset[str] = frozenset()
    skip_reason: str = ""
    expects_error: bool = False
    source_path: str | None = None
    opening_line: int | None = None

    def file_line(self, line_in_cell: int | None) -> int | None:
        """Return the line of the lecture's file for a line of the source; ``None`` if there is no such line."""
        # Only line feeds count: str.splitlines would also split at form feeds.
        if self.line is None or line_in_cell is None or not 1 <= line_in_cell <= self.source.count("\n") + 1:
            return None
        return self.line + line_in_cell - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lecture:
    """
    One notebook document, ready to run.

    Attributes:
        path: the file.
        name: POSIX path from pytest's rootdir in NFC; the lecture's key in budgets and reports.
        format: how the file was read.
        kernel_name: the kernelspec that the lecture names, or ``None``.
        language: language of the kernel where the lecture names one ("python"), or an empty string.
        cells: the code cells in order.
        settings: what the lecture itself says about its run.
        findings: what was noticed while reading (cells that book builders do not run either, missing header).
        document: the notebook as an nbformat 4 ``NotebookNode``; the runner works on a copy.
        metadata: the notebook's metadata as plain types.
        hints_at_gpu: the text includes the note of lecture repositories that a page was built with a GPU
            (``_admonition/gpu.md``).
    """

    path: Path
    name: str
    format: LectureFormat
    kernel_name: str | None
    language: str
    cells: tuple[Cell, ...]
    settings: RunSettings
    findings: tuple[Finding, ...]
    document: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    hints_at_gpu: bool = False

    @property
    def has_work(self) -> bool:
        """Return True if any cell would run."""
        return any(cell.source.strip() and not cell.skip_reason for cell in self.cells)


def all_skipped_text(cells: Sequence[Cell]) -> str:
    """Return that all cells are skipped, and why."""
    reasons = ", ".join(dict.fromkeys(cell.skip_reason for cell in cells))
    which = "the only code cell is" if len(cells) == 1 else f"all {len(cells)} code cells are"
    return f"{which} skipped ({reasons})"
