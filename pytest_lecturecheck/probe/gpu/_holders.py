"""Who else held memory of a device while a run lasted. Pure, but for asking what is known of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from pytest_lecturecheck.model.device import DeviceHolder, HolderKind
from pytest_lecturecheck.probe.gpu._processes import ProcessFacts
from pytest_lecturecheck.probe.gpu._readings import ProcessUse


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """
    A run of this process that is over.

    Attributes:
        seconds: when it ended, on the clock of the readings.
        kernel_pid: process id of its kernel.
        was_killed: its kernel did not end by itself.
    """

    seconds: float
    kernel_pid: int
    was_killed: bool = False


class KnownRuns(Protocol):
    """The runs of this process, by token."""

    @property
    def open_tokens(self) -> AbstractSet[str]:
        """Give the tokens of the runs under way."""

    @property
    def ended_runs(self) -> Mapping[str, EndedRun]:
        """Give the runs that are over."""


@dataclass(slots=True, kw_only=True)
class _Seen:
    used_bytes: int | None
    was_there_first: bool
    kind: HolderKind
    lecture: str
    ended: EndedRun | None


def kind_of(facts: ProcessFacts, runs: KnownRuns) -> HolderKind:
    """
    Tell what the process is to a run that it does not belong to.

    Of runs of this process that is known. A process of another session's run has outlived it where its parent is gone,
    or where it is dead itself and its memory is still held.
    """
    if not facts.token:
        return HolderKind.FOREIGN
    if facts.token in runs.open_tokens:
        return HolderKind.RUNNING_LECTURE
    is_over = facts.token in runs.ended_runs or facts.is_orphan or not facts.is_there
    return HolderKind.ENDED_LECTURE if is_over else HolderKind.RUNNING_LECTURE


class Holders:
    """
    The other holders of one device.

    Args:
        facts: gives what is known of a process.
        runs: the runs of this process.
        token: the run's own token.
        start_seconds: when the run began, on the clock of the readings.
    """

    def __init__(
        self, facts: Callable[[int], ProcessFacts], runs: KnownRuns, *, token: str, start_seconds: float
    ) -> None:
        self._facts = facts
        self._runs = runs
        self._token = token
        self._start_seconds = start_seconds
        self._seen: dict[int, _Seen] = {}

    def add(self, others: Iterable[ProcessUse], *, was_there_first: bool) -> None:
        """Take in who holds memory at one moment; those listed with 0 bytes hold none."""
        for process in others:
            if process.used_bytes == 0:
                continue
            facts = self._facts(process.pid)
            is_clash = facts.token == self._token
            kind = HolderKind.FOREIGN if is_clash else kind_of(facts, self._runs)
            seen = self._seen.setdefault(
                process.pid,
                _Seen(
                    used_bytes=None,
                    was_there_first=was_there_first,
                    kind=kind,
                    lecture="",
                    ended=None,
                ),
            )
            if process.used_bytes is not None:
                seen.used_bytes = max(process.used_bytes, seen.used_bytes or 0)
            seen.kind = kind
            seen.lecture = "" if is_clash else facts.lecture
            seen.ended = self._runs.ended_runs.get(facts.token) if kind is HolderKind.ENDED_LECTURE else None

    def _ended_seconds(self, ended: EndedRun | None) -> float | None:
        return None if ended is None or ended.seconds > self._start_seconds else self._start_seconds - ended.seconds

    def all(self) -> tuple[DeviceHolder, ...]:
        """Give the holders, those that held most first."""
        found = [
            DeviceHolder(
                pid=pid,
                used_bytes=seen.used_bytes,
                kind=seen.kind,
                lecture=seen.lecture,
                was_there_first=seen.was_there_first,
                ended_seconds=self._ended_seconds(seen.ended),
                was_killed=seen.ended is not None and seen.ended.was_killed and seen.ended.kernel_pid == pid,
            )
            for pid, seen in self._seen.items()
        ]
        return tuple(sorted(found, key=lambda holder: (-(holder.used_bytes or 0), holder.pid)))
