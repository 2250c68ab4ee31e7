"""Parse Jupyter notebooks: nbformat 4 directly, older versions after an upgrade in memory. Nothing is written."""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import nbformat

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.formats.json_lines import locate_lines
from pytest_lecturecheck.lecture.formats.notebook import convert, to_node
from pytest_lecturecheck.lecture.formats.parsed import Parsed, SourceLocation
from pytest_lecturecheck.lecture.plain import TooLargeError, plain
from pytest_lecturecheck.lecture.source_text import conflict_reason, find_conflict, has_surrogates
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import LectureFormat

_MAJOR: Final = 4
_OLDEST_MAJOR: Final = 2
_MINOR_WITH_IDS: Final = 5
_CELL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MISSING: Final = object()
_MOST_SHOWN: Final = 40
_CELL_TYPES: Final = frozenset({"code", "markdown", "raw"})
_OTHER_FILES: Final = {
    "version https://git-lfs.github.com/spec/": (
        "is a pointer of Git LFS, not the notebook itself; fetch it with 'git lfs pull'"
    ),
    "<": "is not JSON but a web page or XML (it begins with '<'); was it saved from a browser?",
}


def parse_ipynb(text: str, *, name: str) -> Parsed:
    """
    Parse the JSON of a notebook.

    Args:
        text: the file.
        name: the file as the user knows it.

    Raises:
        LectureReadError: not JSON, not a notebook, an unknown version, or invalid cells.
    """
    data = _load_json(text, name=name)
    major = _major_version(data, name=name)
    if major == _MAJOR:
        _check_cells(data, name=name)
        lines = locate_lines(text, data["cells"])
    else:
        lines = locate_lines(text, ())
        data = _upgrade(data, major, name=name)
        _check_cells(data, name=name)
    findings = tuple(_normalise(data, major))
    # JupyterLab keeps widget states in the metadata. They can be large and do not affect the run.
    data["metadata"].pop("widgets", None)
    try:
        metadata = dict(plain(data["metadata"]))
        document = to_node(data)
    except (TooLargeError, RecursionError) as exc:
        reason = str(exc) if isinstance(exc, TooLargeError) else "is nested too deeply"
        raise LectureReadError(name, None, f"metadata {reason}") from exc
    locations = tuple(
        SourceLocation(line=lines.sources[index] if major == _MAJOR else None)
        for index, cell in enumerate(data["cells"])
        if cell["cell_type"] == "code"
    )
    return Parsed(
        format=LectureFormat.IPYNB,
        document=document,
        locations=locations,
        metadata=metadata,
        key_lines=lines.keys,
        findings=findings,
    )


def _load_json(text: str, *, name: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:
        if conflict := find_conflict(text):
            raise LectureReadError(name, conflict[0], conflict_reason(conflict[0])) from exc
        raise LectureReadError(name, *_json_fault(text, exc)) from exc
    if not isinstance(data, dict):
        msg = f"is JSON but not a notebook: its top level is a {_json_type(data)}; expected an object with 'cells'"
        raise LectureReadError(name, 1, msg)
    return data


def _json_fault(text: str, exc: Exception) -> tuple[int | None, str]:
    for beginning, fault in _OTHER_FILES.items():
        if text.lstrip().startswith(beginning):
            return 1, fault
    if not text.strip():
        return 1, "is blank; expected a notebook (JSON)"
    if isinstance(exc, RecursionError):
        return None, "is not readable JSON: it is nested too deeply"
    if not isinstance(exc, json.JSONDecodeError):
        return None, f"is not readable JSON: {exc}"
    # An error after the last character, or an unterminated string, means that the file was cut off.
    if not text[exc.pos :].strip() or exc.msg.startswith("Unterminated string"):
        return exc.lineno, "is not complete JSON: the file ends in the middle (cut off or partly downloaded?)"
    return exc.lineno, f"is not JSON: {exc.msg} (column {exc.colno}); expected a notebook"


def _json_type(value: object) -> str:
    names = {list: "list", str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _major_version(data: Mapping[str, Any], *, name: str) -> int:
    major = data.get("nbformat")
    if major is None and "cells" not in data and "worksheets" not in data:
        msg = "is JSON but not a notebook: it has neither 'nbformat' nor 'cells'"
        raise LectureReadError(name, None, msg)
    if isinstance(major, bool) or not isinstance(major, int) or not _OLDEST_MAJOR <= major <= _MAJOR:
        found = f"nbformat {major!r}" if "nbformat" in data else "cells but no 'nbformat'"
        msg = f"has {found}; expected 4 (3 and 2 are upgraded in memory)"
        raise LectureReadError(name, None, msg)
    return major


def _upgrade(data: dict[str, Any], major: int, *, name: str) -> dict[str, Any]:
    """Convert an older notebook, without the warnings and log messages of nbformat."""
    logger = logging.getLogger("traitlets")  # nbformat reports an invalid notebook there
    was_disabled, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            older = nbformat.versions[major].to_notebook_json(data, minor=data.get("nbformat_minor", 0))
            upgraded = convert(older, _MAJOR)
    except Exception as exc:
        # The upgrade does not validate its input, so any exception is a fault of the file.
        msg = f"has nbformat {major} and cannot be upgraded to 4: {type(exc).__name__}: {exc}"
        raise LectureReadError(name, None, msg) from exc
    finally:
        logger.disabled = was_disabled
    return dict(upgraded)


def _check_cells(data: dict[str, Any], *, name: str) -> None:
    cells = data.get("cells")
    if not isinstance(cells, list):
        msg = f"has no list of cells ('cells' is a {_json_type(cells)})" if "cells" in data else "has no 'cells'"
        raise LectureReadError(name, None, f"{msg}; expected nbformat 4")
    number = 0
    for index, cell in enumerate(cells):
        kind = cell.get("cell_type") if isinstance(cell, dict) else None
        if not isinstance(kind, str) or kind not in _CELL_TYPES:
            msg = f"cell {index + 1} has cell_type {kind!r}; expected 'code', 'markdown' or 'raw'"
            raise LectureReadError(name, None, msg)
        number += kind == "code"
        source = cell.get("source", "")
        if isinstance(source, list) and all(isinstance(piece, str) for piece in source):
            source = "".join(source)
        where = f"code cell {number}" if kind == "code" else f"cell {index + 1}"
        if not isinstance(source, str):
            msg = f"{where} has a source that is neither text nor a list of lines"
            raise LectureReadError(name, None, msg)
        if kind == "code" and has_surrogates(source):
            msg = f"{where} holds half a surrogate pair, which no encoding can write; remove the \\ud8xx escape"
            raise LectureReadError(name, None, msg)


def _normalise(data: dict[str, Any], major: int) -> Iterator[Finding]:
    """Normalise cells in memory: sources joined, outputs removed, ids present and unique."""
    for cell in data["cells"]:
        source = cell.get("source", "")
        cell["source"] = source if isinstance(source, str) else "".join(source)
        if not isinstance(cell.get("metadata"), dict):
            cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    minor = data.get("nbformat_minor")
    data["nbformat"] = _MAJOR
    data["nbformat_minor"] = minor if isinstance(minor, int) and not isinstance(minor, bool) else _MINOR_WITH_IDS
    if not isinstance(data.get("metadata"), dict):
        data["metadata"] = {}
    if major != _MAJOR:
        yield Finding(
            kind=FindingKind.FORMAT, message=f"nbformat {major} was read as nbformat 4; the file is unchanged"
        )
    yield from _fix_ids(data["cells"], has_ids=data["nbformat_minor"] >= _MINOR_WITH_IDS, is_upgraded=major != _MAJOR)


def _fix_ids(cells: list[dict[str, Any]], *, has_ids: bool, is_upgraded: bool) -> Iterator[Finding]:
    """
    Give every cell a valid id of its own in memory.

    Args:
        cells: the cells.
        has_ids: whether cells have ids in this version; in earlier ones nbformat refuses them.
        is_upgraded: whether the file has an older format, whose cells have no ids.

    Yields:
        One finding for ids that are missing or invalid, and one for ids that cells share.
    """
    found = [cell.get("id", _MISSING) for cell in cells]
    invalid = [index for index, cell_id in enumerate(found) if not _is_valid(cell_id, is_needed=has_ids)]
    counts = Counter(cell_id for cell_id in found if isinstance(cell_id, str) and _CELL_ID.fullmatch(cell_id))
    if has_ids:
        _replace_ids(cells, set(counts))
    else:
        for cell in cells:
            cell.pop("id", None)
    shared = [cell_id for cell_id, count in counts.items() if count > 1]
    if shared:
        which = f"{shared[0]!r}" if len(shared) == 1 else f"{shared[0]!r} and {len(shared) - 1} more"
        message = f"cells share an id ({which}); measurements are matched by position"
        yield Finding(kind=FindingKind.FORMAT, message=message)
    if invalid and not is_upgraded:
        first = found[invalid[0]]
        what = "no id" if first is _MISSING else f"id {_shown(first)}"
        which = "1 cell has" if len(invalid) == 1 else f"{len(invalid)} cells have"
        where = f"cell {invalid[0] + 1}: {what}" if len(invalid) == 1 else f"first cell {invalid[0] + 1}: {what}"
        message = f"{which} no valid id ({where}); measurements are matched by position"
        yield Finding(kind=FindingKind.FORMAT, message=message)


def _is_valid(cell_id: object, *, is_needed: bool) -> bool:
    if cell_id is _MISSING:
        return not is_needed
    return isinstance(cell_id, str) and _CELL_ID.fullmatch(cell_id) is not None


def _replace_ids(cells: list[dict[str, Any]], taken: set[str]) -> None:
    """Replace ids that are missing, invalid or used before; ``taken`` are the valid ones."""
    seen: set[str] = set()
    for index, cell in enumerate(cells):
        cell_id = cell.get("id")
        if isinstance(cell_id, str) and cell_id in taken and cell_id not in seen:
            seen.add(cell_id)
            continue
        serial = index
        while (fresh := f"cell-{serial}") in taken or fresh in seen:
            serial += len(cells)
        seen.add(fresh)
        cell["id"] = fresh


def _shown(cell_id: object) -> str:
    text = json.dumps(cell_id, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
