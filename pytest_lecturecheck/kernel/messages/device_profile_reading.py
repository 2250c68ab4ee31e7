"""Sum a profile of the devices' memory by line of the lecture."""

from __future__ import annotations

import re
from typing import Any, Final

from pytest_lecturecheck.kernel.agent.capture_reader import is_of_package, shown_file
from pytest_lecturecheck.kernel.messages.agent_device_reply import clean_text
from pytest_lecturecheck.kernel.messages.cell_files import is_cell_file
from pytest_lecturecheck.kernel.messages.memory_reply import CellPlace, merge_processes
from pytest_lecturecheck.kernel.messages.pprof_reader import PprofSample, read_pprof
from pytest_lecturecheck.model.memory_profile import DeviceProfile

_LIBRARY: Final = re.compile(r".*/lib/python\d+\.\d+/")
_BUFFER: Final = "buffer"
_DEVICES: Final = 16
_NAME_CHARS: Final = 40


def read_device_profile(data: bytes, place: CellPlace) -> DeviceProfile | None:
    """
    Read what ``device_memory_profile`` returned.

    Args:
        data: the file.
        place: finds the line of a cell's file in the lecture.

    Returns:
        The buffers by line, or ``None`` if there are none.

    Raises:
        ValueError: the file cannot be read.
    """
    buffers = [item for item in read_pprof(data) if item.labels.get("kind") == _BUFFER and item.size_bytes > 0]
    lines: dict[tuple[str, int, str], dict[str, Any]] = {}
    for item in buffers:
        _add(lines, item)
    whole = sum(item.size_bytes for item in buffers)
    largest = sorted(lines.values(), key=lambda line: -line["size"])
    summed = merge_processes({"processes": [{"peak": whole, "lines": largest}]}, place)
    if summed is None or not whole:
        return None
    devices = sorted({clean_text(item.labels.get("device"), _NAME_CHARS) for item in buffers} - {""})
    return DeviceProfile(peak_bytes=summed.peak_bytes, lines=summed.lines, devices=tuple(devices[:_DEVICES]))


def _add(lines: dict[tuple[str, int, str], dict[str, Any]], item: PprofSample) -> None:
    frames = item.frames or (("native code", "?", 0),)
    own = next((at for at, (file, _, _) in enumerate(frames) if not _is_of_package(file)), 0)
    file, name, number = frames[own]
    is_cell = is_cell_file(file)
    line = lines.setdefault(
        (file, number, name),
        {"file": file if is_cell else shown_file(file), "line": number, "name": name, "size": 0, "count": 0},
    )
    line["is_cell"] = is_cell
    line["size"] += item.size_bytes
    line["count"] += item.count
    line["inner"] = _called(frames, own)
    callers = [frame for frame in frames[own + 1 :] if is_cell_file(frame[0])]
    line["caller"] = None if is_cell or not callers else [callers[0][0], callers[0][2]]


def _called(frames: tuple[tuple[str, str, int], ...], own: int) -> str | None:
    """Return the function that the line called: the innermost ones are the same for every array."""
    if not own:
        return None
    file, name, number = frames[own - 1]
    return f"{shown_file(file)}:{number} in {name}"


def _is_of_package(file: str) -> bool:
    # The kernel may have another interpreter than this process.
    return is_of_package(file) or (_LIBRARY.match(file) is not None and not is_cell_file(file))
