"""``lecturecheck audit`` of lectures: where each belongs, and which readers can run it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_lecturecheck.errors import LectureCheckError

if TYPE_CHECKING:
    from pytest_lecturecheck.findings.measured import Measured
    from pytest_lecturecheck.findings.placement import Placed
    from pytest_lecturecheck.model.fleet import ReaderTarget

_MOST_NAMES: Final = 3
_ANSWERS: Final = {True: "yes", False: "no", None: "not measured"}


def audit_lectures(options: argparse.Namespace, root: Path) -> tuple[int, list[str]]:
    """
    Place every lecture of a repository.

    Returns:
        Exit status, and the lines to print.

    Raises:
        LectureCheckError: settings cannot be used.
    """
    from pytest_lecturecheck.commands.repository_lectures import find_lectures  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.config.option_reading import read_settings_file  # noqa: PLC0415 - as above
    from pytest_lecturecheck.config.options import resolve  # noqa: PLC0415 - as above
    from pytest_lecturecheck.findings.placement import place, read_source  # noqa: PLC0415 - as above
    from pytest_lecturecheck.lecture.reading import read_lecture  # noqa: PLC0415 - as above
    from pytest_lecturecheck.model.fleet import BUILT_IN_TARGETS  # noqa: PLC0415 - as above

    _, in_file = read_settings_file(root)
    targets: Sequence[ReaderTarget] = in_file.get("targets", BUILT_IN_TARGETS)
    measured = _measured(root)
    placed, unread = [], []
    for path in find_lectures(root, resolve({}, root, root)):
        name = path.relative_to(root).as_posix()
        try:
            lecture = read_lecture(path, name=name, root=root)
        except LectureCheckError as exc:
            unread.append(str(exc))
            continue
        if lecture.cells:
            placed.append(place(name, read_source(lecture), measured, targets))
    if options.json:
        return 0, [json.dumps({"schema": 1, "lectures": [_plain(item) for item in placed]}, indent=2)]
    return 0, _lines(placed, targets, unread)


def _measured(root: Path) -> Measured:
    from pytest_lecturecheck.findings.measured import measure  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.store.own_folder import NAME  # noqa: PLC0415 - as above
    from pytest_lecturecheck.store.session_history import FOLDER_NAME, read_sessions, session_files  # noqa: PLC0415

    folder = root / NAME / FOLDER_NAME
    if not session_files(folder):
        return measure([])
    sessions, _ = read_sessions(folder)
    return measure(sessions)


def _plain(item: Placed) -> dict[str, Any]:
    return {
        "lecture": item.lecture,
        "placement": item.placement.value,
        "why": item.why,
        "from": "runs" if item.is_measured else "source",
        "peak_footprint_bytes": item.peak_bytes,
        "reached_bytes": item.reached_bytes,
        "targets": item.targets,
        "front_matter": item.front_matter,
    }


def _lines(placed: Sequence[Placed], targets: Sequence[ReaderTarget], unread: Sequence[str]) -> list[str]:
    from pytest_lecturecheck.safe_text import one_line  # noqa: PLC0415 - not for help

    if not placed and not unread:
        return ["no lecture was found here; call it from the top of the repository, or name that with --root"]
    lines = []
    for item in placed:
        origin = "runs" if item.is_measured else "source"
        lines.append(f"{one_line(item.lecture)}: {item.placement.value} (from its {origin}: {one_line(item.why)})")
        if item.front_matter:
            lines.append(f"    front matter, below lecturecheck: {item.front_matter}")
        readers = ", ".join(f"{name} {_ANSWERS[answer]}" for name, answer in item.targets.items())
        lines.append(f"    peak {_peak_text(item)}; readers: {readers}")
    lines += [f"not read: {one_line(text, 500)}" for text in unread]
    counts = {kind: sum(item.placement == kind for item in placed) for kind in {item.placement for item in placed}}
    parts = [f"{count} {kind}" for kind, count in sorted(counts.items())]
    lines.append(f"{len(placed)} lecture{'' if len(placed) == 1 else 's'}: {', '.join(parts) or 'none'}")
    return [*lines, *(_reader_line(target, placed) for target in targets)]


def _reader_line(target: ReaderTarget, placed: Sequence[Placed]) -> str:
    """Count the lectures that a reader can run, and name those that it cannot."""
    from pytest_lecturecheck.safe_text import one_line  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.units import format_declared_size  # noqa: PLC0415 - as above

    parts = []
    for answer, text in _ANSWERS.items():
        names = [one_line(item.lecture) for item in placed if item.targets[target.name] is answer]
        if names:
            shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
            parts.append(f"{len(names)} {text}{'' if answer else f' ({shown})'}")
    return f"{target.name}, {format_declared_size(target.memory_bytes)}: {', '.join(parts) or 'no lecture was read'}"


def _peak_text(item: Placed) -> str:
    from pytest_lecturecheck.units import format_size  # noqa: PLC0415 - not for help

    if item.reached_bytes is not None and item.reached_bytes > (item.peak_bytes or 0):
        return f">= {format_size(item.reached_bytes)} in a run that did not end well"
    return "not measured" if item.peak_bytes is None else format_size(item.peak_bytes)
