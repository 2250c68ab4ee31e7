"""
Get the Python stack of a running kernel from outside.

The agent registers faulthandler for a spare signal. Its handler is written in C and prints the frames of the main
thread, so a kernel answers even while native code holds the GIL.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.agent.core import TIMED_FILES
from pytest_lecturecheck.kernel.messages.cell_files import CellFiles, is_cell_file
from pytest_lecturecheck.kernel.messages.crash_record import read_private_file

# A separate name makes the type checker look at both branches on every system.
_IS_LINUX: Final[bool] = sys.platform.startswith("linux")
_FRAME: Final = re.compile(r'  File "(?P<path>.*)", line (?P<line>[0-9]{1,9}) in (?P<name>.*)')
_PACKAGES: Final = re.compile(r".*[/\\](?:site-packages|dist-packages)[/\\]")
_WAITING_LOOP: Final = "the kernel's event loop, waiting: the cell awaits something that has not ended"
_FAULT: Final = re.compile(r"^(?:Fatal Python error|Windows fatal exception): .*$", re.MULTILINE)
_LONGEST_BYTES: Final = 64 * 1024
_FRAMES: Final = 60
_TEXT_CHARS: Final = 160
_ANSWER_SECONDS: Final = 5.0
"""On a busy machine a process may wait for seconds before it handles a signal."""
_ROUND_SECONDS: Final = 0.015
_STILL_ROUNDS: Final = 10
_WHOLE: Final = re.compile(rb"(?: in _run_module_as_main|  \.\.\.)\n\Z")
"""The outermost frame of a program started with ``-m``, or faulthandler's mark of a truncated stack."""
_CAUGHT: Final = re.compile(r"^SigCgt:\s*([0-9a-f]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOffer:
    """
    How the agent can be asked for the stack.

    Attributes:
        signal: number of the signal that triggers the dump.
        fd: the kernel's descriptor of the file that receives it.
        pid: the kernel's own process id, as seen in the kernel.
    """

    signal: int
    fd: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """
    Python frames of a cell.

    Attributes:
        frames: innermost first, down to the cell ("jax/_src/compiler.py:362 in backend_compile",
            "code cell 2, line 41"); frames of the kernel itself are omitted.
        cell_line: 1-based line of the running cell's innermost frame, or ``None``.
    """

    frames: tuple[str, ...] = ()
    cell_line: int | None = None


def clean_offer(payload: object) -> StackOffer | None:
    """Return the agent's offer, or ``None`` if it is malformed."""
    if not isinstance(payload, dict):
        return None
    number, descriptor, pid = (payload.get(name) for name in ("signal", "fd", "pid"))
    if not all(isinstance(value, int) and value > 0 for value in (number, descriptor, pid)):
        return None
    return StackOffer(signal=number, fd=descriptor, pid=pid)  # type: ignore[arg-type]


async def ask_stack(pid: int, offer: StackOffer, path: Path) -> str:
    """
    Make a kernel dump its stack and return the text; bounded, and empty if none arrives in time.

    Args:
        pid: process id of the kernel as started. A kernel behind a wrapper has another id and is not asked.
        offer: what the agent registered.
        path: the file to which faulthandler writes.
    """
    if offer.pid != pid or not _is_in_place(pid, offer, path):
        return ""
    known = len(read_private_file(path, _LONGEST_BYTES))
    try:
        os.kill(pid, offer.signal)
    except OSError:
        return ""
    return (await _read_answer(path, known)).decode(errors="replace")


async def _read_answer(path: Path, known: int) -> bytes:
    """Wait for a complete answer: faulthandler writes it bit by bit and may be interrupted meanwhile."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + _ANSWER_SECONDS
    text, still_rounds = b"", 0
    while clock() < deadline:
        await asyncio.sleep(_ROUND_SECONDS)
        latest = read_private_file(path, _LONGEST_BYTES)[known:]
        still_rounds = still_rounds + 1 if latest == text else 0
        text = latest
        if text and (_WHOLE.search(text) or still_rounds >= _STILL_ROUNDS):
            break
    return text


def _is_in_place(pid: int, offer: StackOffer, path: Path) -> bool:
    """Return True if the signal is still caught, whose default is to kill, and the descriptor is still the file."""
    if not _IS_LINUX:
        return True
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        target = Path(f"/proc/{pid}/fd/{offer.fd}").stat()
        own = path.lstat()
    except OSError:
        return False
    caught = _CAUGHT.search(status)
    is_caught = caught is not None and bool(int(caught[1], 16) >> (offer.signal - 1) & 1)
    return is_caught and (target.st_dev, target.st_ino) == (own.st_dev, own.st_ino)


def parse_stack(text: str, cells: CellFiles) -> Stack:
    """
    Parse a stack dump of faulthandler.

    Args:
        text: a traceback as faulthandler writes it, innermost frame first.
        cells: the lecture's cells with the one that was running.
    """
    found = [match for line in text.splitlines() if (match := _FRAME.fullmatch(line))]
    in_cells = [position for position, frame in enumerate(found) if is_cell_file(frame["path"])]
    if not in_cells and _is_waiting_loop(found) and (awaits := cells.await_lines()):
        line = awaits[0] if len(awaits) == 1 else None
        where = (cells.place("", line, is_running=True),) if line is not None else ()
        return Stack(frames=(_WAITING_LOOP, *where), cell_line=line)
    if not in_cells:
        return Stack(frames=tuple(_frame_text(frame, "") for frame in found[:_FRAMES]))
    found = found[: in_cells[-1] + 1]
    running = found[-1]["path"] if found[-1]["name"] == "<module>" or cells.is_running(found[-1]["path"]) else ""
    frames, line = _cell_frames(found, running, cells)
    if len(frames) > _FRAMES:
        frames = [*frames[: _FRAMES // 2], f"... {len(frames) - _FRAMES} more ...", *frames[-_FRAMES // 2 :]]
    return Stack(frames=tuple(frames), cell_line=line)


def _is_waiting_loop(found: Sequence[re.Match[str]]) -> bool:
    """Return True if the thread waits for events in an event loop of asyncio, and so runs no code of a cell."""
    return len(found) > 1 and found[0]["name"] == "select" and any(frame["name"] == "run_forever" for frame in found)


def _cell_frames(found: Sequence[re.Match[str]], running: str, cells: CellFiles) -> tuple[list[str], int | None]:
    """Return the frames as text, innermost first, and the innermost line in the running cell."""
    frames: list[str] = []
    innermost, magic_line = None, 0
    for frame in reversed(found):
        path, line = frame["path"], int(frame["line"])
        place = ""
        if path == running:
            innermost = line
            place = cells.place(path, line, is_running=True)
        elif magic_line and (path in TIMED_FILES or cells.is_below(path, magic_line)):
            # The body of a cell magic is compiled on its own, and counts its lines from the one after the magic.
            innermost = magic_line + line
            place = cells.place(path, innermost, is_running=True)
        elif is_cell_file(path):
            place = cells.place(path, line, is_running=False)
        elif running and frame["name"] == "run_cell_magic":
            magic_line = innermost or 0
        frames.append(_frame_text(frame, place))
    return frames[::-1], innermost


def parse_crash(text: str, cells: CellFiles) -> Stack:
    """
    Parse the crash dump that faulthandler wrote last; empty where there is none.

    Args:
        text: what the kernel wrote to stderr while the cell ran.
        cells: the lecture's cells with the one that was running.
    """
    faults = list(_FAULT.finditer(text))
    if not faults:
        return Stack()
    dump = text[faults[-1].end() :]
    # The thread that crashed comes first or last, depending on Python's version.
    current = dump.find("Current thread ")
    frames = dump[max(0, current) :].partition("\n\n")[0]
    return parse_stack(frames, cells)


def _frame_text(frame: re.Match[str], place: str) -> str:
    path, line, name = frame["path"], frame["line"], _printable(frame["name"])
    if place:
        return place + (f", in {name}" if name != "<module>" else "")
    # Inside site-packages the rest of the path identifies the module; elsewhere a path only describes this machine.
    inside = _PACKAGES.sub("", path)
    shown = inside.replace("\\", "/") if inside != path else re.split(r"[/\\]", path)[-1]
    return f"{_printable(shown)}:{line} in {name}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)[-_TEXT_CHARS:]
