"""Where the traces, the records of memory and the replays of a lecture's cells are written."""

from __future__ import annotations

import contextlib
import hashlib
import re
from pathlib import Path
from typing import Final

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.kernel.run.ports import MemoryPlan, Tracing
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.variant import DEFAULT_VARIANT
from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER
from pytest_lecturecheck.store.own_folder import make_own_folder

_NAME_CHARS: Final = 80


def plan_tracing(
    rootdir: Path, lecture: Lecture, repeat: int, cells: frozenset[int], variant: str = DEFAULT_VARIANT
) -> Tracing:
    """Return where the traces of these cells go: into our own folder, under a name made of the lecture's."""
    from pytest_lecturecheck.trace.trace_reader import read_cell  # noqa: PLC0415 - few sessions trace

    folder = own_lecture_folder(rootdir, "traces", lecture.name, variant)
    return Tracing(cells=cells, folder=folder / f"run-{repeat}" if repeat > 1 else folder, root=rootdir, read=read_cell)


def plan_memory(
    rootdir: Path, lecture: Lecture, repeat: int, cells: frozenset[int], variant: str = DEFAULT_VARIANT
) -> MemoryPlan:
    """Return what is observed of a lecture's memory: levels of all cells, and records of these."""
    folder = own_lecture_folder(rootdir, "memory", lecture.name, variant)
    return MemoryPlan(root=rootdir, folder=folder / f"run-{repeat}" if repeat > 1 else folder, cells=cells)


def plan_levels_over(rootdir: Path, budget: LectureBudget | None, declared_bytes: int | None) -> MemoryPlan | None:
    """Return that a level is taken after a cell over the limit, or ``None`` where there is no limit."""
    recorded = budget.metrics.get(Metric.PEAK_FOOTPRINT) if budget is not None else None
    limits = (recorded.limit if recorded is not None else None, declared_bytes)
    known = [limit for limit in limits if limit is not None]
    if not known:
        return None
    return MemoryPlan(root=rootdir, folder=rootdir / OWN_FOLDER / "memory", levels=False, limit_bytes=min(known))


def own_lecture_folder(rootdir: Path, room: str, lecture: str, variant: str = DEFAULT_VARIANT) -> Path:
    """
    Return the folder of one lecture in a subfolder of our own folder, under a name made of the lecture's.

    Each variant has a folder of its own: two of them may run at once.
    """
    with contextlib.suppress(OSError):
        # Whoever writes into it reports it, cell by cell.
        make_own_folder(rootdir)
    title = f"{lecture}-{variant}" if variant else lecture
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", title).strip("._")[-_NAME_CHARS:]
    # Different names may look the same by now.
    digest = hashlib.sha256(title.encode(errors="surrogatepass")).hexdigest()[:8]
    return rootdir / OWN_FOLDER / room / f"{name}-{digest}"
