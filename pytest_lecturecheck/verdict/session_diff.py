"""Comparison of two sides, lecture by lecture: two sessions, or a session and a budget file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from pytest_lecturecheck.budget.limits import PlatformBudgets
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.manifest import Fact
from pytest_lecturecheck.model.metric import Method, Metric, Unit
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.units import MIB, format_size
from pytest_lecturecheck.verdict.kept_session import KeptRun, KeptSession, Subject

COMPARED: Final = (Metric.PEAK_FOOTPRINT, Metric.WALL, Metric.GPU_LIVE, Metric.COMPILE)
_SLACK: Final = {Unit.BYTES: 16 * MIB, Unit.SECONDS: 1.0, Unit.COUNT: 0}
"""Smaller differences are ignored whatever their ratio: 0.01 s easily becomes 0.03 s."""
_SAME_MEMORY_FRACTION: Final = 0.01
_ABSENT: Final = "absent"
_UNSET: Final = "unset"


@dataclass(frozen=True, slots=True, kw_only=True)
class SideValue:
    """
    The highest value of a metric on one side.

    Attributes:
        value: the value.
        method: how it was measured, or ``None`` if that is unknown.
        is_shared: other lectures ran at the same time, so that times are not comparable.
    """

    value: float
    method: Method | None = None
    is_shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SideLecture:
    """
    One lecture x variant on one side.

    Attributes:
        values: its values by metric; empty if no run completed.
        verdict: how it ended ("within", "died"), or "recorded" in a budget file.
        machine: the machine it was measured on, or ``None``.
        software: the software it was measured with, or ``None``.
        facts: of its manifest, by name.
        run: the run that speaks for it: the first that failed, otherwise the one with the highest peak; ``None`` in a
            budget file.
    """

    values: Mapping[Metric, SideValue] = field(default_factory=dict)
    verdict: str = ""
    machine: Machine | None = None
    software: Software | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    run: Run | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two sides: its title, its platform, and its lectures."""

    title: str
    platform: str
    lectures: Mapping[Subject, SideLecture]

    def only(self, lecture: str) -> Side:
        """Return the side with one lecture only, which is named by its path or the end of it."""
        end = f"/{lecture.removeprefix('./')}"
        return replace(self, lectures={key: side for key, side in self.lectures.items() if f"/{key[0]}".endswith(end)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """
    One metric of one lecture on both sides.

    Attributes:
        metric: the quantity.
        before: the value of the first side, or ``None``.
        after: the value of the second side, or ``None``.
        reason: why the two are not compared, or an empty string.
        counts: whether the ratio describes the lecture. Times of different machines do not, nor do times of runs
            that shared the machine.
    """

    metric: Metric
    before: SideValue | None
    after: SideValue | None
    reason: str = ""
    counts: bool = True

    @property
    def value(self) -> float | None:
        """Return after / before, or ``None`` if the two are not compared."""
        if self.before is None or self.after is None or self.reason or self.before.value <= 0:
            return None
        return self.after.value / self.before.value

    def exceeds(self, most: float) -> bool:
        """Return True if the value grew by more than the factor ``most`` and by more than the usual scatter."""
        if self.value is None or self.before is None or self.after is None or not self.counts:
            return False
        return self.value > most and self.after.value - self.before.value > _SLACK[self.metric.unit]

    @property
    def size(self) -> float:
        """Return the size of the change in either direction; differences within the usual scatter weigh little."""
        if self.value is None or self.before is None or self.after is None or self.value <= 0:
            return 0.0
        change = abs(math.log(self.value))
        return change if abs(self.after.value - self.before.value) > _SLACK[self.metric.unit] else change / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One lecture x variant on both sides; a side without the lecture is ``None``."""

    subject: Subject
    before: SideLecture | None
    after: SideLecture | None
    ratios: tuple[Ratio, ...] = ()

    @property
    def size(self) -> float:
        """Return the largest change of its values."""
        return max((ratio.size for ratio in self.ratios), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference of environment ("CPU", "numpy") with its value on each side."""

    name: str
    before: str
    after: str


def side_of_session(session: KeptSession, title: str) -> Side:
    """Return a session as a side, with the highest values of repeated runs, as in budgets."""
    by_subject: dict[Subject, list[KeptRun]] = {}
    for kept in session.runs:
        by_subject.setdefault(kept.subject, []).append(kept)
    lectures = {subject: _lecture_of_runs(runs) for subject, runs in by_subject.items()}
    return Side(title=title, platform=session.platform, lectures=lectures)


def _lecture_of_runs(runs: Sequence[KeptRun]) -> SideLecture:
    values: dict[Metric, SideValue] = {}
    for kept in (kept for kept in runs if kept.speaks):
        for metric in COMPARED:
            found = kept.run.measured(metric)
            if found is not None and (metric not in values or found.value > values[metric].value):
                values[metric] = SideValue(
                    value=found.value, method=found.method, is_shared=bool(kept.run.concurrent_lectures)
                )
    decisive = next((kept for kept in runs if kept.verdict.failed), runs[-1])
    return SideLecture(
        values=values,
        verdict=decisive.verdict.kind.value,
        machine=decisive.run.machine,
        software=decisive.run.software,
        facts=facts_of(decisive.run),
        run=_telling_run(runs),
    )


def facts_of(run: Run) -> dict[str, str]:
    """Return what a run's manifest states in one text each, but for what its machine and software state as well."""
    facts = run.manifest.facts if run.manifest is not None else {}
    return {name: text for name, text in facts.items() if name not in _STATED_ELSEWHERE}


def _telling_run(runs: Sequence[KeptRun]) -> Run | None:
    """Return the run whose cells are compared; runs that another session made or that were traced are not."""
    own = [kept for kept in runs if kept.run.cell_run_count and kept.run.is_comparable and not kept.run.members]
    ended_badly = next((kept.run for kept in own if not kept.is_complete), None)
    highest = max(own, key=lambda kept: _peak(kept.run), default=None)
    return ended_badly or (highest.run if highest is not None else None)


def _peak(run: Run) -> float:
    found = run.measured(Metric.PEAK_FOOTPRINT)
    return found.value if found is not None else 0.0


def side_of_budgets(budgets: PlatformBudgets, title: str) -> Side:
    """Return a budget file as a side, with its recorded values rather than its limits."""
    lectures = {}
    for subject, budget in budgets.lectures.items():
        values = {
            metric: SideValue(value=max(found.seen), method=found.method)
            for metric in COMPARED
            if (found := budget.metrics.get(metric)) is not None and found.seen
        }
        lectures[subject] = SideLecture(
            values=values, verdict="recorded", machine=budget.machine, software=budget.software
        )
    return Side(title=title, platform=budgets.platform, lectures=lectures)


def compare_sides(before: Side, after: Side) -> tuple[Pair, ...]:
    """Pair the lectures of both sides: those that changed most first, then those that only one side has."""
    pairs = [
        _pair(subject, before.lectures.get(subject), after.lectures.get(subject))
        for subject in {**before.lectures, **after.lectures}
    ]
    return tuple(sorted(pairs, key=lambda pair: (pair.before is None or pair.after is None, -pair.size, pair.subject)))


def _pair(subject: Subject, before: SideLecture | None, after: SideLecture | None) -> Pair:
    if before is None or after is None:
        return Pair(subject=subject, before=before, after=after)
    ratios = tuple(_ratio(metric, before, after) for metric in COMPARED)
    return Pair(subject=subject, before=before, after=after, ratios=ratios)


def _ratio(metric: Metric, before: SideLecture, after: SideLecture) -> Ratio:
    first, second = before.values.get(metric), after.values.get(metric)
    reason = ""
    if first is not None and second is not None and first.method is not second.method:
        # A lower bound and an exact value are different quantities.
        reason = f"{_word(first.method)} and {_word(second.method)}"
    is_alone = not any(value.is_shared for value in (first, second) if value is not None)
    counts = metric.unit is not Unit.SECONDS or (is_alone and _time_class(before) == _time_class(after))
    return Ratio(metric=metric, before=first, after=second, reason=reason, counts=counts)


def _word(method: Method | None) -> str:
    return method.value if method is not None else "of unknown method"


def _time_class(side: SideLecture) -> object:
    return side.machine.time_class if side.machine is not None else None


def differences(before: Side, after: Side) -> tuple[Difference, ...]:
    """
    Return differences of platform, machine and versions, over the lectures that both sides have.

    A fact that is unknown on one side is no difference.
    """
    common = [subject for subject in before.lectures if subject in after.lectures]
    sides = [[side.lectures[subject] for subject in common] for side in (before, after)]
    platform = Difference(name="platform", before=before.platform, after=after.platform)
    rows = [platform, *_machine_rows(*sides), *_software_rows(*sides), *_fact_rows(*sides)]
    return tuple(row for row in rows if row.before and row.after and row.before != row.after)


def _machine_rows(before: Iterable[SideLecture], after: Iterable[SideLecture]) -> Iterator[Difference]:
    first = [side.machine for side in before if side.machine is not None]
    second = [side.machine for side in after if side.machine is not None]
    for name, text_of in _MACHINE_TEXTS.items():
        yield Difference(name=name, before=_joined(map(text_of, first)), after=_joined(map(text_of, second)))
    memory = [{machine.usable_memory_bytes for machine in machines} for machines in (first, second)]
    if first and second and not _same_memory(*memory):
        texts = [_joined(format_size(size) for size in sorted(sizes)) for sizes in memory]
        yield Difference(name="memory", before=texts[0], after=texts[1])


def _same_memory(first: set[int], second: set[int]) -> bool:
    # Budget files keep four digits, and the memory of a machine varies slightly with its firmware.
    sizes = first | second
    return max(sizes) - min(sizes) <= _SAME_MEMORY_FRACTION * max(sizes)


def _fact_rows(before: Sequence[SideLecture], after: Sequence[SideLecture]) -> Iterator[Difference]:
    for fact in (fact for fact in Fact if fact not in _BLAS_FACTS):
        texts = [_joined(side.facts.get(fact.value, "") for side in sides) for sides in (before, after)]
        yield Difference(name=fact.value, before=texts[0], after=texts[1])


_BLAS_FACTS: Final = frozenset(
    {Fact.NUMPY_BLAS, Fact.NUMPY_LAPACK, Fact.SCIPY_BLAS, Fact.SCIPY_LAPACK, Fact.LOADED_BLAS}
)
"""They have one row together, "BLAS"."""
_STATED_ELSEWHERE: Final = frozenset({Fact.PYTHON.value, Fact.HUGE_PAGES.value})
_MACHINE_TEXTS: Final = {
    "OS": lambda machine: machine.system,
    "architecture": lambda machine: machine.architecture,
    "CPU": lambda machine: machine.cpu,
    "cores": lambda machine: str(machine.core_count),
    "huge pages": lambda machine: machine.transparent_hugepages or "",
    "GPUs": lambda machine: ", ".join(machine.accelerators) or "none",
    "GPU driver": lambda machine: machine.driver or "",
    "CUDA": lambda machine: machine.cuda or "",
}


def _software_rows(before: Iterable[SideLecture], after: Iterable[SideLecture]) -> Iterator[Difference]:
    first = [side.software for side in before if side.software is not None]
    second = [side.software for side in after if side.software is not None]
    if not first or not second:
        return
    pythons = [_joined(software.python for software in side) for side in (first, second)]
    yield Difference(name="Python", before=pythons[0], after=pythons[1])
    libraries = [_joined(line for software in side for line in software.blas) for side in (first, second)]
    yield Difference(name="BLAS", before=libraries[0], after=libraries[1])
    values = [
        {name: value for software in side for name, value in software.variables.items()} for side in (first, second)
    ]
    for name in sorted({*values[0], *values[1]}):
        yield Difference(name=name, before=values[0].get(name, _UNSET), after=values[1].get(name, _UNSET))
    versions = [_versions(side) for side in (first, second)]
    for name in sorted({*versions[0], *versions[1]}):
        yield Difference(name=name, before=versions[0].get(name, _ABSENT), after=versions[1].get(name, _ABSENT))


def _versions(side: Iterable[Software]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for software in side:
        for name, version in software.packages.items():
            found.setdefault(name, set()).add(version)
    return {name: _joined(versions) for name, versions in found.items()}


def _joined(texts: Iterable[str]) -> str:
    return " / ".join(sorted({text for text in texts if text}))
