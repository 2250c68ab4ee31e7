"""
Interleave the runs of a lecture's variants (A B A B), so that a machine that slows down slows all of them alike.

The first of the items runs them all, and the others find their entries made. Only without workers and without a time
limit of another plugin: a worker does not know which variants it gets, and a limit is that of one item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.plugin.xdist import is_worker

if TYPE_CHECKING:
    from pytest_lecturecheck.plugin.nodes import LectureItem


def interleaved_items(item: LectureItem, selected: Sequence[LectureItem], run_count: int) -> Sequence[LectureItem]:
    """
    Return the items whose runs alternate with those of ``item``, itself among them; empty where none do.

    Args:
        item: the item that is about to run.
        selected: the lecture's items in the order in which they run.
        run_count: runs of each item.
    """
    if run_count < 2 or len(selected) < 2 or is_worker(item.config):  # noqa: PLR2004 - nothing to alternate
        return ()
    if any(one.limit is not None for one in selected):
        return ()
    return selected


def run_interleaved(items: Sequence[LectureItem], run_count: int) -> None:
    """Run each item once, then each a second time, and so on; an item whose run failed ends early."""
    running = [item for item in items if _is_ready(item)]
    for repeat in range(1, run_count + 1):
        running = [item for item in running if item.run_repeat(repeat)]


def _is_ready(item: LectureItem) -> bool:
    """Prepare an item before its turn; one that is skipped or cannot be read says so when its turn comes."""
    try:
        return item.prepare()[1] == ""
    except LectureCheckError:
        return False
