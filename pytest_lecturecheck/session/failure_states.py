"""The states in which lectures failed, as keys for the memory of failures."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from pytest_lecturecheck.session.fingerprint import Fingerprint, take_fingerprint
from pytest_lecturecheck.session.lecture_reader import PreparedLecture
from pytest_lecturecheck.session.runtime_context import RuntimeContext


class FailureStates:
    """
    Takes fingerprints of lectures before their runs, and keeps the keys of those that failed.

    Args:
        context: what the runners of this process work with.
    """

    def __init__(self, context: RuntimeContext) -> None:
        """Take no fingerprint yet."""
        self._context = context
        self._keys: dict[tuple[str, str], str] = {}

    def fingerprint(self, prepared: PreparedLecture, environment: Mapping[str, str]) -> Fingerprint | None:
        """Return the fingerprint of a lecture before its run, or ``None`` where failures are not remembered."""
        context = self._context
        if not context.memory.is_on:
            return None
        return take_fingerprint(
            prepared.lecture,
            prepared.settings,
            platform=context.results.platform,
            machine=context.machine,
            outputs=frozenset({*context.settings.reports, context.results.budget_file}),
            environment=environment,
        )

    def note(self, lecture: str, variant: str, key: str) -> None:
        """Keep the key of the state in which a lecture, or a cohort that begins with it, failed."""
        self._keys[lecture, variant] = key

    def take(self, lecture: str, variant: str) -> str:
        """Return the key of the state in which a lecture failed, once, or an empty string."""
        return self._keys.pop((lecture, variant), "")


def join_keys(states: Sequence[Fingerprint]) -> str:
    """Return one key for the states of all lectures of a cohort."""
    return hashlib.sha256("\n".join(state.key() for state in states).encode()).hexdigest()
