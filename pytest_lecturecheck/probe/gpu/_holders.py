"""The other holders of a device's memory during a run. Pure, except for looking up processes through a port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.device import DeviceHolder, HolderKind
from pytest_lecturecheck.probe.gpu._processes import ProcessFacts
from pytest_lecturecheck.probe.gpu._readings import ProcessUse


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """
    A run of this process that has ended.

    Attributes:
        seconds: when it ended, on the clock of the readings.
        kernel_pid: process id of its kernel.
        was_killed: whether its kernel was killed.
    """

    seconds: float
    kernel_pid: int
    was_killed: bool = False


class KnownRuns(Protocol):
    """The runs of this process, by token."""

    @property
    def open_tokens(self) -> AbstractSet[str]:
        """Return the tokens of the runs in progress."""

    @property
    def ended_runs(self) -> Mapping[str, EndedRun]:
        """Return the runs that have ended."""


@dataclass(slots=True, kw_only=True)
class _Holder:
    used_bytes: int | None
    was_there_first: bool
    kind: HolderKind
    lecture: str
    ended: EndedRun | None


def kind_of(facts: ProcessFacts, runs: KnownRuns) -> HolderKind:
    """
    Classify a process that does not belong to the run.

    For runs of this pytest process the answer is known. A process of another session's run has outlived that run if it
    was orphaned, or if it is dead itself and its memory is still in use.
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
        facts: looks up a process.
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
        self._found: dict[int, _Holder] = {}

    def add(self, others: Iterable[ProcessUse], *, was_there_first: bool) -> None:
        """Add the holders at one moment; processes listed with 0 bytes hold no memory."""
        for process in others:
            if process.used_bytes == 0:
                continue
            facts = self._facts(process.pid)
            is_clash = facts.token == self._token
            kind = HolderKind.FOREIGN if is_clash else kind_of(facts, self._runs)
            holder = self._found.setdefault(
                process.pid,
                _Holder(
                    used_bytes=None,
                    was_there_first=was_there_first,
                    kind=kind,
                    lecture="",
                    ended=None,
                ),
            )
            if process.used_bytes is not None:
                holder.used_bytes = max(process.used_bytes, holder.used_bytes or 0)
            holder.kind = kind
            holder.lecture = "" if is_clash else facts.lecture
            holder.ended = self._runs.ended_runs.get(facts.token) if kind is HolderKind.ENDED_LECTURE else None

    def _ended_seconds(self, ended: EndedRun | None) -> float | None:
        return None if ended is None or ended.seconds > self._start_seconds else self._start_seconds - ended.seconds

    def all(self) -> tuple[DeviceHolder, ...]:
        """Return the holders, largest first."""
        found = [
            DeviceHolder(
                pid=pid,
                used_bytes=holder.used_bytes,
                kind=holder.kind,
                lecture=holder.lecture,
                was_there_first=holder.was_there_first,
                ended_seconds=self._ended_seconds(holder.ended),
                was_killed=holder.ended is not None and holder.ended.was_killed and holder.ended.kernel_pid == pid,
            )
            for pid, holder in self._found.items()
        ]
        return tuple(sorted(found, key=lambda item: (-(item.used_bytes or 0), item.pid)))
