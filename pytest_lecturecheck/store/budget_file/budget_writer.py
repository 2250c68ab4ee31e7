"""
Write a budget file: only tables that changed are rewritten, and comments stay where they are.

The file is edited as text. tomlkit, which keeps whole documents, attaches the comment above a table to the table before
it, so that both are removed together. It also cannot insert a table in sorted order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Final, TypeAlias

from pytest_lecturecheck.budget.limits import (
    LectureBudget,
    MetricBudget,
    PlatformBudgets,
    ReportedValueBudget,
    Tolerance,
)
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import UnitError
from pytest_lecturecheck.model.metric import Metric, Unit
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.store.budget_file.budget_reader import (
    SCHEMA,
    BudgetText,
    EntryKey,
    Path,
    entry_key,
    is_derived,
    key_of,
    normalize_lecture,
)
from pytest_lecturecheck.store.budget_file.budget_values import FIGURES, METRICS, PACKAGE, show_path
from pytest_lecturecheck.store.budget_file.toml_text import Block, Kind, Piece, quote, trivia_lines
from pytest_lecturecheck.store.surrogates import restore_surrogates
from pytest_lecturecheck.units import GIB, KIB, MIB, TIB, format_size_up

_ORDER: Final = ("recorded", "runs", "machine", "software", *METRICS, FIGURES, "relations", "heaviest_cells")
_RANKS: Final = ("rules", "lectures", "machines", "software")
_HASH_LENGTH: Final = 7
_HEAD: Final = """\
# Limits of each lecture on {platform}. Written by: pytest --lecture-record
# Later recordings keep comments, and limits that were changed by hand.
# Values that a lecture reports (figures.*) get their limits by hand: at_least, limit, or both.

schema = {schema}
platform = {label}

[rules]
# size limit = max(highest * (1 + memory_fraction), highest + memory_slack)
# time limit = highest * time_factor + time_slack
"""
Rows: TypeAlias = dict[str, str]
"""Key to the text of its value."""


def head_text(platform: str, tolerance: Tolerance) -> str:
    """Return the text of a file without lectures."""
    head = _HEAD.format(platform=platform, schema=SCHEMA, label=quote(platform))
    return head + "".join(f"{key} = {value}\n" for key, value in _rule_rows(tolerance).items())


def update_text(old: BudgetText, budgets: PlatformBudgets) -> str:
    """Return the text of a file after ``budgets`` replaced its content."""
    wanted = with_normal_keys(budgets)
    editor = _Editor(old=old, tolerance=wanted.tolerance)
    if old.budgets.tolerance != wanted.tolerance:
        editor.put(("rules",), _rule_rows(wanted.tolerance), _rule_rows(old.budgets.tolerance))
    for key in old.budgets.lectures.keys() - wanted.lectures.keys():
        editor.remove(entry_path(key))
    for key, entry in wanted.lectures.items():
        before = old.budgets.lectures.get(key)
        if before is None or describe_entry(before, old.budgets.tolerance) != describe_entry(entry, wanted.tolerance):
            editor.put_entry(key, entry)
    editor.drop_unreferenced()
    return editor.text() if editor.has_changed else "".join(block.text for block in old.blocks) + _join(old.epilogue)


def with_normal_keys(budgets: PlatformBudgets) -> PlatformBudgets:
    """Return the budgets with the names of lectures as a file spells them."""
    entries = {
        (normalize_lecture(lecture), restore_surrogates(variant)): entry
        for (lecture, variant), entry in budgets.lectures.items()
    }
    return replace(budgets, lectures=entries)


def describe_entry(entry: LectureBudget, tolerance: Tolerance) -> tuple[Rows, Rows | None, Rows | None]:
    """Return all that a file states about an entry, as text; entries with equal text need no rewriting."""
    machine = machine_rows(entry.machine) if entry.machine else None
    software = software_rows(entry.software) if entry.software else None
    return entry_rows(entry, tolerance, {}), machine, software


def entry_path(key: EntryKey) -> Path:
    """Return the path of an entry's table."""
    lecture, variant = key
    return ("lectures", lecture, "variants", variant) if variant else ("lectures", lecture)


def entry_rows(entry: LectureBudget, tolerance: Tolerance, written: Mapping[str, Any]) -> Rows:
    """Return the keys of an entry's table without references; ``written`` holds the present values."""
    rows: Rows = {}
    if entry.recorded is not None:
        rows["recorded"] = entry.recorded.isoformat()
    if entry.run_count:
        rows["runs"] = str(entry.run_count)
    for key, metric in METRICS.items():
        budget = entry.metrics.get(metric)
        if budget is not None and (budget.limit is not None or budget.seen):
            rows[key] = _metric_text(budget, tolerance, written.get(key))
    for name, reported in sorted(entry.reported_values.items()):
        if reported.has_limit or reported.seen:
            rows[f"{FIGURES}.{name}"] = _reported_text(reported, written.get(f"{FIGURES}.{name}"))
    if entry.relations:
        rows["relations"] = _list_text([relation.text for relation in entry.relations])
    cells = [
        f"  {{ cell = {cell.number}, {'' if cell.line is None else f'line = {cell.line}, '}"
        f"peak_footprint = {quote(format_size_up(cell.peak_footprint_bytes))} }},\n"
        for cell in entry.heaviest
    ]
    if cells:
        rows["heaviest_cells"] = f"[\n{''.join(cells)}]"
    return rows


def machine_rows(machine: Machine) -> Rows:
    """Return the keys of a machine's table."""
    rows = {
        "system": quote(machine.system),
        "architecture": quote(machine.architecture),
        "cpu": quote(machine.cpu),
        "cores": str(machine.core_count),
        "ram": quote(format_size_up(machine.ram_bytes)),
    }
    if machine.swap_bytes is not None:
        rows["swap"] = quote(format_size_up(machine.swap_bytes))
    if machine.memory_limit_bytes is not None:
        rows["memory_limit"] = quote(format_size_up(machine.memory_limit_bytes))
    texts = {
        "memory_limit_source": machine.memory_limit_source,
        "transparent_hugepages": machine.transparent_hugepages,
        "driver": machine.driver,
        "cuda": machine.cuda,
    }
    rows |= {key: quote(text) for key, text in texts.items() if text}
    if machine.accelerators:
        rows["accelerators"] = f"[{', '.join(map(quote, machine.accelerators))}]"
    return rows


def software_rows(software: Software) -> Rows:
    """Return the keys of a software table."""
    rows = {"python": quote(software.python)} if software.python else {}
    if software.blas:
        rows["blas"] = _list_text(software.blas)
    packages = [f"{name}=={version}" for name, version in software.packages.items()]
    packages = [text for text in packages if PACKAGE.fullmatch(text)]
    if packages:
        rows["packages"] = _list_text(sorted(packages, key=lambda text: (text.lower(), text)))
    if software.variables:
        rows["variables"] = _list_text([f"{name}={value}" for name, value in sorted(software.variables.items())])
    return rows


def _list_text(items: tuple[str, ...] | list[str]) -> str:
    return "[\n" + "".join(f"  {quote(item)},\n" for item in items) + "]"


def _rule_rows(tolerance: Tolerance) -> Rows:
    slack, unit = tolerance.memory_slack_bytes, "B"
    for name, factor in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if slack and slack % factor == 0:
            slack, unit = slack // factor, name
            break
    seconds = repr(tolerance.time_slack_seconds).removesuffix(".0")
    return {
        "memory_fraction": repr(tolerance.memory_fraction),
        "memory_slack": quote(f"{slack} {unit}"),
        "time_factor": repr(tolerance.time_factor),
        "time_slack": quote(f"{seconds} s"),
    }


def _metric_text(budget: MetricBudget, tolerance: Tolerance, written: object) -> str:
    metric, limit = budget.metric, budget.limit
    before = written if isinstance(written, dict) else {"limit": written}
    parts = []
    if limit is not None:
        if not budget.hand_set and budget.seen:
            limit = tolerance.recorded_limit_for(metric, budget.seen)
        text = _kept_text(metric, limit, before.get("limit")) or _quantity_text(metric, limit)
        parts.append(f"limit = {text}")
        if not budget.seen and budget.method is None:
            return text
    if budget.seen:
        parts.append(f"seen = [{', '.join(_quantity_text(metric, value) for value in budget.seen)}]")
    if budget.method is not None:
        parts.append(f"method = {quote(budget.method)}")
    # Without the mark, a limit set by hand that equals the derived one would be read as derived.
    pinned = limit is not None and (is_derived(metric, limit, budget.seen, tolerance) or before.get("by_hand") is True)
    if budget.hand_set and pinned:
        parts.append("by_hand = true")
    return f"{{ {', '.join(parts)} }}"


def _reported_text(reported: ReportedValueBudget, written: object) -> str:
    """Format a reported value; each number in the shortest form that reads back unchanged."""
    before = written if isinstance(written, dict) else {}
    limits = {"at_least": reported.at_least, "limit": reported.limit}
    # A whole number stays a whole number, as its author wrote it.
    parts = [
        f"{key} = {before[key] if type(before.get(key)) is int and before[key] == value else _number_text(value)}"
        for key, value in limits.items()
        if value is not None
    ]
    if reported.seen:
        parts.append(f"seen = [{', '.join(map(_number_text, reported.seen))}]")
    if reported.unit:
        parts.append(f"unit = {quote(reported.unit)}")
    return f"{{ {', '.join(parts)} }}"


def _number_text(value: float) -> str:
    """Format a number so that it reads back unchanged, with the exponent as people write it (``1e-9``)."""
    return repr(value).replace("e-0", "e-")


def _quantity_text(metric: Metric, value: float) -> str:
    text = metric.format_value_up(value)
    return text if metric.unit is Unit.COUNT else quote(text)


def _kept_text(metric: Metric, limit: float, written: object) -> str | None:
    """Return the text of a limit as a person wrote it ("2 GB") if the limit has not changed."""
    if not isinstance(written, str) or metric.unit is Unit.COUNT:
        return None
    try:
        return quote(written) if metric.parse_value(written) == limit else None
    except UnitError:
        return None


def _join(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


@dataclass(slots=True, kw_only=True)
class _Editor:
    """The tables of one file during editing."""

    old: BudgetText
    tolerance: Tolerance
    blocks: dict[Path, Block] = field(init=False)
    names: dict[tuple[str, str], str] = field(init=False)
    references: dict[EntryKey, tuple[str | None, str | None]] = field(init=False)
    has_changed: bool = False

    def __post_init__(self) -> None:
        """Index the blocks by their normalised path, and the shared tables by their content."""
        self.blocks = {_normal_path(block.path): block for block in self.old.blocks}
        machines = {("machines", _body(machine_rows(item))): name for name, item in self.old.machines.items()}
        software = {("software", _body(software_rows(item))): name for name, item in self.old.software.items()}
        self.names = machines | software
        self.references = dict(self.old.references)

    def put_entry(self, key: EntryKey, entry: LectureBudget) -> None:
        path = entry_path(key)
        block = self.blocks.get(path)
        written = {key_of(piece.path): piece.value for piece in block.body if piece.kind is Kind.PAIR} if block else {}
        rows = entry_rows(entry, self.tolerance, written)
        machine = self.share("machines", machine_rows(entry.machine)) if entry.machine else None
        software = self.share("software", software_rows(entry.software)) if entry.software else None
        self.references[key] = (machine, software)
        rows |= {"machine": quote(machine)} if machine else {}
        rows |= {"software": quote(software)} if software else {}
        before = self.old.budgets.lectures.get(key)
        unchanged = entry_rows(before, self.old.budgets.tolerance, written) if before else {}
        old_machine, old_software = self.old.references.get(key, (None, None))
        unchanged |= {"machine": quote(old_machine)} if old_machine else {}
        unchanged |= {"software": quote(old_software)} if old_software else {}
        ordered = sorted(rows, key=lambda name: (_ORDER.index(name.partition(".")[0]), name))
        self.put(path, {name: rows[name] for name in ordered}, unchanged)

    def share(self, group: str, rows: Rows) -> str:
        """Return the name of the table that describes a machine or software, which is added if missing."""
        body = _body(rows)
        name = self.names.get((group, body))
        if name is None:
            digest = hashlib.sha256(body.encode("utf-8")).hexdigest()
            # A longer name is needed only if somebody edited the table with the short one.
            lengths = range(_HASH_LENGTH, len(digest))
            name = next(
                candidate
                for length in lengths
                if (group, candidate := f"{group[0]}{digest[:length]}") not in self.blocks
            )
            self.names[group, body] = name
        if (group, name) not in self.blocks:
            self.put((group, name), rows, {})
        return name

    def put(self, path: Path, rows: Rows, unchanged: Rows) -> None:
        """Set the keys of a table to ``rows``; rows that equal ``unchanged`` keep their spelling."""
        self.has_changed = True
        header = f"[{_header_text(path)}]"
        block = self.blocks.get(path)
        if block is None:
            piece = Piece(kind=Kind.HEADER, text=f"{header}\n", line=0, path=path)
            block = self.blocks[path] = Block(path=path, lead=trivia_lines("\n"), header=piece)
        elif block.header is not None and block.path != path:
            start, end = block.header.value_span
            text = block.header.text
            block.header = replace(block.header, text=f"{text[:start]}{header}{text[end:]}")
        body: list[Piece] = []
        for piece in block.body:
            key = key_of(piece.path)
            if piece.kind is Kind.TRIVIA or (key in rows and rows[key] == unchanged.get(key)):
                body.append(piece)
            elif key in rows:
                body += _with_value(piece, rows[key])
        order = list(rows)
        for key in (key for key in rows if key not in {key_of(piece.path) for piece in body}):
            earlier = [index for index, piece in enumerate(body) if key_of(piece.path) in order[: order.index(key)]]
            piece = Piece(kind=Kind.PAIR, text=f"{key} = {rows[key]}\n", line=0, path=(key,))
            body.insert(earlier[-1] + 1 if earlier else 0, piece)
        block.body = body

    def remove(self, path: Path) -> None:
        """Remove a table and the comment directly above it; other comments stay."""
        self.has_changed = True
        paths = list(self.blocks)
        following = paths[paths.index(path) + 1 :]
        block = self.blocks.pop(path)
        blank = max((index for index, piece in enumerate(block.lead) if piece.is_blank), default=-1)
        floating = block.lead[:blank] if any(not piece.is_blank for piece in block.lead[:blank]) else []
        if following:
            self.blocks[following[0]].lead[:0] = floating
        else:
            self.old.epilogue[:0] = floating

    def drop_unreferenced(self) -> None:
        """Remove machines and software that no entry refers to."""
        if not self.has_changed:
            return
        entries = {key for path in self.blocks if (key := entry_key(path)) is not None}
        used = [self.references[key] for key in entries]
        needed = {("machines", machine) for machine, _ in used} | {("software", software) for _, software in used}
        for path in [path for path in self.blocks if len(path) > 1 and path[0] in {"machines", "software"}]:
            if path not in needed:
                self.remove(path)

    def text(self) -> str:
        """Return the text of the whole file, with its tables in order."""
        ordered = sorted(self.blocks.items(), key=lambda item: _sort_key(item[0]))
        return "".join(block.text for _, block in ordered) + _join(self.old.epilogue)


def _with_value(piece: Piece, value: str) -> list[Piece]:
    """Replace the value of a statement; comments inside the old value move above it."""
    start, end = piece.value_span
    changed = replace(piece, text=f"{piece.text[:start]}{value}{piece.text[end:]}")
    return [*trivia_lines("".join(f"{comment}\n" for comment in piece.comments)), changed]


def _body(rows: Rows) -> str:
    return "".join(f"{key} = {value}\n" for key, value in rows.items())


def _header_text(path: Path) -> str:
    """Format the path of a header; lectures and variants are always quoted."""
    if path[0] != "lectures":
        return show_path(path)
    return ".".join(quote(part) if index % 2 else part for index, part in enumerate(path))


def _normal_path(path: Path) -> Path:
    key = entry_key(path)
    return path if key is None else entry_path(key)


def _sort_key(path: Path) -> tuple[int, Path]:
    return (_RANKS.index(path[0]) if path else -1), path
