"""The record that every reporter takes: a run with its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytest_lecturecheck.budget import LectureBudget
from pytest_lecturecheck.metric import Metric
from pytest_lecturecheck.report.text import one_line
from pytest_lecturecheck.run import CellRun, Run
from pytest_lecturecheck.verdict import Verdict, VerdictKind

_HEADLINE_CHARS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One run of the session with what was made of it.

    Attributes:
        run: the run.
        verdict: its verdict.
        budget: the budget it was held against, or ``None``.
        seconds: time that the item took, kernel start and teardown included.
    """

    run: Run
    verdict: Verdict
    budget: LectureBudget | None = None
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """Name the lecture, its variant and its repeat; harmless on a terminal."""
        variant = f" [{self.run.variant}]" if self.run.variant else ""
        repeat = f" (run {self.run.repeat})" if self.run.repeat > 1 else ""
        return one_line(f"{self.run.lecture}{variant}{repeat}")

    @property
    def headline(self) -> str:
        """Give the verdict's headline as one harmless line of bounded length."""
        return one_line(self.verdict.headline, _HEADLINE_CHARS) or self.verdict.kind.value

    @property
    def focus(self) -> CellRun | None:
        """Give the cell that the verdict is about: the one that ended badly, or that holds the exceeded peak."""
        evidence = self.run.evidence
        if evidence is not None and evidence.cell_number is not None:
            return next((cell for cell in self.run.cells if cell.number == evidence.cell_number), None)
        if self.verdict.kind not in {VerdictKind.OVER, VerdictKind.UNDER, VerdictKind.NOT_FITTING}:
            return None
        exceeded = (item.cell for item in self.verdict.compared if item.kind is self.verdict.kind)
        return next((cell for cell in exceeded if cell is not None), None)

    @property
    def failing_line_in_cell(self) -> int | None:
        """Give the 1-based line of the focus cell's source that was running, or ``None`` where that is not known."""
        cell, evidence = self.focus, self.run.evidence
        if cell is None or evidence is None:
            return None
        error = evidence.error or cell.error
        if error is not None and error.line_in_cell is not None:
            return error.line_in_cell
        # A death or a timeout names the cell's first line where the statement is not known: that marks nothing.
        if evidence.line is None or cell.line is None or evidence.line <= cell.line:
            return None
        return evidence.line - cell.line + 1

    @property
    def line(self) -> int | None:
        """Give the line of the lecture's file to look at, or ``None``."""
        cell, evidence, inner = self.focus, self.run.evidence, self.failing_line_in_cell
        if cell is not None and cell.line is not None:
            return cell.line + (inner or 1) - 1
        return evidence.line if evidence is not None else None

    @property
    def location(self) -> str:
        """Give the place as editors and terminals open it (``lectures/intro.md:41``)."""
        lecture = one_line(self.run.speaker.lecture)
        return lecture if self.line is None else f"{lecture}:{self.line}"

    @property
    def limit_bytes(self) -> float | None:
        """Give the limit of the peak footprint that applied: declared, or the budget's."""
        for item in self.verdict.comparisons:
            if item.metric is Metric.PEAK_FOOTPRINT and item.limit is not None:
                return item.limit
        found = self.budget.metrics.get(Metric.PEAK_FOOTPRINT) if self.budget is not None else None
        return found.limit if found is not None else None

    @property
    def wall_seconds(self) -> float:
        """Give the lecture's wall time, or the item's where it was not measured or the run is of an earlier session."""
        wall = self.run.measured(Metric.WALL)
        return wall.value if wall is not None and self.was_run else self.seconds

    @property
    def was_run(self) -> bool:
        """Tell whether the run took place in this session; of a failure that is only said again it did not."""
        return self.verdict.kind is not VerdictKind.FAILED_BEFORE
