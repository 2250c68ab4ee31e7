"""Questions 1, 2 and 4: what float64 costs, where a GPU breaks even, and how samplers compare. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_lecturecheck.findings.break_even import BreakEven, Compared, find_break_even
from pytest_lecturecheck.findings.document import KeyValue, Picture, Point, Section, Series, Table
from pytest_lecturecheck.findings.measured import (
    Conditions,
    Group,
    Measured,
    compared_work,
    count_runs,
    size_of,
    work_ratio,
)
from pytest_lecturecheck.findings.spread import LEAST_COUNT, Conclusion, Ratio, number_text
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.units import format_duration

_NO_VALUE = "-"
_ANY = ""
_NAMED = 4


def _seconds(group: Group) -> str:
    spread = group.work
    return _NO_VALUE if spread is None else format_duration(spread.median)


def _summary(ratios: Sequence[Ratio], more: str, less: str, base: str) -> str:
    counts = {kind: sum(ratio.conclusion is kind for ratio in ratios) for kind in Conclusion}
    texts = {
        Conclusion.MORE: f"{more} in",
        Conclusion.LESS: f"{less} in",
        Conclusion.SAME: "no difference in",
        Conclusion.NOISY: "too noisy to conclude in",
        Conclusion.FEW: "too few runs to conclude in",
    }
    parts = [f"{texts[kind]} {count}" for kind, count in counts.items() if count]
    count = "1 comparison" if len(ratios) == 1 else f"{len(ratios)} comparisons"
    clear = [item.spread.median for item in ratios if item.conclusion in {Conclusion.MORE, Conclusion.LESS}]
    extent = f"; where it is clear, {_extent(clear)} of the time {base}" if clear else ""
    # The first run may be cold, and does not count then.
    needed = (
        f" {LEAST_COUNT} or more warm runs of each are needed to conclude: --lecture-runs {LEAST_COUNT + 1}."
        if counts[Conclusion.FEW]
        else ""
    )
    if counts[Conclusion.NOISY]:
        needed += " More runs, or a machine that does nothing else, make an interval narrower."
    return f"Of {count}: {', '.join(parts)}{extent}.{needed}"


def _extent(values: Sequence[float]) -> str:
    low, high = (f"{value:.0%}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def float64_section(measured: Measured) -> tuple[Section, list[KeyValue]]:
    """Return what float64 costs for each workload and device, and the values."""
    pairs = [pair for pair in measured.pairs("precision", "f32", "f64") if pair[0].conditions.kernel_count == 1]
    title = "1. What does float64 cost?"
    found = [(base, other, ratio) for base, other in pairs if (ratio := work_ratio(base, other)) is not None]
    if not found:
        return Section(title=title, answer="not answered: no lecture ran with both precisions (axis precision)"), []
    rows, values = [], []
    numbers: list[tuple[object, ...]] = [
        ("platform", "device", "lecture", "variant", "float64 / float32", "low", "high", "rounds")
    ]
    for base, other, ratio in found:
        key = base.conditions.without("precision")
        rows.append(
            (key.platform, key.device, key.lecture, key.text, _seconds(base), _seconds(other), ratio.text,
             _memory_ratio(base, other), ratio.conclusion.value)
        )  # fmt: skip
        item = ratio.spread
        numbers.append((key.platform, key.device, key.lecture, key.text, item.median, item.low, item.high, item.count))
        values.append(_value_of(_key("float64-penalty", key), ratio))
    gpu = "" if measured.has_gpu_runs else " Not answered for GPUs: no GPU runs."
    table = Table(
        name="float64",
        title="Time with float64 divided by time with float32",
        columns=(
            "platform", "device", "lecture", "variant", "float32", "float64", "ratio (interval)", "memory",
            "conclusion",
        ),
        rows=tuple(rows),
        numbers=tuple(numbers),
    )  # fmt: skip
    answer = (
        _summary([item[2] for item in found], "float64 takes longer", "float64 takes less time", "with float32") + gpu
    )
    section = Section(
        title=title,
        answer=answer,
        basis=count_runs(group for base, other, _ in found for group in (base, other)),
        tables=(table,),
        pictures=_by_size("float64-penalty", "float64 / float32", [(b, r) for b, _, r in found], "precision"),
    )
    return section, values


def _value_of(key: str, ratio: Ratio) -> KeyValue:
    item = ratio.spread
    return KeyValue(key=key, value=item.median, low=item.low, high=item.high, is_enough=item.is_enough)


def _key(what: str, conditions: Conditions) -> str:
    return f"{what} {conditions.platform} {conditions.lecture} {conditions.text}"


def _memory_ratio(base: Group, other: Group) -> str:
    first, second = (group.spread_of_all(lambda sample: sample.value(Metric.PEAK_FOOTPRINT)) for group in (base, other))
    return _NO_VALUE if first is None or second is None else number_text(second.median / first.median)


def _by_size(name: str, label: str, found: Sequence[tuple[Group, Ratio]], *left_out: str) -> tuple[Picture, ...]:
    """Return a picture of ratios over sizes, with a curve for each other combination of conditions."""
    curves: dict[Conditions, list[Point]] = {}
    for group, ratio in found:
        size = size_of(group.conditions)
        if size is not None:
            item = ratio.spread
            point = Point(x=size, y=item.median, low=item.low, high=item.high)
            curves.setdefault(group.conditions.without("size", *left_out), []).append(point)
    series = tuple(
        Series(label=f"{key.lecture} {key.text} ({key.platform})", points=tuple(sorted(points, key=lambda p: p.x)))
        for key, points in curves.items()
        if len(points) > 1
    )
    if not series:
        return ()
    return (Picture(name=name, title=label, x_label="size", y_label=label, series=series, line=1.0),)


# -- break-even -------------------------------------------------------------------------------------------------------


def break_even_section(measured: Measured) -> tuple[Section, list[KeyValue]]:
    """Return the size from which a GPU is faster, for each workload."""
    title = "2. From which size on is a GPU faster?"
    pairs = [
        pair
        for pair in _device_pairs(measured)
        if size_of(pair[0].conditions) is not None and pair[0].conditions.kernel_count == 1
    ]
    found = [(base, other, ratio) for base, other in pairs if (ratio := compared_work(base, other)) is not None]
    if not found:
        why = "no GPU runs" if not measured.has_gpu_runs else "no lecture ran on both devices with several sizes"
        return Section(title=title, answer=f"not answered: {why}"), []
    curves: dict[Conditions, list[Compared]] = {}
    machines = {(base.conditions.platform, other.conditions.platform) for base, other, _ in found}
    for base, other, ratio in found:
        # Curves of several pairs of machines are several curves.
        names = f" ({_machines(base, other)})" if len(machines) > 1 else ""
        key = replace(base.conditions.without("size", "device"), platform=names)
        curves.setdefault(key, []).append(Compared(size=size_of(base.conditions) or 1.0, ratio=ratio.spread))
    results = {key: find_break_even(points) for key, points in curves.items()}
    rows = tuple(
        (key.lecture, f"{key.text}{key.platform}", break_even_text(item), _range(curves[key]))
        for key, item in results.items()
    )
    numbers: tuple[tuple[object, ...], ...] = (
        ("lecture", "variant", "kind", "size", "low", "high"),
        *(
            (key.lecture, f"{key.text}{key.platform}", item.kind.value, item.size, item.low, item.high)
            for key, item in results.items()
        ),
    )
    parts = [f"{key.lecture} {key.text}{key.platform} {break_even_text(item)}" for key, item in results.items()]
    more = f"; and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    mixes = "1 mix" if len(results) == 1 else f"{len(results)} mixes"
    section = Section(
        title=title,
        answer=f"Break-even size of {mixes} of operations: {'; '.join(parts[:_NAMED])}{more}.",
        basis=count_runs(group for base, other, _ in found for group in (base, other)),
        tables=(
            Table(
                name="break-even",
                title="Break-even size, CPU to GPU",
                columns=("lecture", "variant", "break-even size (interval)", "sizes tried"),
                rows=rows,
                numbers=numbers,
            ),
        ),
        pictures=_by_size("break-even", "GPU time / CPU time", [(_named(b, o), r) for b, o, r in found], "device"),
    )
    values = [
        KeyValue(
            key=f"break-even {key.lecture} {key.text}{key.platform}",
            value=item.size,
            low=item.low if item.low is not None else 0.0,
            high=item.high if item.high is not None else float("inf"),
        )
        for key, item in results.items()
        if item.size is not None
    ]
    return section, values


def _device_pairs(measured: Measured) -> list[tuple[Group, Group]]:
    """Return the groups on a CPU and on a GPU that are equal otherwise, of one platform or of several."""
    by_rest: dict[tuple[Conditions, str], list[Group]] = {}
    for key, group in measured.groups.items():
        rest = replace(key.without("device"), platform=_ANY)
        by_rest.setdefault((rest, key.device), []).append(group)
    pairs = []
    for (rest, device), groups in by_rest.items():
        others = by_rest.get((rest, "gpu"), []) if device == "cpu" else []
        for base in groups:
            same = [other for other in others if other.conditions.platform == base.conditions.platform]
            pairs += [(base, other) for other in same or others]
    return pairs


def _named(base: Group, other: Group) -> Group:
    """Return a group under the names of both machines, for the curves of a picture."""
    return replace(base, conditions=replace(base.conditions, platform=_machines(base, other)))


def _machines(base: Group, other: Group) -> str:
    first, second = base.conditions.platform, other.conditions.platform
    return first if first == second else f"{first} to {second}"


def break_even_text(item: BreakEven) -> str:
    """Format a break-even size with its interval, or why there is none."""
    if item.size is None:
        return item.kind.value
    low = "below the range" if item.low is None else number_text(item.low)
    high = "above the range" if item.high is None else number_text(item.high)
    return f"{number_text(item.size)} ({low} to {high})"


def _range(points: Sequence[Compared]) -> str:
    sizes = sorted(item.size for item in points)
    return f"{len(sizes)} from {number_text(sizes[0])} to {number_text(sizes[-1])}"


# -- samplers ---------------------------------------------------------------------------------------------------------


def sampler_section(measured: Measured) -> tuple[Section, list[KeyValue]]:
    """Return how vectorized and sequential chains compare."""
    title = "4. Which sampler configuration is faster and safer?"
    pairs = list(measured.pairs("sampler", "sequential", "vectorized"))
    found = [(base, other, ratio) for base, other in pairs if (ratio := work_ratio(base, other)) is not None]
    if not found:
        return Section(title=title, answer="not answered: no lecture ran with both values of the axis sampler"), []
    rows = []
    for base, other, ratio in found:
        key = base.conditions.without("sampler")
        rows.append(
            (key.platform, key.lecture, key.text, _seconds(base), _seconds(other), ratio.text,
             _compile(base), _compile(other), _memory_ratio(base, other), ratio.conclusion.value)
        )  # fmt: skip
    columns = (
        "platform", "lecture", "variant", "sequential", "vectorized", "ratio (interval)", "compile, sequential",
        "compile, vectorized", "memory", "conclusion",
    )  # fmt: skip
    table = Table(name="samplers", title="Vectorized against sequential chains", columns=columns, rows=tuple(rows))
    values = [
        _value_of(_key("vectorized-ratio", base.conditions.without("sampler")), ratio) for base, _, ratio in found
    ]
    section = Section(
        title=title,
        answer=_summary(
            [item[2] for item in found], "vectorized takes longer", "vectorized takes less time", "in sequence"
        ),
        basis=count_runs(group for base, other, _ in found for group in (base, other)),
        tables=(table,),
    )
    return section, values


def _compile(group: Group) -> str:
    values = [found for sample in group.cold if (found := sample.value(Metric.COMPILE)) is not None]
    return format_duration(max(values)) if values else _NO_VALUE
