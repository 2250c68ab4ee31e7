"""Questions 3, 5 and 7: safe concurrency, the environment and its compile cache, and how a bad cell fails. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.findings.document import KeyValue, Section, Table
from pytest_lecturecheck.findings.measured import Conditions, Group, Measured, Sample, count_runs
from pytest_lecturecheck.findings.spread import Spread, spread_of
from pytest_lecturecheck.model.cohort import safe_concurrency
from pytest_lecturecheck.model.cohort_record import cohort_of
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.units import format_duration, format_size
from pytest_lecturecheck.verdict import VerdictKind

_NO_VALUE: Final = "-"
_BAD_ENDS: Final = (Outcome.FAILED, Outcome.DIED, Outcome.TIMED_OUT)


def _wall(sample: Sample) -> float | None:
    return sample.value(Metric.WALL)


def _duration(spread: Spread | None) -> str:
    return _NO_VALUE if spread is None else format_duration(spread.median)


def _size(spread: Spread | None) -> str:
    return _NO_VALUE if spread is None else format_size(spread.median)


# -- concurrency ------------------------------------------------------------------------------------------------------


def concurrency_section(measured: Measured) -> tuple[Section, list[KeyValue]]:
    """Return time, memory and failures by the number of kernels at once, and how many are safe."""
    title = "3. How many kernels at once are safe?"
    families: dict[Conditions, list[Group]] = {}
    for key, group in measured.groups.items():
        single = Conditions(platform=key.platform, lecture=key.lecture, axes=key.axes)
        families.setdefault(single, []).append(group)
    tried = {key: groups for key, groups in families.items() if len({g.conditions.kernel_count for g in groups}) > 1}
    if not tried:
        return Section(title=title, answer="not answered: no lecture ran in several kernels at once"), []
    rows, values, parts = [], [], []
    for key, groups in tried.items():
        ordered = sorted(groups, key=lambda group: group.conditions.kernel_count)
        alone = next((g.spread(_wall) for g in ordered if g.conditions.kernel_count == 1), None)
        safe = safe_concurrency([cohort_of(sample.run) for group in ordered for sample in group.samples])
        most = ordered[-1].conditions.kernel_count
        safe_text = f"{most} or more" if safe == most else str(safe or "none")
        rows += [(key.platform, key.lecture, key.text, *_row(group, alone), safe_text) for group in ordered]
        parts.append((safe or 0, most))
        values.append(
            KeyValue(key=f"safe-kernels {key.platform} {key.lecture} {key.text}", value=safe or 0, low=safe or 0,
                     high=float("inf") if safe == most else safe or 0)
        )  # fmt: skip
    limited = sum(safe < most for safe, most in parts)
    least = min(safe for safe, _ in parts)
    tried_text = "the one lecture" if len(parts) == 1 else f"all {len(parts)} lectures and variants"
    kernels = "one kernel at a time was" if least == 1 else f"{least} kernels at once were"
    answer = f"{kernels} safe for {tried_text} tried" if least else (
        f"{limited} of {len(parts)} lectures and variants are not safe with every number tried"
    )  # fmt: skip
    gpu = "" if measured.has_gpu_runs else " Not answered for GPUs: no GPU runs."
    table = Table(
        name="concurrency",
        title="Kernels at once",
        columns=(
            "platform", "lecture", "variant", "kernels", "time", "in sequence", "again in one kernel", "work",
            "memory, together", "GPU live", "GPU used", "failed", "safe",
        ),
        rows=tuple(rows),
    )  # fmt: skip
    groups = [group for found in tried.values() for group in found]
    return Section(title=title, answer=f"{answer}.{gpu}", basis=count_runs(groups), tables=(table,)), values


def _row(group: Group, alone: Spread | None) -> tuple[str, ...]:
    count = group.conditions.kernel_count
    kernels = [member for sample in group.samples for member in (sample.run.members or (sample.run,))]
    bad = sum(member.outcome is not Outcome.COMPLETED for member in kernels)
    sequence = _NO_VALUE if alone is None else format_duration(count * alone.median)
    metrics = (Metric.PEAK_FOOTPRINT, Metric.GPU_LIVE, Metric.GPU_USED)
    sizes = (_size(group.spread_of_all(lambda sample, metric=metric: sample.value(metric))) for metric in metrics)  # type: ignore[misc]
    failed = f"{bad} of {len(kernels)}" if bad else "none"
    times = (_duration(group.spread(_wall)), sequence, _duration(_pass_walls(group)), _duration(group.work))
    return (str(count), *times, *sizes, failed)


def _pass_walls(group: Group) -> Spread | None:
    return spread_of([item.wall_seconds for item in group.passes])


# -- environment and compile cache ------------------------------------------------------------------------------------


def environment_section(measured: Measured) -> tuple[Section, list[KeyValue]]:
    """Return the share of compiling, what a warm compile cache saves, and the versions that were measured."""
    title = "5. What does the standard environment cost and save?"
    alone = [group for key, group in measured.groups.items() if key.kernel_count == 1]
    found = [group for group in alone if group.cold and (group.warm or group.passes)]
    if not found:
        why = "no lecture ran first with an empty compile cache and then again (--lecture-runs with variants)"
        return Section(title=title, answer=f"not answered: {why}"), []
    rows, values, shares, saved, clear = [], [], [], [], 0
    for group in found:
        key = group.conditions
        cold = spread_of([seconds for sample in group.cold if (seconds := _wall(sample)) is not None])
        warm = group.spread(_wall)
        compiling = spread_of([s for sample in group.cold if (s := sample.value(Metric.COMPILE)) is not None])
        if cold is None:
            continue
        share = None if compiling is None or not cold.median else min(1.0, compiling.median / cold.median)
        if warm is not None:
            saved.append(cold.median - warm.median)
            # There is one cold run as a rule; it shows something only if it is slower than the warm ones.
            clear += cold.median > warm.high
        rows.append((key.platform, key.lecture, key.text, *_compile_row(group, cold, compiling, share)))
        if share is not None:
            shares.append(share)
            values.append(KeyValue(key=f"compile-share {key.platform} {key.lecture} {key.text}", value=share, low=share,
                                   high=share))  # fmt: skip
    middle = spread_of(shares)
    answer = (
        f"Compiling is {middle.median:.0%} of a first run in the median of {middle.count} lectures and variants"
        if middle is not None
        else "No lecture compiled anything"
    )
    gain = spread_of(saved)
    if gain is not None and middle is not None:
        answer += f"; {_saving_text(gain, clear)}"
    table = Table(
        name="compiling",
        title="First run with an empty compile cache against later ones",
        columns=(
            "platform", "lecture", "variant", "cold", "warm, new kernels", "interval", "warm, one kernel", "interval",
            "compiling, cold", "share", "compiling, warm", "compiling, one kernel", "surcharge of the first run",
        ),
        rows=tuple(rows),
    )  # fmt: skip
    return Section(title=title, answer=f"{answer}.", basis=count_runs(found), tables=(table,)), values


def _saving_text(gain: Spread, clear: int) -> str:
    """Describe what a warm compile cache saves of a run, where first runs are slower than the noise of later ones."""
    if not clear:
        return "what a warm compile cache saves is too noisy to conclude"
    text = f"a warm compile cache saves {format_duration(max(0.0, gain.median))} of a run in the median"
    noisy = gain.count - clear
    return f"{text}, but in {noisy} of {gain.count} less than the noise" if noisy else text


def _compile_row(group: Group, cold: Spread, compiling: Spread | None, share: float | None) -> tuple[str, ...]:
    """Return one group's times: cold, warm in new kernels and in one kernel, and what compiling takes of each."""
    warm, passes = group.spread(_wall), _pass_walls(group)
    compiling_warm = group.spread(lambda sample: sample.value(Metric.COMPILE))
    compiling_again = spread_of([item.compile_seconds for item in group.passes if item.compile_seconds is not None])
    surcharge = _NO_VALUE
    if warm is not None:
        surcharge = format_duration(cold.median - warm.median) if cold.median > warm.median else "none"
    return (
        format_duration(cold.median),
        *(_duration(warm), _interval(warm), _duration(passes), _interval(passes)),
        _duration(compiling),
        _NO_VALUE if share is None else f"{share:.0%}",
        *(_duration(compiling_warm), _duration(compiling_again), surcharge),
    )


def _interval(spread: Spread | None) -> str:
    return _NO_VALUE if spread is None else f"{format_duration(spread.low)} to {format_duration(spread.high)}"


# -- failures ---------------------------------------------------------------------------------------------------------


def failure_section(measured: Measured) -> tuple[Section, list[KeyValue]]:
    """Return how lectures failed: after how long, and how often the failure was only repeated from memory."""
    title = "7. Does a bad cell fail fast, and once?"
    failed = [
        (group.conditions, sample)
        for group in measured.groups.values()
        for sample in group.samples
        if sample.run.outcome in _BAD_ENDS
    ]
    recalled = sum(kept.verdict.kind is VerdictKind.FAILED_BEFORE for s in measured.sessions for kept in s.runs)
    if not failed and not recalled:
        return Section(title=title, answer="not answered: no lecture failed in these sessions"), []
    rows = []
    for key, sample in failed:
        run, evidence = sample.run, sample.run.speaker.evidence
        seconds, limit = _wall(sample), None if evidence is None else evidence.timeout.limit_seconds
        cell = "-" if evidence is None or evidence.cell_number is None else str(evidence.cell_number)
        rows.append(
            (key.platform, run.lecture, key.text, run.outcome.value, cell,
             _NO_VALUE if seconds is None else format_duration(seconds),
             _NO_VALUE if limit is None else format_duration(limit), sample.kept.verdict.headline)
        )  # fmt: skip
    again = "time" if recalled == 1 else "times"
    table = Table(
        name="failures",
        title="Failed runs",
        columns=("platform", "lecture", "variant", "end", "cell", "after", "limit", "cause"),
        rows=tuple(rows),
    )
    answer = (
        f"{len(failed)} run{'' if len(failed) == 1 else 's'} failed{_after(failed)}, and {recalled} {again} a known "
        "failure was repeated without running the lecture."
    )
    basis = f"{len(failed) + recalled} runs"
    return Section(title=title, answer=answer, basis=basis, tables=(table,) if rows else ()), []


def _after(failed: Sequence[tuple[Conditions, Sample]]) -> str:
    walls = [wall for _, sample in failed if (wall := _wall(sample)) is not None]
    return f", at the latest after {format_duration(max(walls))}" if walls else ""


# -- gaps and scaling -------------------------------------------------------------------------------------------------


def gap_section(measured: Measured) -> Section:
    """Return kernel time against gaps of traced cells."""
    rows = [row for session in measured.sessions for kept in session.runs for row in _traced(kept.run.lecture, kept)]
    title = "Kernel time and gaps of traced cells"
    if not rows:
        return Section(title=title, answer="not answered: no cell was traced (--lecture-profile)")
    table = Table(
        name="gaps",
        title=title,
        columns=("lecture", "variant", "cell", "device", "kernel time", "gaps", "busy", "launches"),
        rows=tuple(rows),
    )
    busy = spread_of([float(row[6].rstrip("%")) for row in rows])
    return Section(
        title=title,
        answer=f"Devices were busy {busy.median:.0f}% of the time between first and last operation, in the median."
        if busy is not None
        else "",
        basis=f"{len(rows)} traced cells",
        tables=(table,),
    )


def _traced(lecture: str, kept: object) -> Iterator[tuple[str, ...]]:
    run = kept.run  # type: ignore[attr-defined]
    for cell in run.cells:
        for device in cell.profile.devices if cell.profile is not None else ():
            yield (
                lecture,
                run.variant or _NO_VALUE,
                str(cell.number),
                device.device,
                format_duration(device.kernel_seconds),
                format_duration(device.gap_seconds),
                f"{device.busy_fraction:.0%}",
                str(device.launch_count),
            )


def scaling_section(measured: Measured, acceptance: float) -> tuple[Section, list[KeyValue]]:
    """
    Return the speed-up over several GPUs.

    Args:
        measured: the samples.
        acceptance: efficiency that is to be reached (0..1).
    """
    title = "Scaling over GPUs"
    rows: list[tuple[str, ...]] = []
    values: list[KeyValue] = []
    below = unexplained = 0
    used: list[Group] = []
    for key, groups in measured.families("gpus").items():
        times = _times(groups)
        if 1 not in times or len(times) < 2:  # noqa: PLR2004 - something to compare with
            continue
        used += groups
        for count, seconds in sorted(times.items()):
            speed_up = times[1] / seconds
            efficiency = speed_up / count
            is_superlinear = efficiency > 1.05  # noqa: PLR2004 - more than noise
            below += efficiency < acceptance
            unexplained += is_superlinear
            remark = (
                "superlinear, unexplained" if is_superlinear else "below the line" if efficiency < acceptance else "ok"
            )
            rows.append((key.lecture, key.text, str(count), format_duration(seconds), f"{speed_up:.2f}",
                         f"{efficiency:.0%}", remark))  # fmt: skip
            name = f"scaling {key.platform} {key.lecture} {key.text} gpus={count}"
            values.append(KeyValue(key=name, value=speed_up, low=speed_up, high=speed_up))
    if not rows:
        why = "no GPU runs" if not measured.has_gpu_runs else "no lecture ran over the axis gpus"
        return Section(title=title, answer=f"not answered: {why}"), []
    answer = f"{below} of {len(rows)} points are below {acceptance:.0%} efficiency"
    if unexplained:
        answer += f"; {unexplained} are superlinear, which nothing here explains"
    columns = ("lecture", "variant", "GPUs", "time", "speed-up", "efficiency", "remark")
    table = Table(name="scaling", title=title, columns=columns, rows=tuple(rows))
    return Section(title=title, answer=f"{answer}.", basis=count_runs(used), tables=(table,)), values


def _times(groups: Sequence[Group]) -> dict[int, float]:
    found = {}
    for group in groups:
        spread, count = group.work, group.conditions.value("gpus")
        if spread is not None and spread.median > 0 and count is not None and count.isdecimal():
            found[int(count)] = spread.median
    return found
