"""
Convert runs, verdicts and budgets to builtin types and back, for files and for other processes.

The conversion itself is :mod:`pytest_lecturecheck.store.record_writer` and
:mod:`pytest_lecturecheck.store.record_reader`, which is loaded when something is first read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.files import read_plain_bytes
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.store.record_writer import to_plain
from pytest_lecturecheck.store.surrogates import restore_surrogates
from pytest_lecturecheck.verdict import Verdict
from pytest_lecturecheck.verdict.kept_session import KeptRun

SCHEMA: Final = 1
"""
Raised when an older version would misread a stored run. A new key alone does not raise it: versions that do not know a
key refuse the record.
"""
_MOST_SECONDS: Final = 1e12
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
    """Turn the budget that a run was compared with into builtin types, to be kept beside the run."""
    return _to_dict(budget)


def budget_from_dict(plain: Mapping[str, Any]) -> LectureBudget:
    """
    Turn builtin types back into a budget.

    Raises:
        RunFileError: a newer schema, or a value that is not what it should be.
    """
    return _from_dict(LectureBudget, plain, "budget")


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


def entry_to_dict(run: Run, verdict: Verdict, *, seconds: float, budget: LectureBudget | None = None) -> dict[str, Any]:
    """Convert one entry of a session to builtin types: for another process, a report, or a kept session."""
    plain = {"run": run_to_dict(run), "verdict": verdict_to_dict(verdict), "seconds": seconds}
    return plain if budget is None else {**plain, "budget": budget_to_dict(budget)}


def entry_from_dict(plain: object, place: str = "entry") -> KeptRun:
    """
    Convert what :func:`entry_to_dict` returned back.

    Args:
        plain: builtin types, perhaps from a file that somebody changed.
        place: what messages call the entry ("run 3").

    Raises:
        RunFileError: a newer schema, or a value that is not what it should be.
    """
    if not isinstance(plain, dict) or not isinstance(plain.get("run"), dict):
        msg = f"{place}: found {type(plain).__name__}; expected an object with 'run' and 'verdict'"
        raise RunFileError(msg)
    if not isinstance(plain.get("verdict"), dict):
        msg = f"{place}: it has no verdict; expected a document of a session"
        raise RunFileError(msg)
    seconds = plain.get("seconds", 0.0)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= _MOST_SECONDS:
        msg = f"{place}: seconds {seconds!r:.80} is not a number of seconds"
        raise RunFileError(msg)
    budget = plain.get("budget")
    return KeptRun(
        run=run_from_dict(plain["run"]),
        verdict=verdict_from_dict(plain["verdict"]),
        seconds=float(seconds),
        budget=budget_from_dict(budget) if budget is not None else None,
    )


def _to_dict(value: Run | Verdict | LectureBudget) -> dict[str, Any]:
    plain = to_plain(value)
    assert isinstance(plain, dict)  # noqa: S101 - the record of a dataclass is a dict; this tells the type checker
    return {"schema": SCHEMA, **plain}


def _from_dict(cls: type[_T], plain: Mapping[str, Any], name: str) -> _T:
    from pytest_lecturecheck.store.record_reader import CodecError, from_plain  # noqa: PLC0415 - loads cattrs

    check_schema(plain)
    try:
        return from_plain(cls, {key: item for key, item in plain.items() if key != "schema"}, name)
    except CodecError as error:
        raise RunFileError(str(error)) from error


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
    msg = f"it has {word}, which is not a number"
    raise ValueError(msg)
