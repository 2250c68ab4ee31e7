"""From the runs of a cohort's kernels to one record of the cohort. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from pytest_lecturecheck.model.cohort import CohortRun, CohortSpec, PeakOfSum, peak_of_sum
from pytest_lecturecheck.model.device import DeviceHolder, DeviceUse, HolderKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Reading, Unavailable
from pytest_lecturecheck.model.run import Outcome, Run

_WORST_FIRST: Final = (
    Outcome.DIED,
    Outcome.NOT_STARTED,
    Outcome.TIMED_OUT,
    Outcome.FAILED,
    Outcome.REFUSED,
    Outcome.STOPPED,
    Outcome.UNREADABLE,
    Outcome.SKIPPED,
    Outcome.NOTHING_TO_RUN,
    Outcome.COMPLETED,
)
_SUMMED: Final = (
    Metric.CPU,
    Metric.COMPILE,
    Metric.DISK_WRITTEN,
    Metric.DISK_READ,
    Metric.READ_CALLS,
    Metric.MAJOR_FAULTS,
)
_ALLOCATED: Final = (Metric.GPU_LIVE, Metric.GPU_POOL)
_USUAL_INTERVAL_SECONDS: Final = 0.08
_SUM_SOURCE: Final = "the kernels together"
_Number = TypeVar("_Number", int, float)


def member_labels(lectures: Sequence[str]) -> tuple[str, ...]:
    """Return the names that distinguish the kernels of a cohort (``kernel 2 of 3 of a.md``)."""
    counts = Counter(lectures)
    counted: Counter[str] = Counter()
    labels = []
    for lecture in lectures:
        counted[lecture] += 1
        is_only = counts[lecture] == 1
        labels.append(lecture if is_only else f"kernel {counted[lecture]} of {counts[lecture]} of {lecture}")
    return tuple(labels)


def spec_of(run: Run) -> CohortSpec:
    """Return what was to run at once, as the record of a cohort or of a single kernel states it."""
    return CohortSpec(name=run.variant, lectures=tuple(member.lecture for member in run.members or (run,)))


def is_cohort(run: Run) -> bool:
    """Return True if the record is that of a cohort, also where none of its kernels started."""
    return bool(run.members) or CohortSpec(name=run.variant, lectures=(run.lecture,)).is_repeat


def cohort_of(run: Run) -> CohortRun:
    """Return a record as a cohort; a lecture that ran alone is a cohort of one kernel."""
    return CohortRun(spec=spec_of(run), members=run.members or (run,))


def start_skew_seconds(run: Run) -> float | None:
    """Return the time between the first and the last start of a first cell, or ``None`` if fewer than two started."""
    starts = [item.first_cell_seconds for item in run.members if item.first_cell_seconds is not None]
    return max(starts) - min(starts) if len(starts) > 1 else None


def join_runs(
    spec: CohortSpec,
    members: Sequence[Run],
    *,
    wall_seconds: float | None,
    together: PeakOfSum | None,
    interval_seconds: float,
    device_starts_seconds: Sequence[float],
) -> Run:
    """
    Make one record of the kernels of a cohort.

    Args:
        spec: what ran at once.
        members: the runs, in the order of the spec, with :attr:`~pytest_lecturecheck.model.run.Run.first_cell_seconds`.
        wall_seconds: from the common start to the last end, or ``None`` where nothing started.
        together: the most memory that all held at once, from samples.
        interval_seconds: time between two of these samples.
        device_starts_seconds: when the devices' timelines of each run begin, on one clock.
    """
    worst = min(members, key=lambda run: (_WORST_FIRST.index(run.outcome), _end_seconds(run)))
    is_bad = worst.outcome is not Outcome.COMPLETED
    devices = _join_devices(members, device_starts_seconds)
    readings = dict(_readings(members, wall_seconds, together, interval_seconds))
    used = _most_used(devices)
    if used is not None:
        readings[Metric.GPU_USED] = used
    first = members[0]
    return replace(
        first,
        variant=spec.name,
        outcome=worst.outcome,
        reason=worst.reason,
        cells=worst.cells if is_bad else (),
        evidence=worst.evidence,
        readings=readings,
        findings=tuple(dict.fromkeys(finding for run in members for finding in run.findings)),
        launch=replace(
            first.launch,
            started=min(run.launch.started for run in members),
            startup_seconds=_highest([run.launch.startup_seconds for run in members]),
        ),
        conditions=replace(first.conditions, load_average=_highest([run.conditions.load_average for run in members])),
        manifest=next((run.manifest for run in members if run.manifest is not None), None),
        software=next((run.software for run in members if run.software is not None), None),
        devices=devices,
        timeline=(),
        members=tuple(members),
        first_cell_seconds=None,
        passes=(),
    )


def _end_seconds(run: Run) -> float:
    """Return when the last cell of a run ended; runs of a cohort begin together."""
    return max((cell.ended_seconds for cell in run.cells if cell.ended_seconds is not None), default=0.0)


# -- readings ---------------------------------------------------------------------------------------------------------


def _readings(
    members: Sequence[Run], wall_seconds: float | None, together: PeakOfSum | None, interval_seconds: float
) -> Iterator[tuple[Metric, Reading]]:
    yield Metric.PEAK_FOOTPRINT, _footprint(members, together, interval_seconds)
    if wall_seconds is None:
        yield Metric.WALL, Unavailable(metric=Metric.WALL, reason="no kernel came to its first cell")
    else:
        source = "from the common start to the last end"
        yield Metric.WALL, Measurement(metric=Metric.WALL, value=wall_seconds, method=Method.EXACT, source=source)
    for metric in _SUMMED:
        yield from _sum(metric, members)
    for metric in _ALLOCATED:
        yield from _sum_of_peaks(metric, members)


def _footprint(members: Sequence[Run], together: PeakOfSum | None, interval_seconds: float) -> Reading:
    """Return what all held at once: at least any sample or single peak, at most the sum of the peaks."""
    metric = Metric.PEAK_FOOTPRINT
    known = _measured(metric, members)
    lows = [item.value for item in known] + ([float(together.total_bytes)] if together is not None else [])
    if not lows:
        return Unavailable(metric=metric, reason="no kernel was measured")
    return _bounded(metric, max(lows), _sum_of_highs(known, members), interval_seconds)


def _sum_of_peaks(metric: Metric, members: Sequence[Run]) -> Iterator[tuple[Metric, Reading]]:
    """Bound what was live at once: the highest of all, and the sum of all."""
    known = _measured(metric, members)
    if known:
        low, high = max(item.value for item in known), _sum_of_highs(known, members)
        yield metric, _bounded(metric, low, high, None)


def _bounded(metric: Metric, low: float, high: float | None, interval_seconds: float | None) -> Measurement:
    if high is None:
        method = Method.SAMPLED
    elif high > low:
        method = Method.BRACKET
    else:
        # A single one, or all but one with nothing.
        method, high = Method.EXACT if interval_seconds is not None else Method.AGENT, None
    return Measurement(
        metric=metric, value=low, method=method, high=high, interval_seconds=interval_seconds, source=_SUM_SOURCE
    )


def _sum_of_highs(known: Sequence[Measurement], members: Sequence[Run]) -> float | None:
    """Return the sum of the upper ends, or ``None`` if one is unknown or a kernel that ran was not measured."""
    highs = [item.upper_bound for item in known]
    ran = [run for run in members if run.cell_run_count]
    return sum(high for high in highs if high is not None) if None not in highs and len(known) >= len(ran) else None


def _sum(metric: Metric, members: Sequence[Run]) -> Iterator[tuple[Metric, Reading]]:
    known = _measured(metric, members)
    if known:
        is_exact = all(item.method is Method.EXACT for item in known)
        method = Method.EXACT if is_exact else known[0].method if len({item.method for item in known}) == 1 else None
        yield (
            metric,
            Measurement(
                metric=metric,
                value=sum(item.value for item in known),
                method=method or Method.SAMPLED,
                source=_SUM_SOURCE,
            ),
        )


def _measured(metric: Metric, members: Iterable[Run]) -> list[Measurement]:
    return [found for run in members if (found := run.measured(metric)) is not None]


# -- devices ----------------------------------------------------------------------------------------------------------


def _join_devices(members: Sequence[Run], starts_seconds: Sequence[float]) -> tuple[DeviceUse, ...]:
    uses: dict[tuple[int, str], list[tuple[float, DeviceUse]]] = {}
    for run, start in zip(members, starts_seconds, strict=True):
        for use in run.devices:
            uses.setdefault((use.device.index, use.device.uuid), []).append((start, use))
    labels = frozenset(member_labels([run.lecture for run in members]))
    return tuple(_join_device(found, labels) for found in uses.values())


def _join_device(found: Sequence[tuple[float, DeviceUse]], labels: frozenset[str]) -> DeviceUse:
    uses = [use for _, use in found]
    holders = {
        holder.pid: holder
        for use in uses
        for holder in use.holders
        if not (holder.lecture in labels and _ran_beside(holder))
    }
    leftovers = {holder.pid: holder for use in uses for holder in use.leftovers}
    return DeviceUse(
        device=uses[0].device,
        used=_used_together(found),
        before_bytes=uses[0].before_bytes,
        # The run that was torn down last read it without the others.
        after_bytes=min((use.after_bytes for use in uses if use.after_bytes is not None), default=None),
        peak_used_bytes=_highest([use.peak_used_bytes for use in uses]),
        is_shared=bool(holders),
        is_reserved=any(use.is_reserved for use in uses),
        peak_utilisation_fraction=max(
            (use.peak_utilisation_fraction for use in uses if use.peak_utilisation_fraction is not None), default=None
        ),
        holders=_sorted(holders),
        leftovers=_sorted(leftovers),
        interval_seconds=uses[0].interval_seconds,
    )


def _ran_beside(holder: DeviceHolder) -> bool:
    """Return True if the holder's lecture was running when the run began; one of an earlier repeat was not."""
    if holder.kind is HolderKind.ENDED_LECTURE:
        return holder.ended_seconds is None or holder.ended_seconds < 0
    return holder.kind is HolderKind.RUNNING_LECTURE


def _sorted(holders: Mapping[int, DeviceHolder]) -> tuple[DeviceHolder, ...]:
    return tuple(holders[pid] for pid in sorted(holders))


def _used_together(found: Sequence[tuple[float, DeviceUse]]) -> Reading:
    """
    Return the most that all kernels held of a device at once.

    If their processes can be distinguished, the peak of the sum of their timelines; these are thinned in long runs, so
    that a peak may seem to last: never more than was in use on the device. Elsewhere the rise of the device bounds all
    of them together.
    """
    known = [use.used for _, use in found if isinstance(use.used, Measurement)]
    if len(known) < len(found):
        return next(use.used for _, use in found if not isinstance(use.used, Measurement))
    low = max(item.value for item in known)
    if any(item.method is Method.BRACKET for item in known):
        highs = [item.upper_bound for item in known if item.upper_bound is not None]
        return replace(known[0], value=low, method=Method.BRACKET, high=max([low, *highs]))
    series = [_series(start, use) for start, use in found]
    peak, most = peak_of_sum(series), _highest([use.peak_used_bytes for _, use in found])
    total = peak.total_bytes if peak is not None else 0
    return replace(known[0], value=max(low, total if most is None else min(total, most)))


def _series(start_seconds: float, use: DeviceUse) -> list[tuple[float, int]]:
    """Return what a run held of a device as steps; the last sample holds until the next one would have been taken."""
    steps = [(start_seconds + sample.seconds, sample.run_bytes or 0) for sample in use.timeline]
    if steps:
        steps.append((steps[-1][0] + (use.interval_seconds or _USUAL_INTERVAL_SECONDS), 0))
    return steps


def _most_used(devices: Sequence[DeviceUse]) -> Reading | None:
    """Choose the device where the kernels held most."""
    measured = [use.used for use in devices if isinstance(use.used, Measurement)]
    best = max(measured, key=lambda item: (item.value, item.upper_bound or 0), default=None)
    return best if best is not None else devices[0].used if devices else None


def _highest(values: Iterable[_Number | None]) -> _Number | None:
    return max((value for value in values if value is not None), default=None)
