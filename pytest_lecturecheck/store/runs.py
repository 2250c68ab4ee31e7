"""Keep runs and verdicts: in files, and as one string to send from one process to another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.store.atomic import write_text_atomically
from pytest_lecturecheck.store.codec import CodecError, from_plain, to_plain
from pytest_lecturecheck.store.surrogates import restore_surrogates
from pytest_lecturecheck.verdict import Verdict

SCHEMA: Final = 1
"""Raised when a stored run would be misread by an older version; new attributes alone do not raise it."""
_T = TypeVar("_T")


class NewerRunFileError(RunFileError):
    """A stored run that a newer version has written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """
    A run with what was said about it.

    Attributes:
        run: the run.
        verdict: its verdict, or ``None`` where it has not been judged.
    """

    run: Run
    verdict: Verdict | None = None


def run_to_dict(run: Run) -> dict[str, Any]:
    r"""
    Turn a run into builtin types; ``json.dumps`` takes it whatever the lecture printed.

    Attributes at their default are left out; lone surrogates are escaped (``\udcff``).
    """
    return _to_dict(run)


def run_from_dict(plain: Mapping[str, Any]) -> Run:
    """
    Turn builtin types back into a run.

    Raises:
        RunFileError: a newer schema, or a value that is not what it should be.
    """
    run = _from_dict(Run, plain, "run")
    return replace(run, lecture=restore_surrogates(run.lecture))


def verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    """Turn a verdict (comparisons, notes, cause) into builtin types."""
    return _to_dict(verdict)


def verdict_from_dict(plain: Mapping[str, Any]) -> Verdict:
    """
    Turn builtin types back into a verdict.

    Raises:
        RunFileError: a newer schema, or a value that is not what it should be.
    """
    return _from_dict(Verdict, plain, "verdict")


def budget_to_dict(budget: LectureBudget) -> dict[str, Any]:
    """Turn the budget that a run was held against into builtin types, to be kept beside the run."""
    return _to_dict(budget)


def budget_from_dict(plain: Mapping[str, Any]) -> LectureBudget:
    """
    Turn builtin types back into a budget.

    Raises:
        RunFileError: a newer schema, or a value that is not what it should be.
    """
    return _from_dict(LectureBudget, plain, "budget")


def dumps(stored: StoredRun) -> str:
    """Give one compact ASCII string, fit for pytest's ``user_properties`` and for xdist."""
    return json.dumps(_stored_to_dict(stored), allow_nan=False, separators=(",", ":"))


def loads(text: str) -> StoredRun:
    """
    Read back what :func:`dumps` gave.

    Raises:
        RunFileError: not JSON, a newer schema, or a value that is not what it should be.
    """
    return _stored_from_dict(parse_json(text))


def write_runs(path: Path, runs: Sequence[StoredRun]) -> None:
    """
    Write runs with their verdicts to a JSON file, wholly or not at all.

    Raises:
        RunFileError: the file cannot be written; what was there before is still there.
    """
    plain = {"schema": SCHEMA, "runs": [_stored_to_dict(stored) for stored in runs]}
    text = json.dumps(plain, allow_nan=False, ensure_ascii=False, indent=1) + "\n"
    try:
        write_text_atomically(path, text)
    except OSError as error:
        msg = f"{path}: cannot be written: {error.strerror or error}"
        raise RunFileError(msg) from error


def read_runs(path: Path) -> tuple[StoredRun, ...]:
    """
    Read the runs of a JSON file.

    Raises:
        RunFileError: the file cannot be read, is not JSON, has a newer schema, or holds what no run holds.
    """
    text = read_text(path)
    try:
        return _runs_from_dict(parse_json(text))
    except RunFileError as error:
        msg = f"{path}: {error}"
        raise type(error)(msg) from error


def read_text(path: Path) -> str:
    """
    Read a file of this tool.

    Raises:
        RunFileError: it cannot be read, or is not UTF-8.
    """
    try:
        return read_plain_bytes(path).decode("utf-8")
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror or error}"
        raise RunFileError(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{path}: not UTF-8 at byte {error.start}; expected a file written by this tool"
        raise RunFileError(msg) from error


def _runs_from_dict(plain: Any) -> tuple[StoredRun, ...]:
    check_schema(plain)
    runs = plain.get("runs")
    if not isinstance(runs, list):
        msg = f"found {type(runs).__name__}; expected a list of runs under the key 'runs'"
        raise RunFileError(msg)
    return tuple(_stored_from_dict(item) for item in runs)


def _stored_to_dict(stored: StoredRun) -> dict[str, Any]:
    verdict = None if stored.verdict is None else verdict_to_dict(stored.verdict)
    return {"run": run_to_dict(stored.run), "verdict": verdict}


def _stored_from_dict(plain: object) -> StoredRun:
    if not isinstance(plain, dict) or not isinstance(plain.get("run"), dict):
        msg = f"found {type(plain).__name__}; expected an object with 'run' and 'verdict'"
        raise RunFileError(msg)
    verdict = plain.get("verdict")
    return StoredRun(run=run_from_dict(plain["run"]), verdict=None if verdict is None else verdict_from_dict(verdict))


def _to_dict(value: Run | Verdict | LectureBudget) -> dict[str, Any]:
    plain = to_plain(value)
    assert isinstance(plain, dict)  # noqa: S101 - dataclasses give dicts; this tells the type checker
    return {"schema": SCHEMA, **plain}


def _from_dict(cls: type[_T], plain: object, name: str) -> _T:
    check_schema(plain)
    try:
        value: _T = from_plain(cls, plain, name)
    except CodecError as error:
        raise RunFileError(str(error)) from error
    return value


def check_schema(plain: object) -> None:
    """
    Refuse what is no document of this tool, or one of a newer version.

    Raises:
        NewerRunFileError: the schema is newer.
        RunFileError: there is no schema.
    """
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if type(schema) is not int or schema < 1:
        msg = f"schema {schema!r} is not understood; expected an object with 'schema': {SCHEMA}"
        raise RunFileError(msg)
    if schema > SCHEMA:
        msg = f"schema {schema} is newer than {SCHEMA}, the newest this version reads; update pytest-lecturecheck"
        raise NewerRunFileError(msg)


def parse_json(text: str) -> Any:
    """
    Read JSON.

    Raises:
        RunFileError: it is none.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        msg = f"not JSON: {error}"
        raise RunFileError(msg) from error


def _refuse_constant(word: str) -> Any:
    """Refuse ``NaN`` and ``Infinity``, which Python reads, JSON does not have, and this tool does not write."""
    msg = f"it has {word}, which is no number"
    raise ValueError(msg)
