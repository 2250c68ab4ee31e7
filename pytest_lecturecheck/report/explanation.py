"""Explain the failures of a session for a program: cause, evidence, advice and the next commands, as JSON or text."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis.cause import CauseKind
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.memory_text import cell_lines, lacks_peak_lines
from pytest_lecturecheck.safe_text import cut, one_line
from pytest_lecturecheck.safe_text import plain as safe
from pytest_lecturecheck.verdict import VerdictKind
from pytest_lecturecheck.verdict.joint_failures import JOINT_NOTE

SCHEMA: Final = 1
_MOST_ITEMS: Final = 20
_MOST_LINES: Final = 40
_MOST_CHARS: Final = 400
_LONG_SECONDS: Final = 60.0
_REPLAYED_CAUSES: Final = frozenset(
    {
        CauseKind.REQUEST_REFUSED,
        CauseKind.MEMORY_EXHAUSTED,
        CauseKind.LIBRARY_LIMIT,
        CauseKind.LIBRARY_OUT_OF_MEMORY,
        CauseKind.OOM_KILLED,
        CauseKind.STOPPED_AT_CAP,
        CauseKind.NATIVE_OUT_OF_MEMORY,
        CauseKind.NATIVE_CRASH,
    }
)
_NOT_RUN_AGAIN: Final = frozenset({VerdictKind.UNREADABLE, VerdictKind.NOT_STARTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCommand:
    """
    A command that helps with a failure.

    Attributes:
        command: the command line, quoted for a POSIX shell.
        why: what it shows.
    """

    command: str
    why: str


def render_explanation(entries: Sequence[Entry], *, session: str, platform: str) -> str:
    """
    Render the failures as JSON.

    Args:
        entries: the session's entries.
        session: the session's name.
        platform: platform label.
    """
    failures = [_plain(entry, session) for entry in entries if entry.verdict.failed]
    document = {
        "schema": SCHEMA,
        "session": session,
        "platform": platform,
        "runs": len(entries),
        "failures": failures,
    }
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def explanation_lines(entries: Sequence[Entry], *, session: str) -> Iterator[str]:
    """Yield the failures as text, one paragraph each."""
    failed = [entry for entry in entries if entry.verdict.failed]
    if not failed:
        yield f"{session}: nothing failed in {len(entries)} run{'' if len(entries) == 1 else 's'}"
    for position, entry in enumerate(failed):
        if position:
            yield ""
        plain = _plain(entry, session)
        yield f"{entry.location}: {entry.kind_and_headline}"
        if plain["cause"]:
            yield f"  cause: {plain['cause']}"
        yield from (f"  evidence: {one_line(text)}" for text in plain["evidence"])
        yield from (f"  advice: {one_line(text)}" for text in plain["advice"])
        yield from (f"  next: {item['command']}   # {item['why']}" for item in plain["next"])


def _plain(entry: Entry, session: str) -> dict[str, Any]:
    run, verdict, cause = entry.run, entry.verdict, entry.verdict.cause
    return {
        "lecture": one_line(run.lecture),
        "variant": one_line(run.variant),
        "platform": one_line(run.platform),
        "verdict": verdict.kind.value,
        "headline": entry.headline,
        "cause": None if cause is None else cause.kind.value,
        "cell": None if entry.focus is None else entry.focus.number,
        "line": entry.line,
        "evidence": [_text(item) for item in _evidence(entry)][:_MOST_ITEMS],
        "advice": [_text(item) for item in (cause.advice if cause is not None else ())][:_MOST_ITEMS],
        "limits": [
            {"metric": metric.value, "measured": item.measured.value, "limit": item.limit}
            for metric, item in entry.exceeded.items()
            if item.measured is not None
        ],
        "next": [{"command": item.command, "why": item.why} for item in next_commands(entry, session)],
    }


def _evidence(entry: Entry) -> Iterator[str]:
    """Yield what several failures say together, and what the cause rests on; for a limit, what was in memory."""
    yield from (note for note in entry.verdict.notes if note.startswith(JOINT_NOTE))
    if (cause := entry.verdict.cause) is not None:
        yield from cause.evidence
    elif entry.is_over and entry.focus is not None:
        yield from cell_lines(entry, entry.focus)


def _text(text: str) -> str:
    """Return safe text of bounded length, with its lines."""
    return cut(safe(text), _MOST_LINES, _MOST_CHARS)


def next_commands(entry: Entry, session: str) -> tuple[NextCommand, ...]:
    """Return what to call next; a name with control characters cannot be pasted, so that it has no commands."""
    name = entry.run.lecture
    if one_line(name) != name:
        return ()
    return tuple(_commands(entry, session, shlex.quote(f"./{name}"), shlex.quote(name)))


def _commands(entry: Entry, session: str, path: str, name: str) -> Iterator[NextCommand]:
    kind = entry.verdict.kind
    is_program = entry.run.is_program
    if kind not in _NOT_RUN_AGAIN and not is_program:
        yield NextCommand(
            command=f"pytest --lecture-budget --lecture-rerun-failed {path}",
            why="run this lecture again after a change",
        )
    if entry.is_over:
        yield NextCommand(command=f"lecturecheck show {name}", why="since when it grew, and what changed underneath")
    has_jax = entry.run.measured(Metric.COMPILE) is not None
    if has_jax and not entry.exceeded.keys().isdisjoint((Metric.COMPILE, Metric.WALL)):
        yield NextCommand(
            command=f"pytest --lecture-budget --lecture-profile=over {path}", why="where the time of JAX goes"
        )
    if lacks_peak_lines(entry):
        yield NextCommand(
            command=f"pytest --lecture-budget --lecture-profile=memory {path}", why="which lines hold the peak"
        )
    if not is_program and _is_worth_a_replay(entry):
        yield NextCommand(
            command=f"pytest --lecture-budget --lecture-replay-capture failing {path}",
            why="save what the failing cell reads; lecturecheck replay then runs it alone",
        )
    if kind is VerdictKind.OVER:
        recording = f"lecturecheck record {shlex.quote(session)}" if is_program else f"pytest --lecture-record {path}"
        yield NextCommand(command=recording, why="accept the new values, for review as a change of the budget")
    if kind is VerdictKind.UNREADABLE:
        yield NextCommand(command=f"lecturecheck validate {path}", why="check the file and its settings")
    yield NextCommand(
        command=f"lecturecheck report {shlex.quote(session)} -o report.html", why="cells, memory over time, evidence"
    )


def _is_worth_a_replay(entry: Entry) -> bool:
    """Return True if a cell ended badly after others that took long, for its memory, or in compiled code."""
    run, cause = entry.run, entry.verdict.cause
    if run.members or cause is None or run.evidence is None or not run.evidence.cell_number:
        return False
    return run.captured_cell is None and (cause.kind in _REPLAYED_CAUSES or entry.wall_seconds >= _LONG_SECONDS)
