"""Write a replay folder, and read it again: notebook, loader, and what the cell needed in the original run."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.files import MOST_SETTINGS_BYTES, read_plain_bytes
from pytest_lecturecheck.model.captured_state import CapturedState
from pytest_lecturecheck.model.cell_run import CellRun
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.safe_text import plain
from pytest_lecturecheck.store.atomic import write_text_atomically

NOTEBOOK: Final = "replay.ipynb"
LOADER: Final = "load_state.py"
RECORD: Final = "replay.json"
DATA: Final = "data"
REPLAYED_CELL: Final = 2
"""Number of the code cell that is replayed, in the notebook of the folder: the first one loads the state."""
_SCHEMA: Final = 1
_LOAD: Final = f"""\
# Runs code that was saved with the state: run it only if you trust whoever made this folder.
__import__("runpy").run_path("{LOADER}")["load_state"]("{DATA}", globals())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellValues:
    """
    What one run of the cell needed.

    Attributes:
        status: how it ended ("ok", "failed", "died").
        peak_bytes: its peak footprint, or ``None`` if it was not measured.
        start_bytes: the footprint at its start, or ``None``.
        seconds: its wall time, or ``None``.
    """

    status: str
    peak_bytes: float | None = None
    start_bytes: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRecord:
    """
    What a replay folder says about itself.

    Attributes:
        lecture: the lecture.
        cell_number: the code cell.
        line: its line in the lecture's file, or ``None``.
        platform: platform label of the original run.
        original: what the cell needed there.
        saved: how each name was saved.
        missing: names that could not be saved, and why.
        files: the notebook, the loader, and copied modules of the lecture.
    """

    lecture: str
    cell_number: int
    line: int | None
    platform: str
    original: CellValues
    saved: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = (NOTEBOOK, LOADER)

    @property
    def title(self) -> str:
        """Name the cell."""
        line = f", line {self.line}" if self.line is not None else ""
        return f"code cell {self.cell_number} of {self.lecture}{line}"


def values_of(cell: CellRun) -> CellValues:
    """Return what a cell of a run needed."""
    peak, wall = cell.measured(Metric.PEAK_FOOTPRINT), cell.measured(Metric.WALL)
    return CellValues(
        status=cell.status.value,
        peak_bytes=peak.value if peak is not None else None,
        start_bytes=cell.start_footprint_bytes,
        seconds=wall.value if wall is not None else None,
    )


def write_replay(folder: Path, run: Run, cell: Cell, state: CapturedState) -> ReplayRecord:
    """
    Write notebook, loader and record into the folder that holds the data.

    Args:
        folder: the folder.
        run: the original run.
        cell: the cell of the lecture.
        state: what was saved before it.

    Raises:
        OSError: a file cannot be written.
    """
    ran = next(item for item in run.cells if item.number == cell.number)
    record = ReplayRecord(
        lecture=run.lecture,
        cell_number=cell.number,
        line=cell.line,
        platform=run.platform,
        original=values_of(ran),
        saved=state.saved,
        missing=state.missing,
        files=(NOTEBOOK, LOADER, *state.local_modules),
    )
    loader = importlib.util.find_spec("pytest_lecturecheck.store.replay.load_state")
    assert loader is not None  # noqa: S101 - a module beside this one
    assert loader.origin is not None  # noqa: S101 - as above
    write_text_atomically(folder / LOADER, Path(loader.origin).read_text(encoding="utf-8"))
    write_text_atomically(folder / NOTEBOOK, json.dumps(_notebook(record, run, cell), indent=1) + "\n")
    write_text_atomically(folder / RECORD, json.dumps({"schema": _SCHEMA, **asdict(record)}, indent=1) + "\n")
    return record


def _notebook(record: ReplayRecord, run: Run, cell: Cell) -> dict[str, Any]:
    kernel = run.launch.kernel_name or "python3"
    missing = "".join(f"\n- `{plain(name)}` could not be saved: {plain(why)}" for name, why in record.missing.items())
    text = (
        f"# Replay of {plain(record.title)}\n\nThe first code cell loads the state that the second one reads. Loading "
        f"it runs code of whoever made this folder.\n{missing}"
    )
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": kernel, "display_name": kernel, "language": "python"}},
        "cells": [
            {"cell_type": "markdown", "id": "about", "metadata": {}, "source": text},
            _code_cell("load-state", _LOAD),
            _code_cell("replayed", cell.source, ["raises-exception"] if cell.expects_error else []),
        ],
    }


def _code_cell(name: str, source: str, tags: list[str] | None = None) -> dict[str, Any]:
    metadata = {"tags": tags} if tags else {}
    return {
        "cell_type": "code",
        "id": name,
        "metadata": metadata,
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def read_replay(folder: Path) -> ReplayRecord:
    """
    Read the record of a replay folder.

    Raises:
        LectureCheckError: it is no replay folder, or its record cannot be used.
    """
    path = folder / RECORD
    try:
        document = json.loads(read_plain_bytes(path, most_bytes=MOST_SETTINGS_BYTES, follow_links=False))
        if document.pop("schema") != _SCHEMA:
            msg = f"its schema is not {_SCHEMA}"
            raise ValueError(msg)  # noqa: TRY301 - reported with the others below
        original = CellValues(**document.pop("original"))
        files = tuple(_inner_name(name) for name in document.pop("files"))
        number = int(document.pop("cell_number"))
        return ReplayRecord(**document, original=original, files=files, cell_number=number)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        msg = (
            f"{folder}: {RECORD} cannot be used: {exc}; expected a folder that --lecture-replay-capture wrote, with "
            f"{RECORD}, {NOTEBOOK}, {LOADER} and {DATA}"
        )
        raise LectureCheckError(msg) from exc


def _inner_name(name: object) -> str:
    parts = Path(str(name)).parts
    if not parts or Path(str(name)).is_absolute() or ".." in parts:
        msg = f"the file name {name!r} leaves the folder"
        raise ValueError(msg)
    return str(name)
