"""Parse a budget file and report all its faults at once, with file, line, key, found and expected value."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias

from pytest_lecturecheck.budget.limits import (
    LectureBudget,
    MetricBudget,
    PlatformBudgets,
    ReportedValueBudget,
    Tolerance,
)
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import BudgetFileError
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.model.reported_value import NAME
from pytest_lecturecheck.store.budget_file.budget_values import (
    ENTRY,
    FIGURE,
    FIGURES,
    MACHINE,
    MACHINE_REQUIRED,
    METRICS,
    RULES,
    SOFTWARE,
    FaultError,
    Table,
    check_hand_set,
    metric_table,
    read_quantity,
    show_path,
    show_value,
)
from pytest_lecturecheck.store.budget_file.toml_text import (
    Block,
    Kind,
    Piece,
    find_conflict_markers,
    group_blocks,
    scan_pieces,
)
from pytest_lecturecheck.store.surrogates import restore_surrogates

SCHEMA: Final = 1
"""The schema that this version reads and writes."""

EntryKey: TypeAlias = tuple[str, str]
"""Lecture and variant."""
Path: TypeAlias = tuple[str, ...]
"""The parts of a table header or key."""
_Values: TypeAlias = Mapping[str, tuple[Any, int]]
"""Key to value and line."""

_GROUPS: Final = {
    "lectures": '[lectures."intro.md"]',
    "machines": "[machines.m3f9a2c1]",
    "software": "[software.s81bc02d]",
}
_LONGEST_SHOWN: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetText:
    """
    A budget file with its text, as the writer needs it.

    Attributes:
        budgets: its content.
        blocks: its tables as written, in order.
        epilogue: comments and blank lines at the end.
        machines: machines by their key in the file.
        software: software by its key in the file.
        references: for each entry, the keys of its machine and its software.
    """

    budgets: PlatformBudgets
    blocks: list[Block]
    epilogue: list[Piece]
    machines: Mapping[str, Machine]
    software: Mapping[str, Software]
    references: Mapping[EntryKey, tuple[str | None, str | None]]


def parse_budget_text(text: str, file: str, platform: str) -> BudgetText:
    """
    Parse the text of a budget file.

    Args:
        text: the text, with LF line ends.
        file: the file as the user knows it, for messages.
        platform: the label in the name of the file.

    Raises:
        BudgetFileError: every fault found, one line each.
    """
    markers = find_conflict_markers(text)
    if markers:
        # The file contains both sides of the conflict, so every other fault would be a consequence.
        todo = "resolve the merge, or take one side and record again"
        faults = [
            f"{file} line {line}: merge conflict marker {marker[:_LONGEST_SHOWN]!r}; {todo}" for line, marker in markers
        ]
        raise BudgetFileError("\n".join(faults))
    reader = _Reader(file=file)
    parsed = reader.read(text, platform)
    if not reader.faults:
        reader.check_whole(text)
    if reader.faults:
        raise BudgetFileError("\n".join(message for _, message in sorted(reader.faults, key=lambda fault: fault[0])))
    return parsed


def entry_key(path: Sequence[str]) -> EntryKey | None:
    """Return lecture and variant of an entry's table, or ``None`` for any other table."""
    match tuple(path):
        case ("lectures", lecture):
            return normalize_lecture(lecture), ""
        case ("lectures", lecture, "variants", variant):
            return normalize_lecture(lecture), restore_surrogates(variant)
    return None


def normalize_lecture(name: str) -> str:
    r"""Return a lecture's name in NFC, with undecodable bytes (written ``\udcff``) as lone surrogates."""
    return unicodedata.normalize("NFC", restore_surrogates(name))


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reads a file to its end and collects all faults."""

    file: str
    faults: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, path: Path, problem: str) -> None:
        key = f" {show_path(path)}:" if path else ""
        self.faults.append((line, f"{self.file} line {line}:{key} {problem}"))

    def read(self, text: str, platform: str) -> BudgetText:
        blocks, epilogue = group_blocks(scan_pieces(text))
        tables = self.read_tables(blocks)
        self.check_head(tables.get((), {}), platform)
        tolerance = Tolerance(**self.read_values(("rules",), tables.get(("rules",), {}), RULES))
        machines, software = {}, {}
        for path, values in tables.items():
            if path[:1] == ("machines",):
                machines[path[1]] = self.read_machine(path, values)
            elif path[:1] == ("software",):
                software[path[1]] = Software(**self.read_values(path, values, SOFTWARE))
        entries: dict[EntryKey, LectureBudget] = {}
        references = {}
        for path, values in tables.items():
            if (key := entry_key(path)) is not None:
                entry, references[key] = self.read_entry(path, values, tolerance, (machines, software))
                entries[key] = entry
        return BudgetText(
            budgets=PlatformBudgets(platform=platform, lectures=entries, tolerance=tolerance),
            blocks=blocks,
            epilogue=epilogue,
            machines={name: machine for name, machine in machines.items() if machine is not None},
            software=software,
            references=references,
        )

    def check_whole(self, text: str) -> None:
        """Parse the whole text with tomllib, which finds what separate statements cannot show."""
        try:
            tomllib.loads(text)
        # A number of thousands of digits is a ValueError of Python's own.
        except ValueError as error:
            found = re.search(r" \(at line (\d+), column \d+\)", str(error))
            line = int(found.group(1)) if found else text.count("\n") + 1
            self.add(line, (), f"not TOML: {str(error).replace(found.group(), '') if found else error}")

    def read_tables(self, blocks: list[Block]) -> dict[Path, _Values]:
        """Return the tables by their normalised path; of duplicates the first one."""
        tables: dict[Path, _Values] = {}
        first_lines: dict[Path, int] = {}
        for block in blocks:
            path = block.path
            if block.is_lost:
                self.read_pairs(block, path)
                continue
            if path[:1] == ("lectures",) and len(path) > 1:
                path = (path[0], normalize_lecture(path[1]), *path[2:])
            line = block.header.line if block.header is not None else 1
            first = first_lines.setdefault(path, line)
            if block.header is not None and first != line:
                self.add(line, path, f"this table is defined twice (first in line {first}); keep one of them")
            values = self.read_pairs(block, path)
            if _is_grouping(path):
                for key, (_, key_line) in values.items():
                    self.add(key_line, (*path, key), f"expected a table of its own, [{show_path((*path, key))}]")
            elif _is_known(path):
                tables.setdefault(path, values)
            else:
                expected = "[rules], " + ", ".join(_GROUPS.values()) + ', [lectures."intro.md".variants."gpu"]'
                self.add(line, path, f"unknown table; expected {expected}")
        return tables

    def read_pairs(self, block: Block, path: Path) -> _Values:
        values: dict[str, tuple[Any, int]] = {}
        for piece in block.body:
            if piece.kind is Kind.BROKEN:
                shown = show_value(piece.text.strip().split("\n", 1)[0])
                example = 'expected for example peak_footprint = "512 MiB"'
                self.add(piece.line, path, f"{shown} is not TOML ({piece.reason}); {example}")
            elif piece.kind is Kind.PAIR and (problem := _key_problem(piece.path, path)):
                self.add(piece.line, (*path, *piece.path), problem)
            elif piece.kind is Kind.PAIR:
                _, first = values.setdefault(key_of(piece.path), (piece.value, piece.line))
                if first != piece.line:
                    self.add(
                        piece.line, (*path, *piece.path), f"this key is defined twice (first in line {first}); keep one"
                    )
        return values

    def check_head(self, values: _Values, platform: str) -> None:
        for key, (_, line) in values.items():
            if key not in {"schema", "platform"}:
                self.add(line, (key,), "unknown key; expected schema, platform, or a table")
        schema, line = values.get("schema", (None, 1))
        if schema is None:
            self.add(line, ("schema",), f"missing; expected schema = {SCHEMA} before the first table")
        elif type(schema) is int and schema > SCHEMA:
            reads = f"this one reads schema {SCHEMA}; update pytest-lecturecheck"
            self.add(line, ("schema",), f"{show_value(schema)} was written by a newer version, and {reads}")
        elif type(schema) is not int or schema != SCHEMA:
            self.add(line, ("schema",), f"found {show_value(schema)}; expected {SCHEMA}, all that this version reads")
        label, line = values.get("platform", (platform, 1))
        if label != platform:
            self.add(line, ("platform",), f"found {show_value(label)}; expected {platform!r}, as the file is named")

    def read_values(self, path: Path, values: _Values, table: Table, also: Sequence[str] = ()) -> dict[str, Any]:
        """Read the values of a table; ``also`` names keys that are read elsewhere."""
        stated = {}
        for key, (value, line) in values.items():
            if key in also:
                continue
            if key not in table:
                self.add(line, (*path, key), f"unknown key; expected one of {', '.join((*table, *also))}")
                continue
            name, read = table[key]
            try:
                stated[name] = read(value)
            except FaultError as fault:
                self.add(line, (*path, key), str(fault))
        return stated

    def read_machine(self, path: Path, values: _Values) -> Machine | None:
        stated = self.read_values(path, values, MACHINE)
        missing = [key for key in MACHINE_REQUIRED if key not in values]
        if missing:
            line = min((line for _, line in values.values()), default=1)
            self.add(line, path, f"{', '.join(missing)} missing; expected {', '.join(MACHINE_REQUIRED)}")
        complete = all(MACHINE[key][0] in stated for key in MACHINE_REQUIRED)
        return Machine(**stated) if complete else None

    def read_entry(
        self,
        path: Path,
        values: _Values,
        tolerance: Tolerance,
        known: tuple[Mapping[str, Machine | None], Mapping[str, Software]],
    ) -> tuple[LectureBudget, tuple[str | None, str | None]]:
        own = {key: stated_at for key, stated_at in values.items() if key.startswith(f"{FIGURES}.")}
        other = {key: stated_at for key, stated_at in values.items() if key not in own}
        stated = self.read_values(path, other, ENTRY, (*METRICS, f"{FIGURES}.NAME"))
        machines, software = known
        references = stated.get("machine"), stated.get("software")
        for key, tables, group in (("machine", machines, "machines"), ("software", software, "software")):
            name = stated.pop(key, None)
            if name is None:
                continue
            if name in tables:
                stated[key] = tables[name]
            else:
                expected = f"expected the name of a table [{group}.*] of this file"
                self.add(values[key][1], (*path, key), f"found {show_value(name)}; {expected}")
        metrics = {}
        for key, metric in METRICS.items():
            if key in values and (budget := self.read_metric((*path, key), metric, values[key], tolerance)):
                metrics[metric] = budget
        reported_values = {}
        for key, stated_at in own.items():
            name = key.removeprefix(f"{FIGURES}.")
            if (reported := self.read_reported((*path, FIGURES, name), name, stated_at)) is not None:
                reported_values[name] = reported
        lecture, variant = entry_key(path) or ("", "")
        return LectureBudget(
            lecture=lecture, variant=variant, metrics=metrics, reported_values=reported_values, **stated
        ), references

    def read_reported(self, path: Path, name: str, stated_at: tuple[Any, int]) -> ReportedValueBudget | None:
        value, line = stated_at
        if NAME.fullmatch(name) is None:
            expected = "expected lower-case letters, digits and underscores, a letter first, at most 41 characters"
            self.add(line, path, f"{show_value(name)} cannot name a reported value; {expected}")
            return None
        if not isinstance(value, dict):
            example = "for example { at_least = 1.5 } or { limit = 1e-12 }"
            self.add(line, path, f"found {show_value(value)}; expected a table, {example}")
            return None
        if not value.keys() & {"at_least", "limit"} and not value.get("seen"):
            self.add(line, path, "neither a limit nor recorded values; expected at_least, limit or seen")
        stated = self.read_values(path, {key: (item, line) for key, item in value.items()}, FIGURE)
        try:
            return ReportedValueBudget(name=name, **stated)
        except ValueError as error:
            self.add(line, path, str(error))
            return None

    def read_metric(
        self, path: Path, metric: Metric, stated_at: tuple[Any, int], tolerance: Tolerance
    ) -> MetricBudget | None:
        value, line = stated_at
        try:
            if isinstance(value, dict):
                budget = self.read_metric_table(path, metric, (value, line), tolerance)
            else:
                budget = MetricBudget(metric=metric, limit=read_quantity(metric.unit, value), hand_set=True)
            check_hand_set(budget)
        except FaultError as fault:
            self.add(line, path, str(fault))
            return None
        return budget

    def read_metric_table(
        self, path: Path, metric: Metric, stated_at: tuple[dict[str, Any], int], tolerance: Tolerance
    ) -> MetricBudget:
        value, line = stated_at
        stated = self.read_values(path, {key: (item, line) for key, item in value.items()}, metric_table(metric))
        if "limit" not in value and not value.get("seen"):
            self.add(line, path, "neither a limit nor recorded values; expected at least one of them")
        limit, seen, by_hand = stated.get("limit"), stated.get("seen", ()), stated.get("by_hand", False)
        return MetricBudget(
            metric=metric,
            limit=limit,
            seen=seen,
            method=stated.get("method"),
            hand_set=limit is not None and (by_hand or not is_derived(metric, limit, seen, tolerance)),
        )


def key_of(path: Path) -> str:
    """Return the key of a statement: ``wall``, or ``figures.speedup`` for a reported value."""
    return ".".join(path)


def _key_problem(path: Path, table: Path) -> str:
    """Return what is wrong with the spelling of a key, or an empty string."""
    in_entry = entry_key(table) is not None
    is_reported = in_entry and path[0] == FIGURES
    if len(path) == 1:
        quoted = in_entry and path[0].startswith(f"{FIGURES}.")
        return f"one key in quotes; write {FIGURES}.NAME without quotes" if quoted else ""
    kept = 2 if is_reported else 1
    if len(path) == kept:
        return ""
    inside = f"{show_path(path[:kept])} = {{ {show_path(path[kept:])} = ... }}"
    return f"dotted key; write {inside}" if is_reported else f"dotted key; write a table, or {inside}"


def is_derived(metric: Metric, limit: float, seen: Sequence[float], tolerance: Tolerance) -> bool:
    """Return True if a limit follows from the recorded values by the rules of the file."""
    return bool(seen) and metric.round_up(limit) == tolerance.recorded_limit_for(metric, seen)


def _is_grouping(path: Path) -> bool:
    """Return True if a table may contain only tables."""
    return (len(path) == 1 and path[0] in _GROUPS) or (
        len(path) == 3 and path[0] == "lectures" and path[2] == "variants"  # noqa: PLR2004 - as in the file's layout
    )


def _is_known(path: Path) -> bool:
    if path in {(), ("rules",)}:
        return True
    return entry_key(path) is not None or (len(path) == 2 and path[0] in {"machines", "software"})  # noqa: PLR2004
