"""The failure text of a lecture's item."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_lecturecheck.model.lecture import Lecture
    from pytest_lecturecheck.plugin.worker_configuration import WorkerConfiguration
    from pytest_lecturecheck.report.entry import Entry


def failure_text(entry: Entry, lecture: Lecture | None, configuration: WorkerConfiguration, verbosity: int) -> str:
    """
    Render what pytest shows for a failed item.

    Args:
        entry: the failed entry.
        lecture: the lecture that it is about, or ``None`` where that could not be read.
        configuration: how failure text should look.
        verbosity: pytest's verbosity.
    """
    from pytest_lecturecheck.report.terminal.failure import render_failure  # noqa: PLC0415 - only where something failed

    number = entry.focus.number if lecture is not None and entry.focus is not None else None
    cell = next((cell for cell in lecture.cells if cell.number == number), None) if lecture is not None else None
    return render_failure(
        entry,
        source_lines=cell.source.rstrip("\n").split("\n") if cell is not None and cell.source else (),
        loaded_from=(cell.source_path or "") if cell is not None else "",
        colour=configuration.colour,
        width=configuration.width,
        verbosity=verbosity,
    )
