"""The value that every reporter takes: a run with its verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.finding import Finding
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.safe_text import cut_line, one_line
from pytest_lecturecheck.verdict import Comparison, Verdict, VerdictKind

_HEADLINE_CHARS: Final = 500
_SOURCE_LINES: Final = 60
_SOURCE_CHARS: Final = 400
_LINES_BEFORE: Final = 4
_LINES_AFTER: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One run of the session with its verdict.

    Attributes:
        run: the run.
        verdict: its verdict.
        budget: the budget it was compared with, or ``None``.
        seconds: time the item took, including kernel start and teardown.
    """

    run: Run
    verdict: Verdict
    budget: LectureBudget | None = None
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """Return the lecture with its variant and repeat, as safe text."""
        variant = f" [{self.run.variant}]" if self.run.variant else ""
        repeat = f" (run {self.run.repeat})" if self.run.repeat > 1 else ""
        return one_line(f"{self.run.lecture}{variant}{repeat}")

    @property
    def rerun_text(self) -> str:
        """Return on which run the lecture came to its verdict, and how the earlier ones ended, or an empty string."""
        ends = self.verdict.earlier_ends
        if not ends:
            return ""
        result = "failed again" if self.verdict.failed else "passed"
        told = "; ".join(f"{_ordinal(number)} run {end}" for number, end in enumerate(ends, start=1))
        return one_line(f"{result} on the {_ordinal(len(ends) + 1)} run, which another plugin asked for; {told}")

    @property
    def headline(self) -> str:
        """Return the verdict's headline as one safe line of bounded length."""
        return one_line(self.verdict.headline, _HEADLINE_CHARS) or self.verdict.kind.value

    @property
    def kind_and_headline(self) -> str:
        """Return the verdict and its headline, which may begin with the verdict itself (``failed before, ...``)."""
        kind = self.verdict.kind.value
        return self.headline if self.headline.startswith(kind) else f"{kind}: {self.headline}"

    @property
    def focus(self) -> CellRun | None:
        """Return the cell that the verdict is about: the one that ended badly, or the one with the exceeded peak."""
        evidence = self.run.evidence
        if evidence is not None and evidence.cell_number is not None:
            return next((cell for cell in self.run.cells if cell.number == evidence.cell_number), None)
        if (finding := self.failing_finding) is not None:
            return next((cell for cell in self.subject.cells if cell.number == finding.cell_number), None)
        if not self.is_over:
            return None
        exceeded = (item.cell for item in self.verdict.compared if item.kind is self.verdict.kind)
        return next((cell for cell in exceeded if cell is not None), None)

    @property
    def failing_finding(self) -> Finding | None:
        """Return the first finding that fails the run under ``strict``, if possible one with a place, or ``None``."""
        if self.run.evidence is not None or self.verdict.kind is not VerdictKind.FAILED:
            return None
        failing = [item for item in self.run.findings if item.fails_when_strict]
        named = [item for item in failing if item.message in self.verdict.headline]
        return next((item for item in named if item.place), named[0] if named else None)

    @property
    def subject(self) -> Run:
        """Return the run that the failure is about: in a cohort, that of the kernel concerned."""
        finding = self.failing_finding
        members = (run for run in self.run.members if finding is not None and finding in run.findings)
        return next(members, self.run.speaker)

    @property
    def source(self) -> str:
        """Return the recorded source of the focus cell, perhaps only its beginning; unsafe text."""
        evidence = self.run.evidence
        return evidence.source if evidence is not None and evidence.source else self.verdict.source_extract

    def with_source(self, source_of: Callable[[int], str], file_text: Callable[[], str] = str) -> Entry:
        """
        Return the entry with the source of the cell that exceeded a limit, or the lines around a finding.

        Args:
            source_of: returns the source of a code cell by its number.
            file_text: returns the text of the lecture's file; called for a finding that belongs to no cell.
        """
        cell = self.focus
        if self.run.evidence is not None:
            return self
        if cell is None:
            return self._with_lines_of_file(file_text) if self.line is not None else self
        # Only line feeds count: str.splitlines would also split at form feeds, which number no line.
        rows = source_of(cell.number).rstrip("\n").split("\n")
        extract = "\n".join(cut_line(row, _SOURCE_CHARS) for row in rows[:_SOURCE_LINES])
        verdict = replace(self.verdict, source_extract=extract, source_line_count=len(rows))
        return replace(self, verdict=verdict)

    def _with_lines_of_file(self, file_text: Callable[[], str]) -> Entry:
        rows, line = file_text().split("\n"), self.line or 1
        first = max(1, line - _LINES_BEFORE)
        shown = rows[first - 1 : line + _LINES_AFTER]
        if not any(row.strip() for row in shown):
            return self
        extract = "\n".join(cut_line(row, _SOURCE_CHARS) for row in shown)
        verdict = replace(self.verdict, source_extract=extract, source_line_count=len(shown), source_first_line=first)
        return replace(self, verdict=verdict)

    @property
    def source_first_line(self) -> int | None:
        """Return the line of the file where :attr:`source` begins, or ``None`` if it is unknown."""
        return self.focus.line if self.focus is not None else self.verdict.source_first_line

    @property
    def marked_row(self) -> int | None:
        """Return the 1-based row of :attr:`source` to mark, or ``None``."""
        if self.focus is not None:
            return self.failing_line_in_cell
        first = self.verdict.source_first_line
        return self.line - first + 1 if first is not None and self.line is not None else None

    @property
    def is_over(self) -> bool:
        """Return True if the verdict is about an exceeded limit."""
        return self.verdict.kind.exceeds_limit

    @property
    def exceeded(self) -> dict[Metric, Comparison]:
        """Return the comparisons over a limit by metric; of several limits of one metric the lowest."""
        over = [item for item in self.verdict.comparisons if item.kind.exceeds_limit and item.limit is not None]
        return {item.metric: item for item in sorted(over, key=lambda item: -(item.limit or 0.0))}

    @property
    def failing_line_in_cell(self) -> int | None:
        """
        Return the 1-based line of the focus cell's source to look at, or ``None`` if it is unknown.

        It is the line that was running, or the one with most memory at a peak over its limit.
        """
        cell, evidence = self.focus, self.run.evidence
        if cell is not None and (finding := self.failing_finding) is not None:
            # A finding about the whole cell has the cell's first line: that marks nothing.
            if finding.line is None or cell.line is None or finding.line <= cell.line:
                return None
            return finding.line - cell.line + 1
        if cell is None or evidence is None:
            return self._line_at_peak
        error = evidence.error or cell.error
        if error is not None and error.line_in_cell is not None:
            return error.line_in_cell
        if evidence.line is None or cell.line is None or evidence.line < cell.line:
            return None
        return evidence.line - cell.line + 1

    @property
    def _line_at_peak(self) -> int | None:
        """Return the line of the cell over a limit that holds most memory at its peak, where that was recorded."""
        cell = self.focus
        lines = cell.memory_profile.lines if cell is not None and cell.memory_profile is not None else ()
        return lines[0].cell_line if lines and self.is_over else None

    @property
    def line(self) -> int | None:
        """Return the line of the lecture's file to look at, or ``None``."""
        cell, evidence, inner = self.focus, self.run.evidence, self.failing_line_in_cell
        if cell is not None and cell.line is not None:
            return cell.line + (inner or 1) - 1
        if evidence is not None:
            return evidence.line
        return self.failing_finding.line if self.failing_finding is not None else self.run.fault_line

    @property
    def location(self) -> str:
        """Return the location as editors and terminals open it (``lectures/intro.md:41``)."""
        lecture = one_line(self.subject.lecture)
        return lecture if self.line is None else f"{lecture}:{self.line}"

    @property
    def limit_bytes(self) -> float | None:
        """Return the limit of the peak footprint that applied: the exceeded one, the declared one, or the budget's."""
        if (over := self.exceeded.get(Metric.PEAK_FOOTPRINT)) is not None:
            return over.limit
        for item in self.verdict.comparisons:
            if item.metric is Metric.PEAK_FOOTPRINT and item.limit is not None:
                return item.limit
        found = self.budget.metrics.get(Metric.PEAK_FOOTPRINT) if self.budget is not None else None
        return found.limit if found is not None else None

    @property
    def wall_seconds(self) -> float:
        """Return the lecture's wall time, or the item's time if it was not measured in this session."""
        wall = self.run.measured(Metric.WALL)
        return wall.value if wall is not None and self.was_run else self.seconds

    @property
    def was_run(self) -> bool:
        """Return True if the lecture ran in this session; a remembered failure is reported without a run."""
        return self.verdict.kind is not VerdictKind.FAILED_BEFORE


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
