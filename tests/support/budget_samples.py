"""Budgets for the tests of the store: fixed ones, and strategies."""

import datetime as dt
import unicodedata
from dataclasses import replace

from hypothesis import strategies as st

from pytest_lecturecheck.budget.limits import HeavyCell, LectureBudget, MetricBudget, PlatformBudgets, Tolerance
from pytest_lecturecheck.model.metric import Method, Metric, Unit
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.units import MIB, format_size_up, parse_size

PLATFORM = "linux-x86_64-cpu"
RULES = Tolerance()
MACHINE = Machine(
    system="Linux 6.8",
    architecture="x86_64",
    cpu="AMD EPYC 7763",
    core_count=2,
    ram_bytes=7941 * MIB,
    swap_bytes=0,
)
SOFTWARE = Software(python="3.12.1", packages={"numpy": "2.1.0"}, blas=("openblas 0.3.27, 2 threads",))


def metric_budget(metric, *values, limit=None):
    """A limit derived from values, or set by hand if it is given."""
    seen = tuple(metric.round_up(value) for value in values)
    derived = RULES.recorded_limit_for(metric, seen) if seen else None
    by_hand = limit is not None
    method = Method.EXACT if seen else None
    return MetricBudget(metric=metric, limit=limit if by_hand else derived, seen=seen, method=method, hand_set=by_hand)


def entry(lecture, mib=400.0, variant="", seconds=12.34, **changes):
    metrics = {
        Metric.PEAK_FOOTPRINT: metric_budget(Metric.PEAK_FOOTPRINT, mib * MIB, (mib - 1.5) * MIB),
        Metric.WALL: metric_budget(Metric.WALL, seconds, seconds + 0.1),
    }
    made = LectureBudget(
        lecture=lecture,
        variant=variant,
        metrics=metrics,
        run_count=2,
        recorded=dt.date(2025, 1, 31),
        heaviest=(HeavyCell(number=3, line=41, peak_footprint_bytes=round(mib * MIB)),),
        machine=MACHINE,
        software=SOFTWARE,
    )
    return replace(made, **changes)


def budgets(*entries, platform=PLATFORM, tolerance=RULES):
    lectures = {(item.lecture, item.variant): item for item in entries}
    return PlatformBudgets(platform=platform, lectures=lectures, tolerance=tolerance)


def printed(given):
    """Budgets as a file holds them: values with four digits, and limits derived from these."""
    lectures = {key: _printed_entry(item, given.tolerance) for key, item in given.lectures.items()}
    return replace(given, lectures=lectures)


def _printed_entry(item, rules):
    metrics = {
        metric: _printed_metric(value, rules)
        for metric, value in item.metrics.items()
        if value.limit is not None or value.seen
    }
    heaviest = tuple(
        replace(cell, peak_footprint_bytes=_printed_size(cell.peak_footprint_bytes)) for cell in item.heaviest
    )
    machine = item.machine
    if machine is not None:
        sizes = {name: getattr(machine, name) for name in ("ram_bytes", "swap_bytes", "memory_limit_bytes")}
        machine = replace(
            machine,
            **{name: None if size is None else _printed_size(size) for name, size in sizes.items()},
            transparent_hugepages=machine.transparent_hugepages or None,
            driver=machine.driver or None,
            cuda=machine.cuda or None,
        )
    return replace(item, metrics=metrics, heaviest=heaviest, machine=machine)


def _printed_size(size):
    return parse_size(format_size_up(size))


def _printed_metric(value, rules):
    seen = tuple(value.metric.round_up(item) for item in value.seen)
    limit = None if value.limit is None else value.metric.round_up(value.limit)
    hand_set = limit is not None and (value.hand_set or not seen)
    if limit is not None and not hand_set:
        limit = rules.recorded_limit_for(value.metric, seen)
    return replace(value, limit=limit, seen=seen, hand_set=hand_set)


_names = st.text(st.characters(exclude_characters="\x00"), min_size=1, max_size=12)
_lectures = st.one_of(st.sampled_from(["a.md", "b/a.md", "b/é.md", "a b [1]::x.ipynb", '"#=.md']), _names)
_sizes = st.integers(0, 2**44)


@st.composite
def _metrics(draw, metric):
    low = 1 if metric.unit is not Unit.SECONDS else 0.001
    values = st.integers(1, 2**44) if metric.unit is not Unit.SECONDS else st.floats(low, 1e6)
    seen = draw(st.lists(st.one_of(values, st.just(0)), max_size=4).map(tuple))
    limit = draw(st.none() | values)
    by_hand = limit is not None and (draw(st.booleans()) or not seen)
    # A limit set by hand that the rules would give as well must stay a limit set by hand.
    if by_hand and seen and draw(st.booleans()):
        limit = RULES.recorded_limit_for(metric, seen)
    method = draw(st.sampled_from(Method)) if seen else draw(st.none() | st.just(Method.EXACT))
    return MetricBudget(metric=metric, limit=limit, seen=seen, method=method, hand_set=by_hand)


_machines = st.builds(
    Machine,
    system=st.text(max_size=9),
    architecture=st.sampled_from(["x86_64", "arm64"]),
    cpu=st.text(max_size=9),
    core_count=st.integers(1, 512),
    ram_bytes=_sizes,
    swap_bytes=st.none() | _sizes,
    memory_limit_bytes=st.none() | _sizes,
    memory_limit_source=st.text(max_size=5),
    transparent_hugepages=st.none() | st.text(max_size=5),
    accelerators=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    driver=st.none() | st.text(max_size=5),
    cuda=st.none() | st.text(max_size=5),
)
_software = st.builds(
    Software,
    python=st.text(max_size=5),
    packages=st.dictionaries(st.from_regex(r"[A-Za-z0-9._-]{1,6}", fullmatch=True), st.text(max_size=5), max_size=3),
    blas=st.lists(st.text(max_size=5), max_size=2).map(tuple),
)


@st.composite
def entries(draw, lecture, variant):
    metrics = [draw(_metrics(metric)) for metric in draw(st.sets(st.sampled_from(Metric), max_size=4))]
    cells = st.builds(
        HeavyCell,
        number=st.integers(1, 99),
        line=st.none() | st.integers(1, 9999),
        peak_footprint_bytes=_sizes,
    )
    return LectureBudget(
        lecture=lecture,
        variant=variant,
        metrics={item.metric: item for item in metrics},
        run_count=draw(st.integers(0, 5)),
        recorded=draw(st.none() | st.dates()),
        heaviest=draw(st.lists(cells, max_size=3).map(tuple)),
        machine=draw(st.none() | _machines),
        software=draw(st.none() | _software),
    )


@st.composite
def many_budgets(draw, keys=None):
    """Budgets of one platform; ``keys`` fixes which entries there are."""
    if keys is None:
        keys = draw(entry_keys)
    lectures = {key: draw(entries(*key)) for key in keys}
    tolerance = draw(
        st.builds(
            Tolerance,
            memory_fraction=st.sampled_from([0.1, 0.25, 1 / 3, 1]),
            memory_slack_bytes=st.one_of(st.just(64 * MIB), _sizes),
            time_factor=st.sampled_from([2.0, 1.5, 3]),
            time_slack_seconds=st.sampled_from([10.0, 0.0, 0.1, 1e-05]),
        )
    )
    return PlatformBudgets(platform=PLATFORM, lectures=lectures, tolerance=tolerance)


def _is_literal(name):
    """Return True unless the name contains what stands for a lone surrogate in a file."""
    return "\\u" not in name


def _is_plain_name(name):
    return unicodedata.is_normalized("NFC", name) and _is_literal(name)


entry_keys = st.sets(
    st.tuples(_lectures.filter(_is_plain_name), st.one_of(st.just(""), st.just("gpu-f32"), _names.filter(_is_literal))),
    max_size=5,
)
