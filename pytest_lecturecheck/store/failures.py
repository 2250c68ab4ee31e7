"""
Remembered failures of lectures that have not changed since (``.lecturecheck/failures.json``).

The file may be lost, cached between CI jobs, and written by several sessions. It holds nothing that a new run would not
find again, and every change is merged into the content of the file at that moment.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.store.atomic import write_text_atomically
from pytest_lecturecheck.store.runs import (
    StoredRun,
    run_from_dict,
    run_to_dict,
    verdict_from_dict,
    verdict_to_dict,
)

FILE_NAME: Final = "failures.json"
SCHEMA: Final = 1
MOST_KEPT: Final = 200
"""Number of failures that are kept, the latest ones."""
_DAMAGED_SUFFIX: Final = ".damaged"

Subject: TypeAlias = tuple[str, str, str]
"""Lecture, variant and platform of a failure."""


class NewerFailuresError(RunFileError):
    """The file was written by a newer version; it is not damaged and must not be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedFailure:
    """
    A failure, and a digest of everything that must be unchanged for it to be reported again.

    Attributes:
        key: digest of everything that the failure can depend on.
        stored: the run that failed, with its verdict.
    """

    key: str
    stored: StoredRun

    @property
    def subject(self) -> Subject:
        """Return lecture, variant and platform."""
        return subject_of(self.stored.run)


Failures: TypeAlias = Mapping[Subject, RememberedFailure]


def subject_of(run: Run) -> Subject:
    """Return lecture, variant and platform of a run."""
    return (run.lecture, run.variant, run.platform)


def read_failures(path: Path) -> Failures:
    """
    Read the remembered failures; a missing file has none.

    Raises:
        NewerFailuresError: written by a newer version.
        RunFileError: the file cannot be read, or is damaged; see :func:`set_aside`.
    """
    try:
        text = read_plain_bytes(path).decode("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as exc:
        reason = f"not UTF-8 at byte {exc.start}" if isinstance(exc, UnicodeDecodeError) else exc.strerror or exc
        msg = f"{path}: cannot be read: {reason}"
        raise RunFileError(msg) from exc
    try:
        return _from_plain(json.loads(text))
    except (ValueError, RecursionError) as exc:
        msg = f"{path}: not JSON: {exc}"
        raise RunFileError(msg) from exc
    except NewerFailuresError as exc:
        msg = f"{path}: {exc}"
        raise NewerFailuresError(msg) from exc
    except RunFileError as exc:
        msg = f"{path}: {exc}"
        raise RunFileError(msg) from exc


def set_aside(path: Path) -> Path:
    """
    Rename a damaged file, replacing an earlier damaged one.

    Raises:
        OSError: it cannot be renamed.
    """
    target = path.with_name(path.name + _DAMAGED_SUFFIX)
    path.replace(target)
    return target


def change_failures(
    path: Path, *, rootdir: Path, add: Iterable[RememberedFailure] = (), clear: Iterable[Subject] = ()
) -> None:
    """
    Merge changes into the file, and drop the failures of lectures that no longer exist, and the oldest ones.

    A damaged file is replaced. The file is not touched if nothing changes.

    Raises:
        NewerFailuresError: the file was written by a newer version in the meantime.
        OSError: the file cannot be written.
    """
    try:
        before = read_failures(path)
    except NewerFailuresError:
        raise
    except RunFileError:
        before = {}
    after = {subject: item for subject, item in before.items() if subject not in set(clear)}
    after.update((item.subject, _slim(item)) for item in add)
    after = {subject: item for subject, item in after.items() if _exists(rootdir, subject[0])}
    latest = sorted(after.items(), key=lambda pair: (pair[1].stored.run.launch.started, pair[0]))[-MOST_KEPT:]
    if dict(latest) != before:
        write_text_atomically(path, _to_text(item for _, item in latest))


def _slim(item: RememberedFailure) -> RememberedFailure:
    """Drop the output of cells that the failure does not concern, which no failure text shows."""
    run = item.stored.run
    number = run.evidence.cell_number if run.evidence is not None else None
    cells = tuple(cell if cell.number == number else replace(cell, output_extract="") for cell in run.cells)
    return replace(item, stored=replace(item.stored, run=replace(run, cells=cells)))


def _exists(rootdir: Path, lecture: str) -> bool:
    # Names are stored in NFC; the file system may use NFD.
    return any((rootdir / unicodedata.normalize(form, lecture)).exists() for form in ("NFC", "NFD"))


def _to_text(items: Iterable[RememberedFailure]) -> str:
    plain = [
        {
            "key": item.key,
            # A remembered failure shows no timelines, which are most of a record.
            "run": run_to_dict(replace(item.stored.run, timeline=())),
            "verdict": None if item.stored.verdict is None else verdict_to_dict(item.stored.verdict),
        }
        for item in items
    ]
    return json.dumps({"schema": SCHEMA, "failures": plain}, allow_nan=False, separators=(",", ":")) + "\n"


def _from_plain(plain: Any) -> Failures:
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if type(schema) is not int or schema < 1:
        msg = f"schema {schema!r} is not understood; expected an object with 'schema': {SCHEMA}"
        raise RunFileError(msg)
    if schema > SCHEMA:
        msg = (
            f"schema {schema} is newer than {SCHEMA}, the newest this version reads; update pytest-lecturecheck, or "
            "remove the file: every lecture is then run again"
        )
        raise NewerFailuresError(msg)
    items = plain.get("failures")
    if not isinstance(items, list):
        msg = f"found {type(items).__name__}; expected a list under the key 'failures'"
        raise RunFileError(msg)
    found = [_item_from_plain(item) for item in items]
    return {item.subject: item for item in found}


def _item_from_plain(plain: Any) -> RememberedFailure:
    key = plain.get("key") if isinstance(plain, dict) else None
    if not isinstance(key, str) or not isinstance(plain.get("run"), dict) or not isinstance(plain.get("verdict"), dict):
        msg = f"found {type(plain).__name__}; expected an object with 'key', 'run' and 'verdict'"
        raise RunFileError(msg)
    return RememberedFailure(
        key=key, stored=StoredRun(run=run_from_dict(plain["run"]), verdict=verdict_from_dict(plain["verdict"]))
    )
