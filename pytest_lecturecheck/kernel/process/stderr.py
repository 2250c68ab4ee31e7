"""Select the informative lines of a kernel's stderr."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_LINES: Final = 30
_LINE_CHARS: Final = 500
_FRAMES: Final = 6
_NATIVE_FRAMES: Final = 3
_NOISE: Final = (
    "Kernel is running over TCP without encryption",
    "Communication (including code and outputs) is sent in plain text",
    "To enable encryption",
    "frozen modules",
    "make the debugger miss breakpoints",
    "PYDEVD_DISABLE_FILE_VALIDATION",
    "Debugger warning: It seems that",
)
_FAULT: Final = re.compile(r"(?:Fatal Python error|Windows fatal exception): .*")
_THREAD: Final = re.compile(r"(?P<current>Current thread|Thread) 0x[0-9a-f]+ .*\(most recent call first\):")
_FRAME: Final = re.compile(r'  File ".*", line \d+ in .*|  \.\.\.|  <no Python frame>')
_KERNEL_FRAME: Final = re.compile(
    r"[/\\](?:IPython|ipykernel|tornado|asyncio|traitlets)[/\\]|ipykernel_launcher|<frozen runpy>"
)
# Formats of glog, absl and LLVM: "    @     0x7f3c2c0b6090  (unknown)", " #4 0x00007f3c2c0b6090 abort (...)".
_NATIVE_FRAME: Final = re.compile(r"\s*(?:PC: )?@\s+(?:0x)?[0-9a-f]{6,}\b.*|\s*#[0-9]{1,3}\s+0x[0-9a-f]{6,}\b.*")


def stderr_tail(text: str) -> tuple[str, ...]:
    """
    Return the last lines of a kernel's stderr.

    ipykernel's own messages are dropped. Of a crash dump of faulthandler, the fault and the frames of the crashed
    thread are kept, without those of the kernel itself. Of a native stack only the first frames are kept, because the
    message before it matters more and would otherwise be pushed out.
    """
    lines = (line.rstrip()[:_LINE_CHARS] for line in text.splitlines())
    kept = [line for line in lines if line and not any(noise in line for noise in _NOISE)]
    return tuple(_condense(_without_long_stacks(kept)))[-_LINES:]


def _without_long_stacks(lines: Iterable[str]) -> Iterator[str]:
    frames = 0
    for line in lines:
        frames = frames + 1 if _NATIVE_FRAME.fullmatch(line) else 0
        if frames <= _NATIVE_FRAMES:
            yield line


def _condense(lines: Iterable[str]) -> Iterator[str]:
    in_dump, in_current, frames = False, False, 0
    for line in lines:
        if _FAULT.fullmatch(line):
            in_dump = True
            yield line
        elif in_dump and (thread := _THREAD.fullmatch(line)):
            in_current, frames = thread.group("current") == "Current thread", 0
        elif in_dump and _FRAME.fullmatch(line):
            if in_current and frames < _FRAMES and not _KERNEL_FRAME.search(line):
                frames += 1
                yield line
        elif not (in_dump and line.startswith("Extension modules: ")):
            yield line
