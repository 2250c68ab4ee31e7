"""
Save the state that one cell reads, by a silent request before the cell's measurement begins.

The request is no part of the cell's time and peak. What it leaves in the kernel (an imported cloudpickle, freed pages
that the allocator keeps) can change the memory of this cell and of later ones, so such a run is compared with nothing.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.files import open_plain, remove_tree
from pytest_lecturecheck.kernel.run.agent_source import agent_source
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.kernel.run.ports import Capture
from pytest_lecturecheck.kernel.run.run_clock import RunClock
from pytest_lecturecheck.model.captured_state import CapturedState
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.units import format_size

_SECONDS: Final = 1800.0
_ANSWER_FILE: Final = "replay-answer"
_ANSWER_BYTES: Final = 1 << 22
_TEXT_CHARS: Final = 300
_SHOWN_NAMES: Final = 5


class StateCapture:
    """
    Saves the state before the requested cell.

    Args:
        capture: the cell and the folder; ``None`` saves nothing.
        findings: receives what was saved, and what could not be.
    """

    def __init__(self, capture: Capture | None, findings: list[Finding]) -> None:
        """Save nothing yet."""
        self._capture = capture
        self._findings = findings

    async def begin(self, session: KernelSession, cell: Cell, clock: RunClock) -> None:
        """Save the state if this is the cell; the time does not count for the lecture's limit."""
        capture = self._capture
        if capture is None or cell.number != capture.cell_number:
            return
        if not session.has_agent:
            self._not_saved(cell, "only the state of Python kernels can be saved")
            return
        try:
            folder = _make_folder(capture)
        except OSError as exc:
            self._not_saved(cell, f"no folder could be made for it: {exc.strerror or exc}")
            return
        began = time.perf_counter()
        answer = await _ask(session, cell.source, folder, capture.limit_bytes)
        clock.exclude(time.perf_counter() - began)
        if fault := answer.get("error"):
            self._not_saved(cell, str(fault)[:_TEXT_CHARS])
            return
        state = _state_of(cell.number, answer)
        self._findings.append(_note(cell, state))
        capture.on_captured(state)

    def _not_saved(self, cell: Cell, why: str) -> None:
        message = f"the state before code cell {cell.number} was not saved: {why}"
        finding = Finding(kind=FindingKind.REPLAY, message=message, cell_number=cell.number, line=cell.line)
        self._findings.append(finding)


def _make_folder(capture: Capture) -> Path:
    """Create the empty folder for the data; it must be below rootdir even if the lecture created links."""
    folder = capture.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.parent.resolve().is_relative_to(capture.root.resolve()):
        msg = "it would lie outside of pytest's rootdir"
        raise OSError(msg)
    if folder.exists():
        remove_tree(folder)
    data = folder / "data"
    data.mkdir(parents=True)
    return data


async def _ask(session: KernelSession, source: str, folder: Path, limit_bytes: int) -> dict[str, Any]:
    path = Path(session.kernel.folder) / _ANSWER_FILE
    path.unlink(missing_ok=True)
    call = f"capture({str(path)!r}, get_ipython(), {source!r}, {str(folder)!r}, {limit_bytes})"
    code = f"compile({agent_source('replay_agent') + call!r}, '<lecturecheck replay>', 'exec')"
    names = "{'__name__': 'lecturecheck_replay', 'get_ipython': get_ipython}"
    reply = await session.ask(f"exec({code}, {names})", _SECONDS)
    if reply is None:
        ended = "the kernel ended while it was saved"
        return {"error": ended if session.has_ended else f"the kernel did not answer within {_SECONDS:g} s"}
    return _read_answer(path)


def _read_answer(path: Path) -> dict[str, Any]:
    try:
        # The kernel wrote it: a link or a pipe in its place is not followed or waited for.
        with open_plain(path, most_bytes=None, follow_links=False) as file:
            answer: Any = json.loads(file.read(_ANSWER_BYTES))
    except (OSError, ValueError, RecursionError):
        answer = None
    return answer if isinstance(answer, dict) else {"error": "the kernel left no answer"}


def _state_of(number: int, answer: dict[str, Any]) -> CapturedState:
    change = answer.get("memory_change_bytes")
    arrays = [item for item in answer.get("arrays", []) if isinstance(item, dict)]
    pickled = dict(answer.get("pickled", {}))
    kinds = {str(item.get("name")): str(item.get("kind") or f"the same as {item.get('same_as')}") for item in arrays}
    saved = {
        **dict.fromkeys(map(str, answer.get("modules", {})), "module"),
        **dict.fromkeys(map(str, answer.get("values", {})), "value"),
        **kinds,
        **dict.fromkeys(map(str, pickled), "pickle"),
    }
    return CapturedState(
        cell_number=number,
        saved={name: saved[name] for name in map(str, answer.get("names", [])) if name in saved},
        missing={str(name): str(why)[:_TEXT_CHARS] for name, why in dict(answer.get("missing", {})).items()},
        written_bytes=sum(int(item.get("bytes", 0)) for item in arrays) + sum(map(int, pickled.values())),
        seconds=float(answer.get("seconds", 0.0)),
        memory_change_bytes=change if isinstance(change, int) else None,
        has_cloudpickle=bool(answer.get("has_cloudpickle")),
        local_modules=tuple(map(str, answer.get("local_modules", []))),
    )


def _note(cell: Cell, state: CapturedState) -> Finding:
    count = len(state.saved)
    text = f"the state before code cell {cell.number} was saved: {count} name{'' if count == 1 else 's'}"
    text += f", {format_size(state.written_bytes)}, in {state.seconds:.1f} s"
    if state.memory_change_bytes is not None:
        sign = "-" if state.memory_change_bytes < 0 else "+"
        text += f"; it changed the kernel's memory by {sign}{format_size(abs(state.memory_change_bytes))}"
    if state.missing:
        shown = [f"{name!r} ({why})" for name, why in list(state.missing.items())[:_SHOWN_NAMES]]
        more = len(state.missing) - len(shown)
        text += f"; not saved: {', '.join(shown)}{f' and {more} more' if more else ''}"
    return Finding(kind=FindingKind.REPLAY, message=text, cell_number=cell.number, line=cell.line)
