"""What cells leave behind that matters to later cells: threads and mapped files, for findings about the peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.kernel.run.observations import mapped_file_findings, peak_reset_finding, thread_findings
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.finding import Finding
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.probe import CellReadings
from pytest_lecturecheck.model.run import Run

_SAME_PEAK_FRACTION: Final = 0.95
"""A cell within 5 % of the highest peak is looked at as well."""


class CellHistory:
    """Notes of the cells that have run, by cell number."""

    def __init__(self) -> None:
        """Begin without cells."""
        self._cell_of_request: dict[int, int] = {}
        self._threads_after: dict[int, list[tuple[str, int]]] = {}
        self._mapped_file_bytes: dict[int, int | None] = {}
        self._peak_resets: list[int] = []

    @property
    def has_begun(self) -> bool:
        """Return True if a cell has been sent to the kernel."""
        return bool(self._cell_of_request)

    def note_request(self, request_number: int, cell_number: int) -> None:
        """Record which of the agent's requests runs a cell."""
        self._cell_of_request[request_number] = cell_number

    def note_memory(self, cell_number: int, measured: CellReadings) -> None:
        """Record what affects how the peak of a cell should be read."""
        self._mapped_file_bytes[cell_number] = measured.mapped_file_bytes
        if measured.was_peak_reset:
            self._peak_resets.append(cell_number)

    def note_threads(self, cell_number: int, threads: Sequence[tuple[str, int]]) -> None:
        """Record the threads that live at the end of a cell: name, and the request in which each was first seen."""
        self._threads_after[cell_number] = [(name, self._cell_of_request.get(request, 0)) for name, request in threads]

    def findings(self, run: Run) -> Iterator[Finding]:
        """Return findings about the peaks of cells: who reset a counter, and what contributed to the highest peak."""
        yield from map(peak_reset_finding, self._peak_resets)
        heaviest = run.heaviest_cell()
        if heaviest is None:
            return
        yield from thread_findings(heaviest.number, self._threads_after)
        yield from mapped_file_findings(*self._most_mapped(run, heaviest))

    def _most_mapped(self, run: Run, heaviest: CellRun) -> tuple[CellRun, int | None]:
        """
        Return the cell with the most pages of mapped files, of those that reached the peak, and these bytes.

        Of cells that are as high the first one is the heaviest. A later one may have reached the same peak by other
        means, such as reading a large file through a mapping.
        """
        peak = heaviest.measured(Metric.PEAK_FOOTPRINT)
        alike = [heaviest]
        for cell in run.cells:
            found = cell.measured(Metric.PEAK_FOOTPRINT)
            if peak is not None and found is not None and found.value >= _SAME_PEAK_FRACTION * peak.value:
                alike.append(cell)
        pairs = [(cell, self._mapped_file_bytes.get(cell.number)) for cell in alike]
        return max(pairs, key=lambda pair: pair[1] or 0)
