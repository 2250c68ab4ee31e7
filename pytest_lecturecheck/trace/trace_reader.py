"""
Read a trace file event by event, so that only one of a million events is in memory at a time.

``jax.profiler.stop_trace`` writes ``plugins/profile/<time>/<host>.trace.json.gz`` below its folder, and
``<host>.xplane.pb`` beside it, which needs protobuf and XProf. The lecture can write anything to that folder.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.errors import TraceFileError
from pytest_lecturecheck.files import open_plain
from pytest_lecturecheck.model.profile import ProfileSummary
from pytest_lecturecheck.trace.profile_summary import summarise

_CHUNK_BYTES: Final = 1 << 20
_EVENT_CHARS: Final = 1 << 20
_MOST_BYTES: Final = 3 << 30
_MOST_PACKED_BYTES: Final = 1 << 30
_LEVEL: Final = 1
_HEAD: Final = re.compile(r'"traceEvents"\s*:\s*\[')
_METADATA: Final = re.compile(rb'"metadata"\s*:\s*\{[^{}]*\}\s*,')
_FAULTS: Final = (EOFError, gzip.BadGzipFile, zlib.error)

PERFETTO_FILE: Final = "perfetto.json.gz"
"""Name of the copy that Perfetto opens."""


def find_trace(folder: Path) -> Path:
    """
    Return the path of the latest trace that the profiler wrote below ``folder``.

    Raises:
        TraceFileError: there is none.
    """
    inside = folder.resolve()
    found = [
        path
        for path in folder.glob("plugins/profile/*/*.trace.json.gz")
        if path.is_file() and not path.is_symlink() and path.resolve().is_relative_to(inside)
    ]
    if not found:
        msg = "the profiler wrote no *.trace.json.gz"
        raise TraceFileError(msg)
    return max(found, key=lambda path: (path.parent.name, path.name))


def read_cell(folder: Path, cell_seconds: float | None) -> ProfileSummary:
    """
    Read what the profiler wrote below ``folder`` for one cell, and write a copy for Perfetto there.

    Returns:
        The summary; its ``trace`` is the copy's name in ``folder``.

    Raises:
        TraceFileError: as for :func:`read_trace`, or there is no trace.
    """
    path = find_trace(folder)
    summary = read_trace(path, cell_seconds=cell_seconds)
    write_perfetto_copy(path, folder / PERFETTO_FILE)
    return replace(summary, trace=PERFETTO_FILE)


def read_trace(path: Path, *, cell_seconds: float | None = None) -> ProfileSummary:
    """
    Read the summary of a traced cell from a trace file.

    Args:
        path: the file.
        cell_seconds: wall time of the cell while it was traced, or ``None`` where it is not known.

    Raises:
        TraceFileError: the file cannot be read, is truncated, is no trace, or is larger than any trace.
    """
    return summarise(read_events(path), cell_seconds=cell_seconds)


def read_events(path: Path, *, most_bytes: int = _MOST_BYTES) -> Iterator[dict[str, Any]]:
    """
    Yield the events of a trace file.

    Args:
        path: the file.
        most_bytes: largest size after decompression.

    Raises:
        TraceFileError: as for :func:`read_trace`.
    """
    chunks = _texts(path, most_bytes)
    text = ""
    while (head := _HEAD.search(text)) is None:
        chunk = next(chunks, "")
        if not chunk or len(text) > _EVENT_CHARS:
            msg = f"{path.name}: no list 'traceEvents' was found; expected Chrome trace events"
            raise TraceFileError(msg)
        text += chunk
    text = text[head.end() :]
    decoder = json.JSONDecoder()
    while True:
        position, is_end = 0, False
        with contextlib.suppress(_IncompleteError):
            while True:
                event, position = _next_event(decoder, text, position, path)
                if event is None:
                    is_end = True
                    break
                yield event
        if is_end:
            return
        chunk = next(chunks, "")
        if not chunk or len(text) - position > _EVENT_CHARS:
            msg = f"{path.name}: malformed or truncated list of events, near {text[position : position + 40]!r}"
            raise TraceFileError(msg)
        text = text[position:] + chunk


class _IncompleteError(Exception):
    """The text ends within an event, or is no JSON; the next chunk will show which."""


def _next_event(decoder: json.JSONDecoder, text: str, position: int, path: Path) -> tuple[dict[str, Any] | None, int]:
    while position < len(text) and text[position] in " \t\r\n,":
        position += 1
    if position == len(text):
        raise _IncompleteError
    if text[position] == "]":
        return None, position
    try:
        event, end = decoder.raw_decode(text, position)
    except json.JSONDecodeError as exc:
        raise _IncompleteError from exc
    except (ValueError, RecursionError) as exc:
        msg = f"{path.name}: found an event that no profiler writes: {exc}"
        raise TraceFileError(msg) from exc
    if not isinstance(event, dict):
        msg = f"{path.name}: found {type(event).__name__} among the events; expected objects"
        raise TraceFileError(msg)
    return event, end


def _texts(path: Path, most_bytes: int) -> Iterator[str]:
    """Decompress a file in pieces, and stop if it becomes larger than any trace."""
    decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
    for chunk in _unpacked(path, most_bytes):
        yield decode(chunk)


def _unpacked(path: Path, most_bytes: int) -> Iterator[bytes]:
    total = 0
    try:
        with open_plain(path, most_bytes=None, follow_links=False) as packed, gzip.GzipFile(fileobj=packed) as file:
            if os.fstat(packed.fileno()).st_size > _MOST_PACKED_BYTES:
                msg = f"{path.name}: larger than {_MOST_PACKED_BYTES >> 30} GiB compressed; trace a cell that does less"
                raise TraceFileError(msg)
            while chunk := file.read(_CHUNK_BYTES):
                total += len(chunk)
                if total > most_bytes:
                    msg = f"{path.name}: larger than {most_bytes:,} bytes uncompressed; trace a cell that does less"
                    raise TraceFileError(msg)
                yield chunk
    except _FAULTS as exc:
        msg = f"{path.name}: not a whole gzip file: {exc}"
        raise TraceFileError(msg) from exc
    except OSError as exc:
        msg = f"{path.name}: cannot be read: {exc.strerror or exc}"
        raise TraceFileError(msg) from exc


def write_perfetto_copy(source: Path, target: Path) -> None:
    """
    Write a copy of a trace that Perfetto reads.

    Perfetto's reader stops at an unknown key, and XLA writes ``metadata`` before the events. ``jax.profiler`` can
    remove it too, but needs the whole trace in the kernel's memory for that.

    Raises:
        TraceFileError: the trace cannot be read, or the copy cannot be written.
    """
    chunks = _unpacked(source, _MOST_BYTES)
    head = next(chunks, b"")
    begin, mark, rest = head.partition(b'"traceEvents"')
    try:
        # The lecture can put a pipe in the place of the copy, and opening it for writing would wait for a reader.
        target.unlink(missing_ok=True)
        with target.open("xb") as opened, gzip.GzipFile(fileobj=opened, mode="wb", compresslevel=_LEVEL) as file:
            file.write(_METADATA.sub(b"", begin) + mark + rest)
            for chunk in chunks:
                file.write(chunk)
    except OSError as exc:
        msg = f"{target.name}: cannot be written: {exc.strerror or exc}"
        raise TraceFileError(msg) from exc
