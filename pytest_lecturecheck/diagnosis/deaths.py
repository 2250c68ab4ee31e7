"""Kernels that ended: by a signal, with an exit code, or before they were ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.crash_places import crash_lines
from pytest_lecturecheck.diagnosis.headroom import is_near_any_limit
from pytest_lecturecheck.diagnosis.requests import MemoryPlace, MemoryRequest, parse_stderr
from pytest_lecturecheck.diagnosis.wording import all_lines, both_units, place, stderr_lines, within
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line

# Numbers, not the signal module: a record may be read on another system than the one it comes from.
_SIGKILL: Final = 9
_SIGABRT: Final = 6
_SIGSEGV: Final = 11
_SIGNAL_NAMES: Final = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    _SIGABRT: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    _SIGKILL: "SIGKILL",
    _SIGSEGV: "SIGSEGV",
    13: "SIGPIPE",
    15: "SIGTERM",
    24: "SIGXCPU",
    25: "SIGXFSZ",
}
_CRASHES: Final = frozenset({4, 7, 8, 11})
_SIGNAL_ADVICE: Final = {
    4: "a library was built for a newer processor than this one",
    7: "a mapped file or /dev/shm was too small for what was written to it",
    24: "the limit on CPU time (ulimit -t) was reached",
    25: "the limit on the size of a file (ulimit -f) was reached",
}
_NATIVE_ADVICE: Final = (
    "compiled code crashed: try another version of the package that the cell calls; "
    "lecturecheck explain has the command that saves the cell, to run it alone"
)
_SHELL_SIGNAL_BASE: Final = 128
_PLAIN_EXIT_CODES: Final = range(256)


def signal_name(number: int) -> str:
    """Name a signal (``SIGKILL``); unusual ones keep their number."""
    return _SIGNAL_NAMES.get(number, f"signal {number}")


def find_death_at_start(evidence: Evidence) -> Cause | None:
    """Recognise a kernel that ended before it was ready."""
    if evidence.exit.ready:
        return None
    if evidence.exit.signal is not None:
        headline = f"kernel was ended by {signal_name(evidence.exit.signal)} before it was ready"
    elif evidence.exit.exit_code is not None:
        headline = f"kernel exited with code {_exit_code_text(evidence.exit.exit_code)} before it was ready"
    else:
        return Cause(
            kind=CauseKind.NEVER_READY,
            headline="kernel never became ready",
            evidence=tuple(stderr_lines(evidence)),
        )
    beside = [clean for name in evidence.shadowing_files if (clean := one_line(name))]
    hint = (f"beside the lecture, named like a module that the kernel needs: {', '.join(beside)}",) if beside else ()
    return Cause(kind=CauseKind.DIED_AT_START, headline=headline, evidence=(*hint, *stderr_lines(evidence)))


def find_kill(evidence: Evidence) -> Cause | None:
    """Recognise SIGKILL without a record of an OOM kill: from outside, and not provably for memory."""
    if evidence.exit.signal != _SIGKILL:
        return None
    if evidence.exit.lost_supervisor:
        return Cause(
            kind=CauseKind.KILLED,
            headline=f"kernel was killed together with its supervisor process{within(evidence)}; no record of memory "
            "shortage",
            evidence=all_lines(evidence),
            advice=("look for what kills its parent process (os.getppid): the lecture, or somebody on this machine",),
        )
    advice = ["the system's log (dmesg, journalctl -k) or the scheduler's says who killed it"]
    if is_near_any_limit(evidence):
        advice.insert(0, "memory was close to its limit at the last reading, so look there first")
    return Cause(
        kind=CauseKind.KILLED,
        headline=f"kernel was killed from outside (SIGKILL){within(evidence)}; no record of memory shortage",
        evidence=all_lines(evidence),
        advice=tuple(advice),
    )


def find_native_out_of_memory(evidence: Evidence) -> Cause | None:
    """Recognise an abort whose stderr says that a native allocator was out of memory."""
    if evidence.exit.signal != _SIGABRT:
        return None
    request = parse_stderr(evidence.exit.cell_stderr)
    if request is None:
        return None
    asked = f", asked {both_units(request.size_bytes)}" if request.size_bytes is not None else ""
    device = request.place is MemoryPlace.DEVICE
    advice = ("another process, or this one's earlier cells, may hold the GPU's memory; nvidia-smi shows which",)
    return Cause(
        kind=CauseKind.NATIVE_OUT_OF_MEMORY,
        headline=f"kernel aborted (SIGABRT){within(evidence)}; {_allocator_text(request)}{asked}",
        evidence=(*crash_lines(evidence), *all_lines(evidence)),
        advice=advice if device else (),
    )


def _allocator_text(request: MemoryRequest) -> str:
    if request.place is MemoryPlace.DEVICE:
        return "the native allocator reported an exhausted GPU pool"
    if request.library == "C++":
        return "a C++ allocation failed (std::bad_alloc)"
    return "the native allocator was out of memory"


def find_signal(evidence: Evidence) -> Cause | None:
    """Recognise the other signals: crashes of native code, and requests to end."""
    if evidence.exit.signal is None:
        return None
    name, where = signal_name(evidence.exit.signal), within(evidence)
    advice = (_SIGNAL_ADVICE[evidence.exit.signal],) if evidence.exit.signal in _SIGNAL_ADVICE else ()
    if evidence.exit.signal in {_SIGABRT, _SIGSEGV} and evidence.cell_number is not None and not evidence.is_program:
        advice = (_NATIVE_ADVICE,)
    if evidence.exit.signal == _SIGABRT:
        kind, headline = CauseKind.NATIVE_CRASH, f"kernel aborted ({name}){where}"
    elif evidence.exit.signal in _CRASHES:
        kind, headline = CauseKind.NATIVE_CRASH, f"kernel crashed ({name}){where}"
    else:
        kind, headline = CauseKind.ENDED_BY_SIGNAL, f"kernel was ended by {name}{where}"
    lines = (*crash_lines(evidence), *_said_before(evidence), *all_lines(evidence))
    return Cause(kind=kind, headline=headline, evidence=lines, advice=advice)


def _said_before(evidence: Evidence) -> Iterator[str]:
    """Yield a native allocator's complaint in an earlier cell: it may or may not be the reason."""
    request = parse_stderr(evidence.exit.stderr_tail[: evidence.exit.stderr_earlier_count])
    if evidence.exit.signal == _SIGABRT and request is not None:
        asked = f", asked {both_units(request.size_bytes)}" if request.size_bytes is not None else ""
        yield f"before this cell began {_allocator_text(request)}{asked}; whether that is the reason is not known"


def find_exit_code(evidence: Evidence) -> Cause | None:
    """Recognise a kernel process that ended by itself; no claim about memory."""
    if evidence.exit.exit_code is None:
        return None
    return Cause(
        kind=CauseKind.EXITED,
        headline=f"kernel ended with exit code {_exit_code_text(evidence.exit.exit_code)}{within(evidence)}",
        evidence=(*crash_lines(evidence), *all_lines(evidence)),
    )


def find_nothing(evidence: Evidence) -> Cause:
    """Report that no cause was observed, rather than guess."""
    where = f" in {place(evidence)}" if place(evidence) else ""
    return Cause(
        kind=CauseKind.UNKNOWN,
        headline=f"the run ended{where}, and nothing observed says why",
        evidence=all_lines(evidence),
    )


def _exit_code_text(code: int) -> str:
    """Format an exit code; wrappers report a signal as 128 plus its number, Windows a status as a large number."""
    signal = code - _SHELL_SIGNAL_BASE
    if signal in _SIGNAL_NAMES:
        return f"{code} (a wrapper's way to report {signal_name(signal)})"
    return str(code) if code in _PLAIN_EXIT_CODES else f"{code} (0x{code & 0xFFFFFFFF:08X})"
