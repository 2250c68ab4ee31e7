#!/usr/bin/env python3
"""
Read budgets and history for a page of a book; as a program, a plugin for mystmd.

The file stands alone: it imports the standard library only, so that a copy of it in a book is a plugin without this
package. mystmd calls it without arguments for its description, and with ``--directive NAME`` and JSON on its standard
input for the nodes of one directive ("executable" plugins of mystmd 1.8).
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DIRECTIVE: Final = "lecture-budget"
BUDGETS: Final = "lecture-budgets"
HISTORY: Final = "lecture-history.jsonl"
_BINDER_BYTES: Final = 2_000_000_000
_MOST_BYTES: Final = 1 << 26
_UNITS: Final = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?) (?P<unit>B|KiB|MiB|GiB|TiB)")
_DURATION: Final = re.compile(r"(?:(\d+) h ?)?(?:(\d+) min ?)?(?:(\d+(?:\.\d+)?) s)?")
_NO_BREAK: Final = "\N{NO-BREAK SPACE}"
"""Between a number and its unit, which would part on a narrow page."""
_HEADS: Final = ("Platform", "Peak memory", "Time", f"Fits Binder (2{_NO_BREAK}GB)")


class PageError(Exception):
    """Budgets or a directive that cannot be used; the text says where, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFact:
    """
    What was measured of one lecture on one platform.

    Attributes:
        lecture: path of the lecture below the folder of the budgets.
        platform: platform label.
        peak_bytes: highest peak of memory, or ``None``.
        wall_seconds: longest time, or ``None``.
    """

    lecture: str
    platform: str
    peak_bytes: float | None
    wall_seconds: float | None


def find_root(folder: Path) -> Path | None:
    """Return the nearest folder, from ``folder`` up, that has budgets or a history; ``None`` without any."""
    for candidate in (folder, *folder.parents):
        if (candidate / BUDGETS).is_dir() or (candidate / HISTORY).is_file():
            return candidate
    return None


def read_facts(root: Path) -> list[PageFact]:
    """
    Return what budgets hold, and what the history holds of other lectures, by lecture and platform.

    Raises:
        PageError: a file cannot be read.
    """
    found = {(fact.lecture, fact.platform): fact for fact in _history(root / HISTORY)}
    for path in sorted((root / BUDGETS).glob("*.toml")):
        found.update({(fact.lecture, fact.platform): fact for fact in _budgets(path)})
    return [found[key] for key in sorted(found)]


def _read(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        msg = f"{path} cannot be read: {exc}"
        raise PageError(msg) from exc


def _budgets(path: Path) -> Iterator[PageFact]:
    try:
        data = tomllib.loads(_read(path))
        platform = str(data.get("platform", path.stem))
        for lecture, table in data.get("lectures", {}).items():
            yield PageFact(
                lecture=lecture,
                platform=platform,
                peak_bytes=_highest(table.get("peak_footprint"), parse_size),
                wall_seconds=_highest(table.get("wall"), parse_duration),
            )
    except (ValueError, AttributeError, TypeError) as exc:
        msg = f"{path} is not a budget file: {exc}; 'lecturecheck validate' checks it"
        raise PageError(msg) from exc


def _highest(metric: Mapping[str, Any] | None, parse: Any) -> float | None:
    seen = metric.get("seen") if metric is not None else None
    return max(map(parse, seen)) if seen else None


def parse_size(text: str) -> float:
    """Return the bytes of a size of a budget file (``"161.6 MiB"``)."""
    match = _SIZE.fullmatch(text)
    if match is None:
        msg = f"{text!r} is not a size"
        raise ValueError(msg)
    return float(match["number"]) * _UNITS[match["unit"]]


def parse_duration(text: str) -> float:
    """Return the seconds of a duration of a budget file (``"5.29 s"``, ``"1 min 06 s"``)."""
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        msg = f"{text!r} is not a duration"
        raise ValueError(msg)
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _history(path: Path) -> Iterator[PageFact]:
    """Yield the last passing line of each lecture and platform; lines that cannot be read are left out."""
    lines = []
    for text in _read(path).splitlines():
        try:
            line = json.loads(text)
            if not line.get("variant") and not line.get("failed"):
                values = line["values"]
                lines.append((str(line["ended"]), str(line["lecture"]), str(line["platform"]), values))
        except (ValueError, KeyError, AttributeError, TypeError):
            continue
    for _ended, lecture, platform, values in sorted(lines, key=lambda line: line[:3]):
        peak, wall = (_value(values, name) for name in ("peak_footprint_bytes", "wall_seconds"))
        yield PageFact(lecture=lecture, platform=platform, peak_bytes=peak, wall_seconds=wall)


def _value(values: Any, name: str) -> float | None:
    entry = values.get(name) if isinstance(values, Mapping) else None
    value = entry.get("value") if isinstance(entry, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def format_size(size_bytes: float | None) -> str:
    """Return a size with three digits (``"161 MiB"``)."""
    if size_bytes is None:
        return "-"
    unit = next((name for name in reversed(_UNITS) if size_bytes >= _UNITS[name]), "B")
    return f"{_three_digits(size_bytes / _UNITS[unit])} {unit}"


def format_duration(seconds: float | None) -> str:
    """Return a duration as people write it (``"5.3 s"``, ``"2 min"``)."""
    if seconds is None:
        return "-"
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{_three_digits(seconds / size)} {unit}"
    return f"{seconds:.1f} s"


def _three_digits(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"  # noqa: PLR2004


def page_table(facts: Iterable[PageFact], lecture: str | None) -> list[tuple[str, ...]]:
    """
    Return the rows of a table, the first with the heads; no rows if nothing is known.

    Args:
        facts: what was measured.
        lecture: the page's lecture; ``None`` for a table of all.
    """
    chosen = [fact for fact in facts if lecture is None or fact.lecture == lecture]
    if not chosen:
        return []
    rows: list[tuple[str, ...]] = [_HEADS if lecture is not None else ("Lecture", *_HEADS)]
    for fact in chosen:
        fits = "-" if fact.peak_bytes is None else "yes" if fact.peak_bytes <= _BINDER_BYTES else "no"
        values = (format_size(fact.peak_bytes), format_duration(fact.wall_seconds))
        row = (fact.platform, *(text.replace(" ", _NO_BREAK) for text in values), fits)
        rows.append(row if lecture is not None else (fact.lecture, *row))
    return rows


def match_lecture(facts: Sequence[PageFact], path: Path, root: Path) -> str:
    """Return the name under which budgets know a file, with any suffix; the file's own name if they do not."""
    name = Path(path).resolve().relative_to(root.resolve()).as_posix()
    names = {fact.lecture for fact in facts}
    if name in names:
        return name
    return next((known for known in sorted(names) if known.rpartition(".")[0] == name), name)


# -- the plugin of mystmd ----------------------------------------------------------------------------------------------


def mystmd_description() -> dict[str, Any]:
    """Return what mystmd asks a plugin for first."""
    return {
        "name": "Budgets of lectures",
        "directives": [
            {
                "name": DIRECTIVE,
                "doc": "The memory and time that a lecture needs, as pytest-lecturecheck recorded them.",
                "arg": {"type": "string", "doc": "The lecture's file, relative to the book's folder."},
                "options": {"all": {"type": "boolean", "doc": "A table of all lectures."}},
            }
        ],
    }


def mystmd_nodes(data: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """
    Return the nodes of one directive.

    Args:
        data: argument and options.
        folder: the book's folder.

    Raises:
        PageError: no page is named, or a budget file cannot be read.
    """
    shows_all = bool((data.get("options") or {}).get("all"))
    if not shows_all and not data.get("arg"):
        msg = f"{DIRECTIVE} needs the page's file in mystmd, as in {{{DIRECTIVE}}} intro.md; or the option :all:"
        raise PageError(msg)
    root = find_root(folder)
    if root is None:
        return []
    facts = read_facts(root)
    lecture = None if shows_all else match_lecture(facts, folder / str(data["arg"]), root)
    rows = page_table(facts, lecture)
    if not rows:
        return []
    return [{"type": "table", "children": [_mystmd_row(row, is_head=not number) for number, row in enumerate(rows)]}]


def _mystmd_row(row: Sequence[str], *, is_head: bool) -> dict[str, Any]:
    cells = [
        {"type": "tableCell", **({"header": True} if is_head else {}), "children": [{"type": "text", "value": text}]}
        for text in row
    ]
    return {"type": "tableRow", "children": cells}


def main(arguments: Sequence[str]) -> int:
    """Answer mystmd on the standard output."""
    if not arguments:
        print(json.dumps(mystmd_description()))  # noqa: T201 - the protocol of mystmd
        return 0
    try:
        nodes = mystmd_nodes(json.load(sys.stdin), Path.cwd())
    except (PageError, ValueError) as exc:
        print(exc, file=sys.stderr)  # noqa: T201 - as above
        return 1
    print(json.dumps(nodes))  # noqa: T201 - as above
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
