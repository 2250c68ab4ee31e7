"""
The history: one line of JSON for each lecture and session, made to be committed and merged.

No line depends on another, so that git can merge two histories by keeping the lines of both (``merge=union``). A line
that comes twice is recognised by its id. The order of lines means nothing.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.budget.limits import HeavyCell
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.files import PlainFileError, append_plain, open_plain, read_plain_bytes
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.store.atomic import READ_ONLY, is_read_only, locked
from pytest_lecturecheck.store.budget_file.toml_text import find_conflict_markers
from pytest_lecturecheck.store.plausibility import check_numbers
from pytest_lecturecheck.store.record_layout import key_order
from pytest_lecturecheck.store.record_writer import to_plain
from pytest_lecturecheck.store.runs import SCHEMA, NewerRunFileError, check_schema, parse_json
from pytest_lecturecheck.store.surrogates import restore_surrogates
from pytest_lecturecheck.verdict.history_lines import HistoryLine, HistoryValue

_MOST_FAULTS: Final = 5
_PARTS: Final[Mapping[str, type]] = {"machine": Machine, "software": Software, "heaviest": HeavyCell}
_METRICS: Final = frozenset(map(str, Metric))


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """
    What a file of history holds.

    Attributes:
        lines: its lines, each once, the oldest first.
        faults: what was skipped, with file and line.
    """

    lines: tuple[HistoryLine, ...] = ()
    faults: tuple[str, ...] = ()


def line_to_dict(line: HistoryLine) -> dict[str, Any]:
    """Turn a line into builtin types; attributes at their defaults are left out."""
    plain = to_plain(line)
    assert isinstance(plain, dict)  # noqa: S101 - the record of a dataclass is a dict; this tells the type checker
    return {"schema": SCHEMA, **plain}


def line_from_dict(plain: Any) -> HistoryLine:
    """
    Turn builtin types back into a line. Keys that a later version added under the same schema are ignored.

    Raises:
        NewerRunFileError: the schema is newer.
        RunFileError: it is no such line.
    """
    from pytest_lecturecheck.store.record_reader import CodecError, from_plain  # noqa: PLC0415 - loads cattrs

    check_schema(plain)
    try:
        line = from_plain(HistoryLine, _known(plain), "line")
        _ = line.moment
    except CodecError as error:
        raise RunFileError(str(error).removeprefix("line: ").removeprefix("line.")) from error
    except ValueError as error:
        msg = f"ended: {line.ended!r:.80} is not a time in ISO 8601"
        raise RunFileError(msg) from error
    check_numbers(line, "line")
    return replace(line, lecture=restore_surrogates(line.lecture), variant=restore_surrogates(line.variant))


def _known(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line without the keys and metrics that this version does not know."""
    known = {key: item for key, item in plain.items() if key in _keys(HistoryLine)}
    for key, cls in _PARTS.items():
        if isinstance(known.get(key), dict):
            known[key] = _only(known[key], cls)
    if isinstance(known.get("values"), dict):
        known["values"] = {
            metric: _only(value, HistoryValue) if isinstance(value, dict) else value
            for metric, value in known["values"].items()
            if metric in _METRICS
        }
    return known


# A history has many thousands of lines.
@functools.cache
def _keys(cls: type) -> frozenset[str]:
    return frozenset(key_order(cls))


def _only(plain: Mapping[str, Any], cls: type) -> dict[str, Any]:
    return {key: item for key, item in plain.items() if key in _keys(cls)}


def append_history(path: Path, lines: Sequence[HistoryLine], hide: Callable[[str], str] = str) -> None:
    """
    Append lines; other sessions that append to a file of the same folder wait (not on Windows).

    Either all lines are appended or, after an error, none. A line that somebody cut off keeps a line of its own.

    Args:
        path: the file, which is created if it is missing.
        lines: the lines.
        hide: removes the folders of this machine from a JSON text.

    Raises:
        OSError: it cannot be written.
    """
    if not lines:
        return
    texts = [hide(json.dumps(line_to_dict(line), separators=(",", ":"), allow_nan=False)) for line in lines]
    data = "".join(f"{text}\n" for text in texts).encode("ascii")
    target = Path(os.path.realpath(path))
    if target.suffix.lower() != path.suffix.lower():
        # A link of a foreign repository may point at any file of the user.
        raise PlainFileError(path, f"it is a link to {target}; expected a link to a file that ends in {path.suffix}")
    with locked(target.parent):
        if is_read_only(target):
            raise PermissionError(errno.EACCES, READ_ONLY, str(path))
        size, is_cut = _end_of(target)
        try:
            append_plain(target, b"\n" + data if is_cut else data)
        except OSError:
            with contextlib.suppress(OSError):
                os.truncate(target, size)
            raise


def _end_of(path: Path) -> tuple[int, bool]:
    """Return the size of a file, and whether its last line has no end."""
    try:
        with open_plain(path, most_bytes=None) as stream:
            size = stream.seek(0, os.SEEK_END)
            if not size:
                return 0, False
            stream.seek(-1, os.SEEK_END)
            return size, stream.read(1) != b"\n"
    except FileNotFoundError:
        return 0, False


def read_history(path: Path) -> History:
    """
    Read a history. Lines that cannot be read, and those of newer versions, are skipped and named.

    Raises:
        RunFileError: the file itself cannot be read.
    """
    try:
        rows = read_plain_bytes(path).split(b"\n")
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror or error}"
        raise RunFileError(msg) from error
    found: dict[str, HistoryLine] = {}
    faults: list[str] = []
    newer: list[int] = []
    for number, row in enumerate(rows, start=1):
        if not row.strip():
            continue
        try:
            line = _parse(row)
        except NewerRunFileError:
            newer.append(number)
        except RunFileError as error:
            faults.append(f"{path} line {number}: {error}")
        else:
            found.setdefault(line.id, line)
    ordered = sorted(found.values(), key=lambda line: (line.moment, line.session))
    return History(lines=tuple(ordered), faults=tuple(_summary(path, faults, newer)))


def _parse(row: bytes) -> HistoryLine:
    try:
        text = row.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        msg = f"not UTF-8 at byte {error.start}"
        raise RunFileError(msg) from error
    if find_conflict_markers(text):
        msg = f"merge conflict marker {text:.60}; keep the lines of both sides ('merge=union' in .gitattributes does)"
        raise RunFileError(msg)
    return line_from_dict(parse_json(text))


def _summary(path: Path, faults: Sequence[str], newer: Sequence[int]) -> list[str]:
    shown = [*faults[:_MOST_FAULTS]]
    if len(faults) > _MOST_FAULTS:
        shown.append(f"{path}: {len(faults) - _MOST_FAULTS} more lines cannot be read")
    if newer:
        more = f" and {len(newer) - 1} more" if len(newer) > 1 else ""
        shown.append(
            f"{path} line {newer[0]}{more}: written by a newer version (schema above {SCHEMA}); "
            "update pytest-lecturecheck to read them"
        )
    return shown
