"""Take from kept sessions what findings are made of: one sample for each run, in groups of equal conditions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.findings.spread import Ratio, Spread, ratio_of, ratio_of_medians, spread_of
from pytest_lecturecheck.model.axis import KERNELS_PART
from pytest_lecturecheck.model.kernel_pass import KernelPass
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.variant import axis_values
from pytest_lecturecheck.verdict import VerdictKind
from pytest_lecturecheck.verdict.kept_session import KeptRun, KeptSession

STEP_VALUE: Final = "step_seconds"
"""The value by which a lecture reports the time of its work alone, without imports and compilation."""
COLD: Final = "cold"
_MOST_PASSES: Final = 1000
_NO_RUN: Final = frozenset({Outcome.SKIPPED, Outcome.UNREADABLE, Outcome.NOTHING_TO_RUN, Outcome.REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """
    What is equal in all samples of a group.

    Attributes:
        platform: platform label.
        lecture: the lecture's name.
        axes: values of the axes, by name, without the number of kernels.
        kernel_count: kernels at once.
        has_gpu: whether the machine had a GPU, or ``None`` where the run does not state its machine.
    """

    platform: str
    lecture: str
    axes: tuple[tuple[str, str], ...] = ()
    kernel_count: int = 1
    has_gpu: bool | None = field(default=None, compare=False)

    def value(self, axis: str) -> str | None:
        """Return the value of an axis, or ``None``."""
        return dict(self.axes).get(axis)

    def without(self, *axes: str) -> Conditions:
        """Return the conditions without some axes."""
        return replace(self, axes=tuple(item for item in self.axes if item[0] not in axes))

    @property
    def device(self) -> str:
        """Return "cpu" or "gpu": what the axis says, else what the machine has, else what the platform's label says."""
        stated = self.value("device")
        # Another value of the axis is the name of a variant.
        return stated if stated in {"cpu", "gpu"} else "gpu" if self.is_gpu_platform else "cpu"

    @property
    def is_gpu_platform(self) -> bool:
        """Return True if the machine has a GPU. A label that a user chose ("c6i.large") does not state it."""
        return not self.platform.endswith("-cpu") if self.has_gpu is None else self.has_gpu

    @property
    def text(self) -> str:
        """Describe axes and kernels in short."""
        parts = [f"{name}={value}" for name, value in self.axes]
        if self.kernel_count > 1:
            parts.append(f"{KERNELS_PART}={self.kernel_count}")
        return ",".join(parts) or "as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """
    One run.

    Attributes:
        session: name of the session.
        kept: the run with its verdict.
        round: number of the run, unique within its conditions: rounds of several sessions follow each other.
    """

    session: str
    kept: KeptRun
    round: int

    @property
    def run(self) -> Run:
        """Return the run."""
        return self.kept.run

    @property
    def is_cold(self) -> bool:
        """Return True if its compile cache was empty at the start."""
        return self.run.launch.compile_cache == COLD

    def value(self, metric: Metric) -> float | None:
        """Return the value of a metric, or ``None``."""
        found = self.run.measured(metric)
        return None if found is None else found.value

    @property
    def step_seconds(self) -> float | None:
        """Return the time of the work: what the lecture reports, else its wall time without compilation."""
        runs = self.run.members or (self.run,)
        reported = [run.reported_values[STEP_VALUE].value for run in runs if STEP_VALUE in run.reported_values]
        if reported:
            return max(reported)
        wall = self.value(Metric.WALL)
        return None if wall is None else max(0.0, wall - (self.value(Metric.COMPILE) or 0.0))

    @property
    def passes(self) -> dict[int, KernelPass]:
        """Return the passes in the same kernel by number; of several kernels at once, the slowest of each number."""
        runs = self.run.members or (self.run,)
        found: dict[int, list[KernelPass]] = {}
        for item in (item for run in runs for item in run.passes):
            found.setdefault(item.number, []).append(item)
        # A number that one of the kernels lacks was not made by all at once.
        return {number: max(items, key=pass_work_seconds) for number, items in found.items() if len(items) == len(runs)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """
    All samples of equal conditions.

    Attributes:
        conditions: what is equal.
        samples: the samples that were run, complete or not.
    """

    conditions: Conditions
    samples: tuple[Sample, ...]

    @property
    def complete(self) -> tuple[Sample, ...]:
        """Return the samples that ran to their end."""
        return tuple(sample for sample in self.samples if sample.kept.speaks)

    @property
    def warm(self) -> tuple[Sample, ...]:
        """Return the complete samples whose compile cache was not empty, or not ours to empty."""
        return tuple(sample for sample in self.complete if not sample.is_cold)

    @property
    def cold(self) -> tuple[Sample, ...]:
        """Return the complete samples whose compile cache was empty."""
        return tuple(sample for sample in self.complete if sample.is_cold)

    @property
    def passes(self) -> tuple[KernelPass, ...]:
        """Return the passes of the complete samples in kernels that had run the lecture before."""
        return tuple(item for sample in self.complete for item in sample.passes.values())

    def work_by_round(self) -> dict[int, float]:
        """Return the time of the work: of passes in one kernel where there are some, else of warm runs."""
        passes = {
            sample.round * _MOST_PASSES + number: pass_work_seconds(item)
            for sample in self.complete
            for number, item in sample.passes.items()
        }
        return passes or self.by_round(lambda sample: sample.step_seconds)

    @property
    def work(self) -> Spread | None:
        """Return the median of the time of the work; passes count by their kernels."""
        found = spread_of(list(self.work_by_round().values()))
        if found is None or not self.passes:
            return found
        return replace(found, kernel_count=sum(bool(sample.passes) for sample in self.complete))

    def by_round(self, value: Callable[[Sample], float | None]) -> dict[int, float]:
        """Return a value of the warm samples by the number of their round."""
        pairs = ((sample.round, value(sample)) for sample in self.warm)
        return {number: found for number, found in pairs if found is not None}

    def spread(self, value: Callable[[Sample], float | None]) -> Spread | None:
        """Return the median of a value over the warm samples."""
        return spread_of(list(self.by_round(value).values()))

    def spread_of_all(self, value: Callable[[Sample], float | None]) -> Spread | None:
        """Return the median of a value over the warm samples, or over the cold ones where all are cold."""
        found = [item for sample in (self.warm or self.complete) if (item := value(sample)) is not None]
        return spread_of(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """
    Everything that was measured.

    Attributes:
        groups: by conditions, in the order in which they were first seen.
        sessions: the sessions.
    """

    groups: Mapping[Conditions, Group] = field(default_factory=dict)
    sessions: tuple[KeptSession, ...] = ()

    @property
    def has_gpu_runs(self) -> bool:
        """Return True if any complete run was made on a GPU."""
        return any(key.device == "gpu" and group.complete for key, group in self.groups.items())

    def pairs(self, axis: str, base: str, other: str) -> Iterator[tuple[Group, Group]]:
        """Yield the groups that differ only in an axis, as (base, other)."""
        for key, group in self.groups.items():
            if key.value(axis) != base:
                continue
            axes = tuple((name, other if name == axis else value) for name, value in key.axes)
            wanted = Conditions(platform=key.platform, lecture=key.lecture, axes=axes, kernel_count=key.kernel_count)
            if wanted in self.groups:
                yield group, self.groups[wanted]

    def families(self, axis: str) -> dict[Conditions, list[Group]]:
        """Return the groups that have an axis, by their conditions without it."""
        found: dict[Conditions, list[Group]] = {}
        for key, group in self.groups.items():
            if key.value(axis) is not None:
                found.setdefault(key.without(axis), []).append(group)
        return found


def work_ratio(base: Group, other: Group) -> Ratio | None:
    """Compare the time of the work of two groups, by the rounds that both have; passes count by their kernels."""
    has_passes = bool(base.passes and other.passes)
    kernel_of = (lambda number: number // _MOST_PASSES) if has_passes else None
    return ratio_of(base.work_by_round(), other.work_by_round(), kernel_of=kernel_of)


def compared_work(base: Group, other: Group) -> Ratio | None:
    """Compare the time of the work of two groups: by rounds where they ran in turn, else by their medians."""
    return work_ratio(base, other) or ratio_of_medians(base.work, other.work)


def pass_work_seconds(item: KernelPass) -> float:
    """Return the time of the work in one pass: what the lecture reports, else its wall time without compilation."""
    reported = [value.value for value in item.reported_values if value.name == STEP_VALUE]
    return reported[-1] if reported else max(0.0, item.wall_seconds - (item.compile_seconds or 0.0))


def measure(sessions: Sequence[KeptSession]) -> Measured:
    """Return the samples of all sessions in groups; runs that were skipped or could not be read are left out."""
    found: dict[Conditions, list[Sample]] = {}
    orders: dict[frozenset[str], tuple[str, ...]] = {}
    for number, session in enumerate(sessions):
        for kept in session.runs:
            if kept.run.outcome in _NO_RUN or kept.verdict.kind is VerdictKind.FAILED_BEFORE:
                continue
            key = _in_common_order(conditions_of(kept.run), orders)
            # Rounds of one session are comparable with each other only.
            sample = Sample(session=session.name, kept=kept, round=number * 100_000 + kept.run.repeat)
            found.setdefault(key, []).append(sample)
    groups = {key: Group(conditions=key, samples=tuple(samples)) for key, samples in found.items()}
    return Measured(groups=groups, sessions=tuple(sessions))


def _in_common_order(conditions: Conditions, orders: dict[frozenset[str], tuple[str, ...]]) -> Conditions:
    """Return conditions with their axes in the order in which the first session stated them; others may differ."""
    names = tuple(name for name, _ in conditions.axes)
    order = orders.setdefault(frozenset(names), names)
    values = dict(conditions.axes)
    return replace(conditions, axes=tuple((name, values[name]) for name in order))


def conditions_of(run: Run) -> Conditions:
    """Return the conditions of a run, from its platform and the name of its variant."""
    axes = axis_values(run.variant)
    axes.pop(KERNELS_PART, None)
    unnamed = [part for part in run.variant.split(",") if part and "=" not in part]
    if unnamed:
        axes = {"variant": unnamed[0], **axes}
    machine = run.speaker.machine
    return Conditions(
        platform=run.platform,
        lecture=run.lecture,
        axes=tuple(axes.items()),
        kernel_count=max(1, len(run.members)),
        has_gpu=None if machine is None else bool(machine.accelerators),
    )


def size_of(conditions: Conditions, axis: str = "size") -> float | None:
    """Return the value of an axis as a number of more than zero, or ``None``."""
    try:
        size = float(conditions.value(axis) or "")
    except ValueError:
        return None
    return size if 0 < size < float("inf") else None


def count_runs(groups: Iterable[Group]) -> str:
    """Describe how many runs and sessions groups rest on."""
    listed = list(groups)
    runs = sum(len(group.samples) for group in listed)
    passes = sum(len(group.passes) for group in listed)
    sessions = {sample.session for group in listed for sample in group.samples}
    again = f" and {passes} passes in their kernels," if passes else ""
    return f"{runs} run{'' if runs == 1 else 's'}{again} of {len(sessions)} session{'' if len(sessions) == 1 else 's'}"
