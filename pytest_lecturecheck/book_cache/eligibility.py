"""
Decide whether the outputs of a run are what the build of the book would show. Pure.

Where the gate ran something else than the build would, the lecture stays out of the book's cache, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.executed import ExecutedLecture
from pytest_lecturecheck.model.lecture import Cell, Lecture
from pytest_lecturecheck.model.run import Run

_SKIP: Final = "skip-execution"
_RAISES: Final = "raises-exception"
_EVAL: Final = "{eval}`"
_TRACES: Final = ("lecturecheck agent", "lecturecheck_agent", "LECTURECHECK_RUN")
"""What output shows only if a lecture prints its environment, or looks into its kernel."""
HARMLESS_VARIABLES: Final = frozenset(
    [
        "JAX_COMPILATION_CACHE_DIR",
        "XLA_PYTHON_CLIENT_ALLOCATOR",
        "XLA_PYTHON_CLIENT_MEM_FRACTION",
        "XLA_PYTHON_CLIENT_PREALLOCATE",
    ]
)
"""Variables that change where and when memory is taken, and no result."""
_TRACEBACK_VARIABLE: Final = "JAX_TRACEBACK_FILTERING"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildView:
    """
    How the build of a book runs a page.

    Attributes:
        engine: the program that executes the book ("myst-nb", "mystmd").
        lecture: the page as that program reads it.
        kernel_name: the kernel that it takes.
        runs_in_temp: whether it runs in a temporary folder.
        is_page: whether it reads files of this format.
    """

    engine: str
    lecture: Lecture
    kernel_name: str | None
    runs_in_temp: bool = False
    is_page: bool = True


def explain_page(view: BuildView) -> str:
    """Explain why a page can never be in the book's cache, whatever a run of it shows; empty if it can."""
    if not view.is_page:
        return f"{view.engine} does not read {view.lecture.format.value} files as pages"
    return _explain_mystmd_page(view) if view.engine == "mystmd" else ""


def _explain_mystmd_page(view: BuildView) -> str:
    execute = view.lecture.metadata.get("execute")
    if isinstance(execute, Mapping) and execute.get("cache") is False:
        return "its front matter sets execute.cache to false, so that mystmd runs it in every build"
    if view.kernel_name is None:
        return "it names no kernelspec, without which mystmd does not run a page"
    if any(cell.cell_type == "markdown" and _EVAL in cell.source for cell in view.lecture.document.cells):
        return "it has {eval} expressions, which the build evaluates and the gate does not"
    return ""


def explain_run(
    view: BuildView,
    ran: Lecture,
    run: Run,
    executed: ExecutedLecture,
    *,
    ran_in_temp: bool,
    inherited: Mapping[str, str],
) -> str:
    """
    Explain why the outputs of a completed run are not those of the build; empty if they are.

    Args:
        view: how the build runs the page.
        ran: the lecture as the gate read it.
        run: its record.
        executed: its outputs.
        ran_in_temp: whether the gate ran it in a temporary folder.
        inherited: the variables that the build will inherit.
    """
    return next(_obstacles(view, ran, run, executed, ran_in_temp=ran_in_temp, inherited=inherited), "")


def _obstacles(
    view: BuildView,
    ran: Lecture,
    run: Run,
    executed: ExecutedLecture,
    *,
    ran_in_temp: bool,
    inherited: Mapping[str, str],
) -> Iterator[str]:
    if not executed.is_whole:
        yield "its outputs are larger than what is kept (256 MiB)"
    if run.is_profiled:
        yield "cells were traced with a profiler"
    if run.until_cell is not None:
        yield f"it was run until code cell {run.until_cell} only"
    if _native(run.launch.kernel_name) != _native(view.kernel_name):
        yield f"it ran in the kernel {run.launch.kernel_name!r}, and the build takes {view.kernel_name or 'python3'!r}"
    if ran_in_temp != view.runs_in_temp:
        folders = ("its own folder", "a temporary folder")
        yield f"it ran in {folders[ran_in_temp]}, and the build runs it in {folders[view.runs_in_temp]}"
    yield from _other_cells(view, ran)
    yield from _other_errors(ran, run)
    yield from _own_variables(run, executed, inherited)
    text = json.dumps([executed.document, list(executed.messages)])
    if executed.token in text or any(trace in text for trace in _TRACES):
        yield "its output shows that it ran under pytest-lecturecheck"


def _native(name: str | None) -> str:
    return "python3" if name in {None, "", "python"} else str(name)


def _other_cells(view: BuildView, ran: Lecture) -> Iterator[str]:
    here = [cell for cell in ran.cells if not cell.skip_reason and cell.source.strip()]
    build = [cell for cell in view.lecture.cells if _SKIP not in cell.tags and cell.source.strip()]
    if [cell.source.strip() for cell in here] == [cell.source.strip() for cell in build]:
        return
    left_out = [cell for cell in ran.cells if cell.skip_reason and _SKIP not in cell.tags and cell.source.strip()]
    if left_out:
        yield f"code cell {left_out[0].number} is left out here ({left_out[0].skip_reason}), and the build runs it"
    yield f"{view.engine} runs other cells of this page than the gate did ({len(build)} there, {len(here)} here)"


def _other_errors(ran: Lecture, run: Run) -> Iterator[str]:
    for cell, record in zip(ran.cells, run.cells, strict=False):
        if record.status is CellStatus.ALLOWED_ERROR:
            yield f"code cell {cell.number} raised an error that is allowed for the lecture as a whole"
        if record.status is CellStatus.EXPECTED_ERROR and _RAISES not in cell.tags:
            yield f"code cell {cell.number} raised an error that the build does not expect (it has no tag {_RAISES})"


def _own_variables(run: Run, executed: ExecutedLecture, inherited: Mapping[str, str]) -> Iterator[str]:
    harmless = HARMLESS_VARIABLES
    if not any(cell.error is not None for cell in run.cells):
        harmless |= {_TRACEBACK_VARIABLE}
    changed = [
        name for name, value in executed.environment.items() if name not in harmless and inherited.get(name) != value
    ]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        yield f"the variable {changed[0]}{more} was set for its kernel, and the build does not set it"


def align_messages(
    page: Lecture, ran: Lecture, messages: Sequence[Sequence[Mapping[str, Any]]]
) -> list[Sequence[Mapping[str, Any]]]:
    """
    Return the messages for each code cell of a page, whose programs may count blank and skipped cells differently.

    Args:
        page: the page as the program of the book reads it.
        ran: the lecture as the gate ran it, with the same cells to execute.
        messages: the messages of each of its code cells.
    """
    sent = iter([messages[cell.number - 1] for cell in ran.cells if not cell.skip_reason and cell.source.strip()])
    return [next(sent) if _SKIP not in cell.tags and cell.source.strip() else () for cell in page.cells]


def unexpected_errors(entry_errors: tuple[int, ...], cells: list[Cell]) -> list[int]:
    """
    Return the numbers of cells that show an error in an entry and are not tagged as raising.

    Args:
        entry_errors: positions of the cells with errors among those of the entry, from 1.
        cells: the lecture's cells in the order of the entry.
    """
    pairs = [(position, cells[position - 1]) for position in entry_errors if position <= len(cells)]
    return [cell.number for _position, cell in pairs if _RAISES not in cell.tags]
