"""Explain where the build of a book will differ from the session: variables, kernel, time limit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.lecture.book.pages import Book, BookEngine
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration

_MYST_NB_TIMEOUT_SECONDS: Final = 30.0
"""``execute.timeout`` of Jupyter Book 1 and ``nb_execution_timeout`` of myst-nb where nothing is set."""
_CLOSE_FRACTION: Final = 0.8
_SHOWN: Final = 5
_NO_GPU: Final = {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
_CARD_CHOICE: Final = frozenset({"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})
"""Variables with which a session gives each kernel its card."""
_ALLOCATOR: Final = "XLA_PYTHON_CLIENT_"


def explain_build_differences(
    entries: Sequence[Entry],
    settings: SessionSettings,
    book_of: Callable[[Path], Book | None],
    *,
    rootdir: Path,
    environ: Mapping[str, str],
) -> list[str]:
    """
    Return a line for each kind of difference.

    Args:
        entries: the session's entries.
        settings: the session's settings.
        book_of: returns the book of a lecture.
        rootdir: pytest's rootdir.
        environ: the variables of this process, which a build beside it has as well.
    """
    pages = [
        (entry.run, book)
        for entry in entries
        if entry.was_run and entry.run.cells and (book := book_of(rootdir / entry.run.lecture)) is not None
    ]
    if not pages:
        return []
    runs = [run for run, _book in pages]
    return [*_variables(runs, environ), *_pinned(runs, environ), *_kernel(settings), *_timeouts(pages, rootdir)]


def _variables(runs: Sequence[Run], environ: Mapping[str, str]) -> Iterator[str]:
    names = {
        name
        for run in runs
        for name, text in run.conditions.environment.items()
        if environ.get(name) != text and name not in _CARD_CHOICE and not (name in _NO_GPU and _is_pinned(run))
    }
    if not names:
        return
    allocator = sorted(name for name in names if name.startswith(_ALLOCATOR))
    about = f" ({', '.join(allocator)} decide about the memory of GPUs)" if allocator else ""
    yield (
        f"the build of the book differs: kernels of this session get {', '.join(sorted(names))}{about}, and a build "
        "beside it does not; `lecturecheck env --github` sets them for later steps, and --shell in a shell"
    )


def _is_pinned(run: Run) -> bool:
    return all(run.conditions.environment.get(name) == text for name, text in _NO_GPU.items())


def _pinned(runs: Sequence[Run], environ: Mapping[str, str]) -> Iterator[str]:
    if all(environ.get(name) == text for name, text in _NO_GPU.items()):
        return
    names = dict.fromkeys(run.lecture for run in runs if _is_pinned(run))
    if names:
        yield (
            f"the build of the book differs: {_listed(list(names))} ran without a GPU here (gpu: cpu), which the book "
            "does not know; on a machine with a GPU its build uses that"
        )


def _kernel(settings: SessionSettings) -> Iterator[str]:
    stated = settings.for_all_lectures
    if stated.kernel_name is not None:
        yield (
            f"the build of the book differs: lectures run in the kernel {stated.kernel_name!r} here "
            f"({stated.origin('kernel_name')}), and in the one that each page names there"
        )


def _timeouts(pages: Sequence[tuple[Run, Book]], rootdir: Path) -> Iterator[str]:
    """Yield lines about cells that the build would stop, or nearly."""
    over: dict[str, list[str]] = {}
    for run, book in pages:
        limit, origin = _limit_of(rootdir / run.lecture, book)
        slowest = max(
            ((found.value, cell.number) for cell in run.cells if (found := cell.measured(Metric.WALL)) is not None),
            default=None,
        )
        if limit is None or slowest is None or slowest[0] < limit * _CLOSE_FRACTION:
            continue
        verb = "stops" if slowest[0] >= limit else "nearly stops"
        head = f"the build of the book {verb} a cell after {format_duration(limit)} ({origin})"
        text = f"code cell {slowest[1]} of {one_line(run.lecture)} took {format_duration(slowest[0])}"
        over.setdefault(head, []).append(text)
    for head, texts in over.items():
        yield f"{head}: {_listed(texts)}"


def _limit_of(path: Path, book: Book) -> tuple[float | None, str]:
    if book.engine is BookEngine.MYSTMD:
        return None, ""
    settings = book.settings_for(path)
    if settings.timeout_seconds is None:
        return _MYST_NB_TIMEOUT_SECONDS, "the default of Jupyter Book and myst-nb"
    return settings.timeout_seconds, settings.origin("timeout_seconds")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
