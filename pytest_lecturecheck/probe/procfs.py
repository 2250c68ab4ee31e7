"""
Parse what Linux writes under ``/proc``: bytes in, values out, see proc(5).

Nothing here opens a file, so that recorded text can be parsed on every OS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass

_KIB: Final = 1024
_SIZE_LINE: Final = re.compile(r"([A-Za-z_()0-9]+):\s+([0-9]+) kB")
# The two lines are adjacent in every version of Linux, so one search finds both.
_RESIDENT_LINES: Final = re.compile(rb"\nVmHWM:\s+([0-9]+) kB\nVmRSS:\s+([0-9]+) kB\n")
STATUS_START: Final = b"\nVmHWM:"
"""Start of the lines returned by :func:`status_lines`."""
_STATUS_KEYS: Final = (STATUS_START, b"\nVmRSS:", b"\nRssFile:", b"\nVmSwap:", b"\nThreads:")
_CPU_KEYS: Final = ("model name", "cpu model", "cpu", "Processor", "Hardware")


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """
    The memory of one process, from ``/proc/PID/status``.

    Attributes:
        rss_bytes: resident pages (``VmRSS``).
        high_watermark_bytes: highest resident size since exec or the last reset (``VmHWM``).
        file_bytes: resident pages mapped from files, without shared memory (``RssFile``).
        swap_bytes: swapped-out anonymous pages (``VmSwap``), without shared memory in swap.
        thread_count: threads of the process.
    """

    rss_bytes: int
    high_watermark_bytes: int
    swap_bytes: int
    thread_count: int
    file_bytes: int = 0


def parse_status(text: bytes) -> Status | None:
    """Parse ``/proc/PID/status``; ``None`` for a process without memory (a zombie, a kernel thread)."""
    match = _RESIDENT_LINES.search(text)
    if match is None:
        return None
    rss = int(match[2])
    return Status(
        rss_bytes=rss * _KIB,
        high_watermark_bytes=max(rss, int(match[1])) * _KIB,
        swap_bytes=(_number_after(text, b"\nVmSwap:") or 0) * _KIB,
        thread_count=_number_after(text, b"\nThreads:") or 1,
        file_bytes=(_number_after(text, b"\nRssFile:") or 0) * _KIB,
    )


def status_lines(text: bytes) -> bytes:
    """
    Return the part of ``/proc/PID/status`` that :func:`parse_status` reads; while it is equal, so is the result.

    It is empty where the lines are missing; see :func:`are_status_lines_together`.
    """
    start = text.find(STATUS_START)
    threads = text.find(b"\nThreads:", start)
    return text[start : text.find(b"\n", threads + 1) + 1] if 0 <= start < threads else b""


def are_status_lines_together(text: bytes) -> bool:
    """Return True if :func:`status_lines` holds all lines in use; every Linux so far writes them in this order."""
    lines = status_lines(text)
    return all(text.count(key) == lines.count(key) == 1 for key in _STATUS_KEYS)


def _number_after(text: bytes, key: bytes) -> int | None:
    # A process name cannot forge a key, because Linux escapes a newline in it.
    start = text.find(key)
    if start < 0:
        return None
    start += len(key)
    end = text.find(b"\n", start)
    word = text[start : end if end >= 0 else None].removesuffix(b" kB").strip()
    return int(word) if word.isdigit() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """
    What a process and the children it has reaped used so far, from ``/proc/PID/stat``.

    Attributes:
        parent: process id of the parent.
        is_zombie: whether the process has ended and is not reaped yet.
        child_faults_count: minor faults of reaped children (``cminflt``); every reaped child raises it.
        major_faults_count: major faults, reaped children included (``majflt + cmajflt``).
        cpu_ticks: user and system time, reaped children included, in clock ticks.
        reaped_major_faults_count: major faults of reaped children alone (``cmajflt``).
        reaped_cpu_ticks: user and system time of reaped children alone, in clock ticks.
        start_ticks: start of the process after boot, in clock ticks; with the process id it identifies a process.
    """

    parent: int
    is_zombie: bool
    child_faults_count: int
    major_faults_count: int
    cpu_ticks: int
    start_ticks: int
    reaped_major_faults_count: int = 0
    reaped_cpu_ticks: int = 0


def parse_stat(text: bytes) -> Counters | None:
    """Parse ``/proc/PID/stat``; ``None`` where the text is truncated."""
    # The name is in parentheses, and may itself contain spaces and parentheses.
    fields = text[text.rfind(b")") + 1 :].split()
    try:
        return Counters(
            parent=int(fields[1]),
            is_zombie=fields[0] in {b"Z", b"X", b"x"},
            child_faults_count=int(fields[8]),
            major_faults_count=int(fields[9]) + int(fields[10]),
            cpu_ticks=int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14]),
            start_ticks=int(fields[19]),
            reaped_major_faults_count=int(fields[10]),
            reaped_cpu_ticks=int(fields[13]) + int(fields[14]),
        )
    except (IndexError, ValueError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """
    Counters of ``/proc/PID/io``; reaped children are included.

    Attributes:
        written_bytes: bytes sent to storage (``write_bytes``).
        fetched_bytes: bytes that storage delivered (``read_bytes``): pages that were in the cache are not among them,
            pages of mapped files are.
        called_bytes: bytes that read calls returned (``rchar``), from the cache and from pipes as well; mapped files
            are not among them. ``None`` where the file does not have the counter.
    """

    written_bytes: int
    fetched_bytes: int | None = None
    called_bytes: int | None = None

    def plus(self, other: Traffic | None) -> Traffic:
        """Return the sum with the counters of another process; nothing is added for one that could not be read."""
        if other is None:
            return self
        return Traffic(
            written_bytes=self.written_bytes + other.written_bytes,
            fetched_bytes=_sum(self.fetched_bytes, other.fetched_bytes),
            called_bytes=_sum(self.called_bytes, other.called_bytes),
        )


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def parse_traffic(text: bytes) -> Traffic | None:
    """Parse ``/proc/PID/io``; ``None`` where it does not have what was written."""
    lines = b"\n" + text
    written = _number_after(lines, b"\nwrite_bytes:")
    if written is None:
        return None
    return Traffic(
        written_bytes=written,
        fetched_bytes=_number_after(lines, b"\nread_bytes:"),
        called_bytes=_number_after(lines, b"\nrchar:"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProportionalSizes:
    """
    A process's share of the pages it maps: the size of each page divided by the number of processes that map it.

    Attributes:
        pss_bytes: resident pages (``Pss``).
        swap_bytes: pages in swap (``SwapPss``).
    """

    pss_bytes: int
    swap_bytes: int


def parse_smaps_rollup(text: bytes) -> ProportionalSizes | None:
    """Parse ``/proc/PID/smaps_rollup``; ``None`` for a process without memory."""
    pss = _number_after(text, b"\nPss:")
    if pss is None:
        return None
    return ProportionalSizes(pss_bytes=pss * _KIB, swap_bytes=(_number_after(text, b"\nSwapPss:") or 0) * _KIB)


def parse_children(text: bytes) -> tuple[int, ...]:
    """Parse ``/proc/PID/task/TID/children``."""
    return tuple(int(word) for word in text.split() if word.isdigit())


def parse_namespace_pids(text: bytes) -> tuple[int, ...]:
    """
    Parse ``NSpid`` of ``/proc/PID/status``: the process's id in each PID namespace.

    The first id is that of this ``/proc``'s namespace, the last the innermost one. Without such a line there is none.
    """
    match = re.search(rb"^NSpid:((?:\s+[0-9]+)+)$", text, re.MULTILINE)
    return tuple(map(int, match[1].split())) if match is not None else ()


def parse_sizes(text: str) -> Mapping[str, int]:
    """Parse lines like ``MemTotal:  24684092 kB`` (``/proc/meminfo``) to bytes."""
    matches = (_SIZE_LINE.fullmatch(line.strip()) for line in text.splitlines())
    return {match[1]: int(match[2]) * _KIB for match in matches if match is not None}


def parse_cpu_model(text: str) -> str:
    """Parse the processor's name in ``/proc/cpuinfo``; an empty string where there is none."""
    pairs: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        pairs.setdefault(key.strip(), " ".join(value.split()))
    for name in _CPU_KEYS:
        if pairs.get(name):
            return pairs[name]
    if pairs.get("CPU implementer") and pairs.get("CPU part"):
        # Arm cores report numbers instead of names.
        return f"Arm implementer {pairs['CPU implementer']} part {pairs['CPU part']}"
    return ""


def parse_bracketed_choice(text: str) -> str | None:
    """Parse the chosen value in text like ``always [madvise] never``."""
    match = re.search(r"\[([a-z+_]+)\]", text)
    return match[1] if match is not None else None
