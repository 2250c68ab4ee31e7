"""Report that a lecture, or a cohort, waits for room on the machine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_lecturecheck.kernel.run.ports import RunProgress
from pytest_lecturecheck.model.variant import title_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_lecturecheck.model.lecture import Lecture
    from pytest_lecturecheck.session.runtime_context import RuntimeContext


def waiting_reporter(context: RuntimeContext, lecture: Lecture, variant: str) -> Callable[[str, float], None]:
    """Return what reports the reason for waiting and the seconds so far, to the journal and to whoever watches."""
    return partial(_report, context, lecture, variant)


def _report(context: RuntimeContext, lecture: Lecture, variant: str, reason: str, seconds: float) -> None:
    context.journal.wait(lecture.name, reason, variant=variant)
    progress = RunProgress(
        lecture=title_of(lecture.name, variant),
        number=0,
        total=len(lecture.cells),
        elapsed_seconds=seconds,
        snapshot=None,
        waits_for=reason,
    )
    context.progress.note(progress)
    context.progress.show()
