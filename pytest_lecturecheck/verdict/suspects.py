"""
What differs underneath two runs, ranked by whether it can explain that a cell's need diverges.

A suspect comes with the reason for its rank and with the way to rule it out. What one side has not recorded is a
suspect too, and never left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.manifest import ENVIRONMENT_FACTS, Fact, Manifest
from pytest_lecturecheck.model.metric import Measurement, Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.units import MIB, format_size
from pytest_lecturecheck.verdict.cell_diff import CellPair, Divergence
from pytest_lecturecheck.verdict.suspect_rules import (
    BUILD_RULE,
    FACT_RULES,
    MACHINE_RULES,
    PACKAGE_RULE,
    Rule,
    rule_of_variable,
)

_BUFFER_BYTES: Final = 64 * MIB
"""OpenBLAS and MKL keep at most about this much for each of their threads."""
_SAME_MEMORY_FRACTION: Final = 0.01
_SAME_CAP_FRACTION: Final = 0.1
_NAMED: Final = 8
_UNSET: Final = "unset"
_MEMORY: Final = "memory that can be used"
_MACHINE_ROWS: Final[Mapping[str, str]] = {
    "architecture": "architecture",
    "operating system": "system",
    "processor": "processor",
    "cores": "cores",
    _MEMORY: "memory",
    "GPUs": "accelerators",
}
"""What of a machine is compared, with the name of its rule."""
_ABSENT: Final = "absent"


class Rank(IntEnum):
    """Whether a difference can explain the divergence; the first rank is the likeliest."""

    CAN = 1
    PARTLY = 2
    NOT_RECORDED = 3
    UNLIKELY = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """
    One difference between two runs.

    Attributes:
        name: what differs.
        before: its value in the first run, or an empty string if it was not recorded.
        after: its value in the second run, or an empty string if it was not recorded.
        rank: whether it can explain the divergence.
        reason: why it has that rank.
        rule_out: how it is ruled out.
    """

    name: str
    before: str
    after: str
    rank: Rank
    reason: str
    rule_out: str


def rank_suspects(before: Run, after: Run, cell: CellPair | None) -> tuple[Suspect, ...]:
    """
    Return what differs between two runs of one lecture, the likeliest suspect first.

    Args:
        before: the first run.
        after: the second run.
        cell: the first cell whose need diverges, or ``None`` if no cell's does.
    """
    found = [
        _suspect(name, first, second, rule, before=before, after=after, cell=cell)
        for name, first, second, rule in _rows(before, after)
        if first != second
    ]
    return tuple(sorted(found, key=lambda suspect: suspect.rank))


def recorded_on_neither(before: Run, after: Run) -> tuple[str, ...]:
    """Return the names of the facts that neither run has recorded, so that nobody takes them for equal."""
    if before.manifest is None and after.manifest is None:
        return ("what lies beneath equal package versions",)
    manifests = [run.manifest or Manifest() for run in (before, after)]
    # A notebook has no program, and a program no environment of Python that could be asked.
    other = ENVIRONMENT_FACTS if before.is_program else (Fact.PROGRAM,)
    names = [
        fact.value for fact in Fact if fact not in other and not any(manifest.fact(fact) for manifest in manifests)
    ]
    if not any(manifest.libraries for manifest in manifests):
        names.append("native libraries")
    if not any(manifest.distributions for manifest in manifests) and not before.is_program:
        names.append("distributions")
    return tuple(names)


def _alike(first: int | None, second: int | None) -> bool:
    if first is None or second is None:
        return first is second
    return abs(first - second) <= _SAME_CAP_FRACTION * max(first, second)


_Row = tuple[str, str, str, Rule]


def _rows(before: Run, after: Run) -> Iterator[_Row]:
    yield from _method_rows(before, after)
    yield from _machine_rows(before.machine, after.machine)
    caps = [run.conditions.cap_bytes for run in (before, after)]
    # An automatic cap follows the memory that is free, and varies a little between runs.
    if not _alike(*caps):
        texts = ["none" if cap is None else format_size(cap) for cap in caps]
        yield ("memory cap", texts[0], texts[1], MACHINE_RULES["memory"])
    yield from _variable_rows(before, after)
    yield from _package_rows(before, after)
    yield from _fact_rows(before.manifest or Manifest(), after.manifest or Manifest())


def _method_rows(before: Run, after: Run) -> Iterator[_Row]:
    # A run that ended badly has no peak of its own; its cells have, and they were measured in the same way.
    found = [run.measured(Metric.PEAK_FOOTPRINT) or _highest_peak(run) for run in (before, after)]
    texts = [measured.method.value if measured is not None else "" for measured in found]
    yield ("method of the peak", texts[0], texts[1], MACHINE_RULES["method"])


def _highest_peak(run: Run) -> Measurement | None:
    cell = run.heaviest_cell()
    return cell.measured(Metric.PEAK_FOOTPRINT) if cell is not None else None


def _machine_rows(before: Machine | None, after: Machine | None) -> Iterator[_Row]:
    sides = [_machine_texts(machine) if machine is not None else {} for machine in (before, after)]
    for name, rule in _MACHINE_ROWS.items():
        texts = [side.get(name, "") for side in sides]
        if name == _MEMORY and before is not None and after is not None:
            sizes = before.usable_memory_bytes, after.usable_memory_bytes
            if max(sizes) - min(sizes) <= _SAME_MEMORY_FRACTION * max(sizes):
                continue
        yield (name, texts[0], texts[1], MACHINE_RULES[rule])


def _machine_texts(machine: Machine) -> dict[str, str]:
    return {
        "architecture": machine.architecture,
        "operating system": machine.system,
        "processor": machine.cpu,
        "cores": str(machine.core_count),
        _MEMORY: format_size(machine.usable_memory_bytes),
        "GPUs": ", ".join(machine.accelerators) or "none",
    }


def _variable_rows(before: Run, after: Run) -> Iterator[_Row]:
    sides = [run.software.variables if run.software is not None else None for run in (before, after)]
    for name in sorted({*(sides[0] or {}), *(sides[1] or {})}):
        texts = ["" if side is None else side.get(name, _UNSET) for side in sides]
        yield (name, texts[0], texts[1], rule_of_variable(name))


def _package_rows(before: Run, after: Run) -> Iterator[_Row]:
    manifests = [run.manifest.distributions if run.manifest is not None else {} for run in (before, after)]
    imported = [run.software.packages if run.software is not None else {} for run in (before, after)]
    used = {_folded(name): (name, version) for side in imported for name, version in side.items()}
    for key, (name, _) in sorted(used.items()):
        texts = [
            manifest.get(key) or versions.get(name) or (_ABSENT if manifest or versions else "")
            for manifest, versions in zip(manifests, imported, strict=True)
        ]
        is_same_version = texts[0].split(" ")[0] == texts[1].split(" ")[0]
        if is_same_version and not all("(" in text for text in texts):
            continue
        yield (name, texts[0], texts[1], BUILD_RULE if is_same_version else PACKAGE_RULE)
    if not any(imported) and all(manifests):
        yield from _unknown_use_rows(*manifests)
        return
    yield from _unused_rows(*({name: text for name, text in side.items() if name not in used} for side in manifests))


def _unknown_use_rows(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[_Row]:
    """Yield one row of the distributions that differ between runs that both ended before they named their imports."""
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    if not names:
        return
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    texts = [", ".join(f"{name} {side.get(name, _ABSENT)}" for name in names[:_NAMED]) for side in (before, after)]
    yield ("distributions, imported or not", f"{texts[0]}{more}", f"{texts[1]}{more}", PACKAGE_RULE)


def _unused_rows(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[_Row]:
    rule = FACT_RULES["not imported"]
    changed = sum(before.get(name) != after.get(name) for name in {*before, *after})
    if bool(before) != bool(after):
        yield ("distributions", *(f"{len(side)} recorded" if side else "" for side in (before, after)), rule)  # type: ignore[misc]
    elif changed:
        name = "distributions that were not imported"
        yield (name, f"{len(before)} in all", f"{len(after)} in all, {changed} differ", rule)


def _folded(name: str) -> str:
    return name.replace("_", "-").replace(".", "-").lower()


def _fact_rows(before: Manifest, after: Manifest) -> Iterator[_Row]:
    for fact in Fact:
        # A fact that neither side has belongs to neither system.
        yield (fact.value, before.fact(fact), after.fact(fact), FACT_RULES[fact])
    yield from _library_rows(before.libraries, after.libraries)


def _library_rows(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[_Row]:
    rule = FACT_RULES["libraries"]
    if not before or not after:
        texts = [f"{len(side)} recorded" if side else "" for side in (before, after)]
        yield ("native libraries", texts[0], texts[1], rule)
        return
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    if names:
        texts = [
            ", ".join(f"{name} {side[name]}" for name in names if name in side) or "none of these"
            for side in (before, after)
        ]
        yield ("native libraries", texts[0], texts[1], rule)


def _suspect(  # noqa: PLR0913 - keyword-only
    name: str, first: str, second: str, rule: Rule, *, before: Run, after: Run, cell: CellPair | None
) -> Suspect:
    rank, reason = Rank.NOT_RECORDED, rule.reason
    if first and second:
        rank, reason = _rank(rule, before, after, cell)
    return Suspect(name=name, before=first, after=second, rank=rank, reason=reason, rule_out=rule.rule_out)


def _rank(rule: Rule, before: Run, after: Run, cell: CellPair | None) -> tuple[Rank, str]:
    divergence = cell.divergence if cell is not None else Divergence.NONE
    if divergence is Divergence.NONE:
        return Rank.UNLIKELY, "no cell diverges"
    strength = {
        Divergence.OUTCOME: rule.outcome,
        Divergence.MEMORY: rule.memory,
        Divergence.TIME: rule.time,
    }[divergence]
    difference = cell.difference_bytes if cell is not None else None
    if divergence is Divergence.MEMORY and rule.is_bounded_by_threads and difference is not None:
        cores = [run.machine.core_count for run in (before, after) if run.machine is not None]
        most = _BUFFER_BYTES * max(cores, default=1)
        if abs(difference) > most:
            sizes = format_size(most), format_size(abs(difference))
            return Rank.UNLIKELY, f"buffers of threads take at most about {sizes[0]}; the cell differs by {sizes[1]}"
    return Rank(strength), rule.reason
