"""Errors that a cell raised: requests for input, exits, libraries out of memory, and plain errors."""

from __future__ import annotations

import re
from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.headroom import available_bytes, refusing_limits
from pytest_lecturecheck.diagnosis.requests import MemoryPlace, means_device_not_usable, parse_request
from pytest_lecturecheck.diagnosis.shadowing import shadowing_advice
from pytest_lecturecheck.diagnosis.wording import (
    LONGEST_QUOTE,
    all_lines,
    both_units,
    declared_text,
    error_text,
    had_text,
    has_group_limit,
    in_brackets,
    machine_limit_text,
    oom_lines,
    stderr_lines,
)
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_size

_READ_LENGTH: Final = 200
_MISSING_MODULE: Final = re.compile(r"No module named '(?P<name>\w+)(?:\.[\w.]+)?'")
_ANOTHER_HOLDER = "another process may hold the GPU's memory; nvidia-smi shows which"


def find_input_request(evidence: Evidence) -> Cause | None:
    """Recognise ``input()`` and ``getpass()``: nobody can answer here."""
    if evidence.error is None or evidence.error.name.rsplit(".", 1)[-1] != "StdinNotImplementedError":
        return None
    return Cause(
        kind=CauseKind.INPUT_REQUESTED,
        headline=f"the cell asks for input, which is not available here{in_brackets(evidence)}",
        evidence=(error_text(evidence.error),),
        advice=("set the value in the code, or tag the cell skip-execution",),
    )


def find_exit_request(evidence: Evidence) -> Cause | None:
    """Recognise ``sys.exit()``: the lecture's own wish, whatever its status, and never a death of the kernel."""
    if evidence.error is None or evidence.error.name != "SystemExit":
        return None
    return Cause(
        kind=CauseKind.EXIT_REQUESTED,
        headline=f"the lecture stops here: {error_text(evidence.error)}{in_brackets(evidence)}",
        advice=("no cell after it can run: remove the call, or tag the cell skip-execution",),
    )


def find_library_out_of_memory(evidence: Evidence) -> Cause | None:
    """Recognise the out-of-memory errors of XLA, CuPy, PyTorch, Numba and TensorFlow, on the host or on a device."""
    if evidence.error is None:
        return None
    request = parse_request(evidence.error.name, evidence.error.value)
    if request is None:
        return None
    kind, where, against = CauseKind.LIBRARY_OUT_OF_MEMORY, "", ""
    advice: tuple[str, ...] = ()
    if request.place is MemoryPlace.HOST:
        kind, where, against = CauseKind.HOST_OUT_OF_MEMORY, " on the host", _against_host(evidence, request.size_bytes)
    elif request.place is MemoryPlace.DEVICE:
        kind, where, advice = CauseKind.DEVICE_OUT_OF_MEMORY, " on the device", (_ANOTHER_HOLDER,)
    asked = f": asked {both_units(request.size_bytes)}" if request.size_bytes is not None else ""
    used = request.used_bytes if request.used_bytes is not None else request.live_bytes
    if used is not None:
        against = f"; {format_size(used)} in use{against}"
    if request.limit_bytes is not None:
        against = f"{against}; it has {format_size(request.limit_bytes)} in all"
    return Cause(
        kind=kind,
        headline=f"{request.library} out of memory{asked}{where}{against}{in_brackets(evidence)}",
        evidence=(error_text(evidence.error), *all_lines(evidence)),
        advice=advice,
    )


def _against_host(evidence: Evidence, asked_bytes: int | None) -> str:
    """Compare a request on the host with what can refuse it, with what is declared, and with what the process held."""
    limits = [item.text for item in refusing_limits(evidence)]
    if not has_group_limit(evidence) and (machine := machine_limit_text(evidence)) and machine not in limits:
        limits.append(machine)
    elif has_group_limit(evidence) and evidence.memory.ram_bytes is not None:
        limits.append(f"{format_size(evidence.memory.ram_bytes)}, RAM")
    parts = [f"the limit is {limits[0]}"] if limits else []
    if (available := available_bytes(evidence)) is not None:
        parts.append(f"{format_size(available)} available")
    if held := had_text(evidence):
        parts.append(held)
    declared = declared_text(evidence, asked_bytes) if asked_bytes is not None else ""
    return f"{declared}; {'; '.join(parts)}" if parts else declared


def find_unusable_device(evidence: Evidence) -> Cause | None:
    """Recognise GPU libraries that could not be set up or used: no claim of exhausted memory, but a hint."""
    if evidence.error is None or not means_device_not_usable(evidence.error.name, evidence.error.value):
        return None
    return Cause(
        kind=CauseKind.DEVICE_NOT_USABLE,
        headline=f"{error_text(evidence.error)}{in_brackets(evidence)}",
        evidence=tuple(stderr_lines(evidence)),
        advice=(_ANOTHER_HOLDER, "the versions of driver, CUDA and cuDNN may not fit together"),
    )


def find_cell_error(evidence: Evidence) -> Cause | None:
    """Report every other error as what it says it is."""
    if evidence.error is None:
        return None
    return Cause(
        kind=CauseKind.CELL_ERROR,
        headline=f"{_with_source(evidence, evidence.error)}{in_brackets(evidence)}",
        evidence=(*oom_lines(evidence), *stderr_lines(evidence)),
        advice=shadowing_advice(evidence) or _install_advice(evidence, evidence.error),
    )


def _install_advice(evidence: Evidence, error: CellError) -> tuple[str, ...]:
    """Return where the package of a missing module belongs."""
    match = _MISSING_MODULE.fullmatch(error.value[:_READ_LENGTH])
    if error.name != "ModuleNotFoundError" or match is None:
        return ()
    name = match["name"]
    text = f"install the package that provides {name!r} in the kernel's environment"
    if evidence.is_program:
        return (text,)
    return (f"{text}; if it is a file of the lectures, {name}.py has to be beside this one",)


def _with_source(evidence: Evidence, error: CellError) -> str:
    """Return the error, followed by its source line if it has no message (``AssertionError: assert total == 3``)."""
    text, line = error_text(error), error.line_in_cell
    rows = evidence.source.split("\n")
    if error.value.strip() or line is None or not 1 <= line <= len(rows):
        return text
    code = one_line(rows[line - 1], LONGEST_QUOTE)
    # An error from a function that the line calls does not stand in it.
    joint = ": " if code.startswith(("assert", "raise")) else ", raised by "
    return f"{text}{joint}{code}" if code else text
