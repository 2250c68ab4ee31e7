"""What the runners of lectures and of cohorts share: kernels, states of failures, and caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.session.book_caching import BookCaching
from pytest_lecturecheck.session.compile_caches import CompileCaches
from pytest_lecturecheck.session.failure_states import FailureStates
from pytest_lecturecheck.session.workbench import Workbench


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerParts:
    """
    What both kinds of runners use.

    Attributes:
        states: keeps the states in which lectures failed.
        caches: folders for compiled programs.
        caching: keeps what enters the book's cache.
        open_workbench: returns what runs kernels; called when the first kernel is needed.
    """

    states: FailureStates
    caches: CompileCaches
    caching: BookCaching
    open_workbench: Callable[[], Workbench]

    def compile_cache(self, settings: SessionSettings, lecture: str, variant: str) -> tuple[dict[str, str], str]:
        """
        Return variables for the kernel of the next run, and the state of its compile cache; empty for none of ours.

        Args:
            settings: the session's settings.
            lecture: the lecture's name.
            variant: the name of its variant or cohort; one that is run several times begins with an empty cache.
        """
        is_fresh = settings.has_fresh_compile_cache
        if is_fresh is None:
            is_fresh = bool(variant) and settings.run_count > 1
        return self.caches.variables(lecture, variant) if is_fresh else ({}, "")


def with_compile_cache(run: Run, state: str) -> Run:
    """Return the record of a run, and those of its members, with the state of the compile cache at its start."""
    if not state:
        return run
    members = tuple(with_compile_cache(member, state) for member in run.members)
    return replace(run, launch=replace(run.launch, compile_cache=state), members=members)
