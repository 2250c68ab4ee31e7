"""Question 6: which machine fits, what a build costs, and how many GPU hours it takes. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.findings.document import KeyValue, Section, Table
from pytest_lecturecheck.findings.measured import Measured, Sample
from pytest_lecturecheck.findings.spread import number_text, spread_of
from pytest_lecturecheck.model.fleet import MachineType
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.units import format_duration, format_size

_HOUR: Final = 3600.0
_NO_VALUE: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class LectureCost:
    """
    One lecture, or one variant of it, on one platform.

    Attributes:
        seconds: median wall time.
        peak_bytes: highest peak footprint, or ``None`` where it was not measured.
        busy_seconds: time in which the GPU ran something, of traced cells; ``None`` where no cell was traced.
    """

    seconds: float
    peak_bytes: float | None = None
    busy_seconds: float | None = None


def lecture_costs(measured: Measured) -> dict[str, dict[str, LectureCost]]:
    """Return the cost of each lecture alone by platform and title; a machine's fit ignores the axis ``device``."""
    found: dict[str, dict[str, LectureCost]] = {}
    for key, group in measured.groups.items():
        walls = spread_of([wall for sample in group.complete if (wall := sample.value(Metric.WALL)) is not None])
        if key.kernel_count != 1 or walls is None:
            continue
        rest = key.without("device")
        title = rest.lecture if not rest.axes else f"{rest.lecture} [{rest.text}]"
        is_cpu_of_gpu_machine = key.value("device") == "cpu" and key.is_gpu_platform
        platform = f"{key.platform} on its CPU" if is_cpu_of_gpu_machine else key.platform
        peaks = [peak for sample in group.complete if (peak := sample.value(Metric.PEAK_FOOTPRINT)) is not None]
        found.setdefault(platform, {})[title] = LectureCost(
            seconds=walls.median, peak_bytes=max(peaks, default=None), busy_seconds=_busy(group.samples)
        )
    return found


def _busy(samples: Sequence[Sample]) -> float | None:
    """Return the time in which the GPUs of one run were busy: the median of the runs with traced cells."""
    found = []
    for sample in samples:
        profiles = [cell.profile for cell in sample.run.cells if cell.profile is not None]
        if profiles:
            found.append(math.fsum(item.kernel_seconds for one in profiles for item in one.devices if not item.is_cpu))
    busy = spread_of(found)
    return None if busy is None else busy.median


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """
    A build on one type of machine.

    Attributes:
        machine: the type.
        costs: the lectures that were measured on it, by title.
    """

    machine: MachineType
    costs: Mapping[str, LectureCost]

    @property
    def seconds(self) -> float:
        """Return the time of the build, one lecture after another."""
        return sum(item.seconds for item in self.costs.values())

    @property
    def price(self) -> float | None:
        """Return the price of the build, or ``None`` where that of the machine is not stated."""
        return None if self.machine.price is None else self.machine.price * self.seconds / _HOUR

    @property
    def too_large(self) -> tuple[str, ...]:
        """Return the lectures whose peak the machine's memory does not hold."""
        room = self.machine.memory_bytes
        return tuple(name for name, item in self.costs.items() if room and (item.peak_bytes or 0) > room)

    def price_of(self, title: str) -> float | None:
        """Return the price of one lecture, or ``None`` where it was not measured or does not fit."""
        item = self.costs.get(title)
        if item is None or self.machine.price is None or title in self.too_large:
            return None
        return self.machine.price * item.seconds / _HOUR


def split_fleet(fits: Sequence[Fit]) -> dict[str, str]:
    """Return the cheapest type of machine for each lecture, by title; lectures without a price are left out."""
    found = {}
    for title in dict.fromkeys(title for fit in fits for title in fit.costs):
        prices = {fit.machine.name: price for fit in fits if (price := fit.price_of(title)) is not None}
        if prices:
            found[title] = min(prices, key=lambda name: (prices[name], name))
    return found


def instance_section(measured: Measured, machines: Sequence[MachineType]) -> tuple[Section, list[KeyValue]]:
    """Return price and time of a build for each type of machine, and what a split fleet would cost."""
    title = "6. Which machine fits, and what does a build cost?"
    costs = lecture_costs(measured)
    fits = [Fit(machine=item, costs=costs[item.platform]) for item in machines if item.platform in costs]
    if not fits:
        why = "no [machines] in the settings" if not machines else "no runs on the platform of any of [machines]"
        known = ", ".join(sorted(costs)) or "none"
        return Section(title=title, answer=f"not answered: {why} (platforms measured: {known})"), []
    rows = tuple(
        (fit.machine.name, fit.machine.platform, str(len(fit.costs)), format_duration(fit.seconds),
         _NO_VALUE if fit.machine.price is None else number_text(fit.machine.price), _price(fit.price),
         ", ".join(fit.too_large) or "none")
        for fit in fits
    )  # fmt: skip
    columns = (
        "machine",
        "platform",
        "lectures",
        "time of a build",
        "price of an hour",
        "price of a build",
        "do not fit",
    )
    tables = [Table(name="instances", title="A build on each type of machine", columns=columns, rows=rows)]
    # Only lectures that were measured everywhere can be compared.
    common = set.intersection(*(set(fit.costs) for fit in fits))
    split = {name: machine for name, machine in split_fleet(fits).items() if name in common}
    lost = losing_on_gpu(fits, common)
    priced = _prices_of_all(fits, common)
    answer = _why_no_price(fits, common)
    notes = []
    if priced and common:
        best = min(priced, key=lambda name: (priced[name], name))
        lectures = "one lecture" if len(common) == 1 else f"{len(common)} lectures"
        answer = f"{best} is the cheapest single type: {_price(priced[best])} for the {lectures} measured on all"
        by_name = {fit.machine.name: fit for fit in fits}
        total = sum(by_name[machine].price_of(name) or 0 for name, machine in split.items())
        if len(set(split.values())) > 1 and total < priced[best]:
            answer += f"; a split fleet costs {_price(total)}, {1 - total / priced[best]:.0%} less"
            tables.append(
                Table(
                    name="split-fleet", title="A split fleet", columns=("lecture", "machine"), rows=tuple(split.items())
                )
            )
        else:
            answer += "; a split fleet saves nothing"
    if lost:
        notes.append(f"These lectures lose on a GPU, in price: {', '.join(lost)}")
    values = [
        KeyValue(key=f"build-price {fit.machine.name}", value=fit.price, low=fit.price, high=fit.price)
        for fit in fits
        if fit.price is not None
    ]
    basis = f"medians of {sum(len(fit.costs) for fit in fits)} lectures and variants"
    section = Section(title=title, answer=f"{answer}.", basis=basis, tables=tuple(tables), notes=tuple(notes))
    return section, values


def _why_no_price(fits: Sequence[Fit], common: set[str]) -> str:
    if all(fit.machine.price is None for fit in fits):
        return "no prices are stated in [machines]"
    if not common:
        return "no lecture was measured on all of these types of machines"
    return "no type of machine with a price holds all lectures that were measured on all of them"


def _prices_of_all(fits: Sequence[Fit], titles: set[str]) -> dict[str, float]:
    """Return the price of all lectures by the type of machine; a type that does not hold one of them is left out."""
    found = {}
    for fit in fits:
        prices = [fit.price_of(title) for title in titles]
        known = [price for price in prices if price is not None]
        if len(known) == len(prices):
            found[fit.machine.name] = sum(known)
    return found


def losing_on_gpu(fits: Sequence[Fit], common: set[str]) -> list[str]:
    """Return the lectures that are cheaper on some type without a GPU than on every type with one."""
    lost = []
    for title in sorted(common):
        prices: dict[bool, list[float]] = {True: [], False: []}
        for fit in fits:
            price = fit.price_of(title)
            if price is not None:
                prices[fit.machine.gpu_count > 0].append(price)
        if prices[True] and prices[False] and min(prices[False]) < min(prices[True]):
            lost.append(title)
    return lost


def gpu_hours_section(measured: Measured, machines: Sequence[MachineType], builds_per_year: int) -> Section:
    """Return GPU hours held, busy and paid, for each lecture, a build and a year, and what pinning would save."""
    title = "GPU hours"
    costs = lecture_costs(measured)
    fits = [Fit(machine=m, costs=costs[m.platform]) for m in machines if m.gpu_count and m.platform in costs]
    if not fits:
        why = "no GPU runs" if not measured.has_gpu_runs else "no type of machine with a GPU in [machines] was measured"
        return Section(title=title, answer=f"not answered: {why}")
    rows, notes = [], []
    for fit in fits:
        for name, item in sorted(fit.costs.items(), key=lambda pair: -pair[1].seconds):
            busy = _NO_VALUE if item.busy_seconds is None else format_duration(item.busy_seconds)
            peak = _NO_VALUE if item.peak_bytes is None else format_size(item.peak_bytes)
            held = format_duration(item.seconds * fit.machine.gpu_count)
            rows.append((fit.machine.name, name, held, busy, _price(fit.price_of(name)), peak))
        cheap = [Fit(machine=m, costs=costs[m.platform]) for m in machines if not m.gpu_count and m.platform in costs]
        notes += _what_if(fit, cheap, builds_per_year)
    totals = [
        f"{fit.machine.name}: {number_text(fit.seconds * fit.machine.gpu_count / _HOUR)} GPU hours a build, "
        f"{number_text(fit.seconds * fit.machine.gpu_count / _HOUR * builds_per_year)} a year"
        for fit in fits
    ]
    table = Table(
        name="gpu-hours",
        title="GPU time of each lecture",
        columns=("machine", "lecture", "held", "busy (traced)", "paid", "peak footprint"),
        rows=tuple(rows),
    )
    answer = f"{'; '.join(totals)} (at {builds_per_year} builds a year)."
    return Section(title=title, answer=answer, tables=(table,), notes=tuple(notes), basis=f"{len(rows)} medians")


def _what_if(fit: Fit, cheap: Sequence[Fit], builds_per_year: int) -> list[str]:
    """Return what is saved if the lectures that are cheaper on a CPU are pinned to it."""
    # A lecture that does not fit is not paid for.
    whole = sum(price for name in fit.costs if (price := fit.price_of(name)) is not None)
    if not whole:
        return []
    pinned: dict[str, float] = {}
    for name in fit.costs:
        here = fit.price_of(name)
        prices = [price for other in cheap if (price := other.price_of(name)) is not None]
        if here is not None and prices and min(prices) < here:
            pinned[name] = here - min(prices)
    if not pinned:
        return [f"{fit.machine.name}: no lecture would be cheaper on a CPU that was measured"]
    saved = sum(pinned.values())
    count = "this lecture" if len(pinned) == 1 else f"these {len(pinned)} lectures"
    names = ", ".join(sorted(pinned))
    less = f"{saved / whole:.0%} less, {number_text(saved * builds_per_year)} a year"
    return [f"{fit.machine.name}: pin {count} to the CPU: {less}: {names}"]


def _price(value: float | None) -> str:
    return _NO_VALUE if value is None else number_text(value)
