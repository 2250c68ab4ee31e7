"""
Read what memray recorded of a cell, and print it as JSON: memory at the peak, summed by line.

Runs as a program of its own with the interpreter of the kernel, after the cell: the versions of memray agree, and the
symbols of native code are those of the libraries that ran. ``argv``: the capture file, then the file for the flame
graph.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
from typing import Any

MOST_LINES = 30
MOST_PROCESSES = 100
TEXT_CHARS = 300
_CELL_FILE = re.compile(r"(?:.*[/\\])?ipykernel_[0-9]+[/\\][0-9]+\.py")
_OWN = "<lecturecheck "
_FLAME_SECONDS = 100


def main(capture: str, flame_graph: str) -> None:
    """Print what all processes of one record held in one line, then write the flame graph of the kernel's."""
    threading.Thread(target=_end_with_session, daemon=True).start()
    processes = []
    forks = sorted(glob.glob(f"{glob.escape(capture)}.*"))  # noqa: PTH207 - the name is text already
    for path in [capture, *forks][:MOST_PROCESSES]:
        try:
            processes.append(read_process(path))
        except Exception as exc:  # noqa: BLE001 - a fork that ended at once has no record
            processes.append({"error": f"{type(exc).__name__}: {exc}"[:TEXT_CHARS]})
    print(json.dumps({"processes": processes}), flush=True)  # noqa: T201 - the answer
    command = [sys.executable, "-m", "memray", "flamegraph", "--force", "-o", flame_graph]
    for more in (["--no-web"], []):
        # Older versions have no such option: their page loads its scripts from the web.
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(  # noqa: S603 - our own arguments
                [*command, *more, capture],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_FLAME_SECONDS,
                check=False,
            )
            if done.returncode == 0:
                break


def _end_with_session() -> None:
    """End this process and memray's when the session, which holds the other end of stdin, has ended."""
    sys.stdin.buffer.read()
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def read_process(path: str) -> dict[str, Any]:
    """Return the peak of one process, with the lines that hold most of it."""
    from memray import FileReader  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415 - optional

    reader = FileReader(path)
    lines: dict[tuple[str, int, str], dict[str, Any]] = {}
    total = 0
    for record in reader.get_high_watermark_allocation_records(merge_threads=True):
        total += record.size
        _add(lines, record)
    largest = sorted(lines.values(), key=lambda line: -line["size"])[:MOST_LINES]
    for line in largest:
        del line["inner_size"]
        if not line["is_cell"] and line["file"].startswith("/"):
            line["source"] = linecache.getline(line["file"], line["line"]).strip()[:TEXT_CHARS]
        line["file"] = shown_file(line["file"]) if not line["is_cell"] else line["file"]
    return {"peak": total, "lines": largest}


def _add(lines: dict[tuple[str, int, str], dict[str, Any]], record: Any) -> None:
    frames = record.stack_trace()
    position = next((at for at, frame in enumerate(frames) if not is_of_package(frame[1])), 0)
    name, file, number = frames[position] if frames else (*_native_place(record), 0)
    if file.startswith(_OWN) or any(frame[0] == "_look" and frame[1].startswith(_OWN) for frame in frames):
        # The recorder's own, and that of its thread.
        return
    line = lines.setdefault(
        (file, number, name),
        {"file": file, "line": number, "name": name, "size": 0, "count": 0, "inner_size": -1, "source": ""},
    )
    line["is_cell"] = _CELL_FILE.fullmatch(file) is not None
    line["size"] += record.size
    line["count"] += record.n_allocations
    if record.size > line["inner_size"]:
        line["inner_size"] = record.size
        line["inner"] = _frame(frames[0]) if position else None
        callers = [frame for frame in frames[position + 1 :] if _CELL_FILE.fullmatch(frame[1])]
        line["caller"] = None if line["is_cell"] or not callers else [callers[0][1], callers[0][2]]


def _frame(frame: Any) -> str:
    name, file, number = frame
    return f"{shown_file(file)}:{number} in {name}"[:TEXT_CHARS]


def _native_place(record: Any) -> tuple[str, str]:
    """Return symbol and library of an allocation of a thread that runs no Python."""
    with contextlib.suppress(Exception):
        for name, file, _ in record.native_stack_trace():
            if "malloc" not in name and "operator new" not in name:
                return str(name), os.path.basename(str(file))  # noqa: PTH119 - as above
    return "?", "native code"


@functools.cache
def is_of_package(file: str) -> bool:
    """Return True for a file of an installed package, of the standard library, or of no file at all."""
    if _CELL_FILE.fullmatch(file):
        return False
    return file.startswith(("<", *_package_folders())) or not file.startswith("/") or "-packages/" in file


@functools.cache
def _package_folders() -> tuple[str, ...]:
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(folder.rstrip("/") + "/" for folder in found if folder)


def shown_file(file: str) -> str:
    """Return the part of a path that names the module; the rest only describes this machine."""
    for folder in sorted(_package_folders(), key=len, reverse=True):
        if file.startswith(folder):
            return file[len(folder) :]
    _, found, inside = file.rpartition("-packages/")
    return inside if found else os.path.basename(file)  # noqa: PTH119 - as above


if __name__ == "__main__":
    main(*sys.argv[1:3])
