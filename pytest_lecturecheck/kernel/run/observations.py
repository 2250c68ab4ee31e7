"""Turn a kernel's reply and output into errors and findings. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_lecturecheck.kernel.run.printed_errors import printed_error_findings
from pytest_lecturecheck.kernel.run.traceback_lines import bounded_traceback, cut_line
from pytest_lecturecheck.model.cell_run import CellError, CellRun, CellStatus
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.units import MIB, format_size

if TYPE_CHECKING:
    from pytest_lecturecheck.kernel.messages.request import Reply

_ANSI: Final = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_TRACEBACK_LINE: Final = re.compile(r"Cell In\[\d+\], line (\d+)")
# IPython's file name of the running cell, made of a hash; the line is reported separately.
_CELL_FILE: Final = re.compile(r" \((?:\d+\.py|<ipython-input-[^>]*>), line \d+\)\Z")
_CAPTURED: Final = re.compile(r"\s*%%capture\b.*\n")
# JAX (two versions and its plugins), PyTorch and TensorFlow when they cannot use a GPU that exists.
_FALLS_BACK: Final = re.compile(
    r"(?P<text>An NVIDIA GPU may be present on this machine, but|(?:CUDA|ROCm|GPU) backend failed to initialize"
    r"|Jax plugin configuration error: |CUDA initialization: |Cannot dlopen some GPU libraries)"
)
# The same when they find none, which is normal on a machine without one.
_HAS_NONE: Final = re.compile(r"(?P<text>No GPU/TPU found, falling back to CPU|Could not find cuda drivers)")
_SHELL_LINE: Final = re.compile(r"\s*(?:[\w, ]{1,80}=\s*)?(?:!|%(?:sx|system|pip|conda)\b)")
_INSTALL: Final = re.compile(r"\b(?:pip3?|conda|mamba|uv pip)\b.*\b(?:install|uninstall)\b")
_INSTALLED: Final = re.compile(r"\bSuccessfully (?:un)?installed\b|\b(?:Uni|I)nstalled \d+ package")
# Of pip, uv, and conda. pip's remark about conflicts with other packages comes after an installation.
_INSTALL_ERROR: Final = re.compile(
    r"^(?:ERROR: (?!pip's dependency resolver).*|error: .*|PackagesNotFoundError: .*|\s*\S No solution found.*)$",
    re.MULTILINE,
)
_NO_CHANGE: Final = "changed nothing, all was there"
_VALUE_CHARS: Final = 4_000
_LINE_CHARS: Final = 1_000
_COMMAND_CHARS: Final = 120
_NOT_FOUND: Final = 127
_MAPPED_LEAST_BYTES: Final = 256 * MIB
"""Libraries alone rarely use that much."""
_MAPPED_FRACTION: Final = 0.3
_NO_ERROR: Final = "NoneType"
"""Error name in IPython's reply if a representation such as ``_repr_html_`` failed; the error is in the outputs."""


def plain(text: str) -> str:
    """Remove terminal colour sequences from a kernel's text."""
    return _ANSI.sub("", text)


def cell_error(reply: Reply, errors: Sequence[Mapping[str, Any]], cell: Cell) -> CellError | None:
    """
    Return the cell's exception from its reply or, if that is "ok", from its outputs.

    ``%%capture`` around failing code, figures that fail when they are drawn, and some magics send an error output with
    an "ok" reply.
    """
    content: Mapping[str, Any] | None = None
    if reply.status == "error" and (reply.content.get("ename") != _NO_ERROR or not errors):
        content = reply.content
    elif errors:
        content = errors[-1]
    if content is None and reply.status not in {"ok", "error"}:
        value = f"the kernel did not run the cell: its reply has the status {reply.status[:_COMMAND_CHARS]!r}"
        return CellError(name="NotRun", value=value)
    if content is None:
        return None
    traceback = bounded_traceback(content.get("traceback") or [], plain)
    if not traceback and errors:
        traceback = bounded_traceback(errors[-1].get("traceback") or [], plain)
    line = reply.payload.get("error_line")
    if not isinstance(line, int):
        line = next((int(match.group(1)) for text in traceback if (match := _TRACEBACK_LINE.search(text))), None)
    if line is None and content is not reply.content:
        line = reply.payload.get("shown_line")
    elif line is not None and content is not reply.content and (magic := _CAPTURED.match(cell.source)):
        # %%capture runs the cell's body as a cell of its own.
        line += magic[0].count("\n")
    if line is not None and not 1 <= line <= cell.source.count("\n") + 1:
        line = None
    return CellError(
        name=plain(str(content.get("ename", "")))[:_LINE_CHARS],
        value=cut_line(_CELL_FILE.sub("", plain(str(content.get("evalue", "")))), _VALUE_CHARS),
        traceback=traceback,
        line_in_cell=line,
    )


def exit_error(line_in_cell: int | None = None) -> CellError:
    """Return the error for ``exit()`` and ``quit()``, to which a kernel replies without an error."""
    return CellError(
        name="SystemExit",
        value="exit() or quit() was called; the cells after it would not run in a script",
        line_in_cell=line_in_cell,
    )


def line_of_error(cell: Cell, error: CellError | None) -> int | None:
    """Return the error's line in the lecture's file, or ``None`` if nobody knows it: the cell's first is a guess."""
    return cell.file_line(error.line_in_cell) if error is not None else None


def disagreeing_reply(reply: Reply, errors: Sequence[Mapping[str, Any]], cell: Cell) -> Iterator[Finding]:
    """Report a reply that names another error than the cell's output; a lecture can forge both."""
    name, names = reply.content.get("ename"), [found.get("ename") for found in errors]
    if reply.status != "error" or name == _NO_ERROR or not names or name in names:
        return
    in_reply, in_output = (cut_line(plain(str(text)), _COMMAND_CHARS) for text in (name, names[-1]))
    message = f"the kernel's reply names the error {in_reply!r}, and the cell's output {in_output!r}"
    yield Finding(
        kind=FindingKind.KERNEL, message=message, cell_number=cell.number, line=cell.line, fails_when_strict=True
    )


def cell_findings(cell: Cell, reply: Reply, *, is_cut: bool, raised: bool, output: str = "") -> Iterator[Finding]:
    """Return findings about a cell beside its error."""
    place: dict[str, Any] = {"cell_number": cell.number, "line": cell.line}
    for command, code in reply.payload.get("shell_lines", []):
        at = {**place, "line": _line_of_command(cell, str(command))}
        yield from _shell_findings(str(command), int(code), output, reply.payload, at)
    if count := reply.payload.get("breakpoints"):
        message = f"breakpoint() was reached {count} time{'' if count == 1 else 's'}; it returns at once here"
        at = {**place, "line": _line_with(cell, "breakpoint(")}
        yield Finding(kind=FindingKind.BREAKPOINT, message=message, **at)
    if cell.expects_error and not raised:
        message = "the cell is tagged raises-exception and raised nothing"
        yield Finding(kind=FindingKind.ERROR_EXPECTED, message=message, fails_when_strict=True, **place)
    if raised and not cell.expects_error and reply.status == "ok" and not reply.payload.get("exit_asked"):
        message = (
            "the error is among the cell's outputs although the kernel's reply is 'ok' (%run, %%capture, an output "
            "widget, or a figure that fails when it is drawn); other runners pass such a cell"
        )
        yield Finding(kind=FindingKind.KERNEL, message=message, **place)
    if not cell.expects_error and not raised:
        yield from printed_error_findings(output, cell)
    yield from _gpu_fallback(output, place)
    if is_cut:
        yield Finding(
            kind=FindingKind.OUTPUT_CUT, message="the cell's text output was long; its middle is not kept", **place
        )
    if not reply.idle_seen:
        yield Finding(kind=FindingKind.OUTPUT_CUT, message="the end of the cell's output did not arrive", **place)


def _gpu_fallback(output: str, place: dict[str, Any]) -> Iterator[Finding]:
    """Find warnings of libraries that use the CPU instead of a GPU: the measurements are then of another device."""
    for pattern, is_fault in ((_FALLS_BACK, True), (_HAS_NONE, False)):
        if match := pattern.search(output):
            line = output[match.start() :].split("\n", 1)[0].strip()
            message = f"a library uses the CPU and not a GPU: {cut_line(line, _COMMAND_CHARS)!r}"
            yield Finding(kind=FindingKind.GPU, message=message, fails_when_strict=is_fault, **place)


def _line_of_command(cell: Cell, command: str) -> int | None:
    """Return the line of a shell line in the lecture's file; the cell's first line if it is not found there."""
    if cell.line is None:
        return None
    # %pip runs `PYTHON -m pip ...`.
    wanted = " ".join(command.rpartition(" -m ")[2].split())
    shell_lines = []
    for number, line in _joined_lines(cell.source):
        if wanted and wanted in " ".join(line.split()):
            return cell.line + number
        if _SHELL_LINE.match(line):
            shell_lines.append(number)
    # A line with variables reads differently when it runs.
    return cell.line + (shell_lines[0] if len(shell_lines) == 1 else 0)


def _joined_lines(source: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their number from 0; those that end in a backslash are joined with the next, as by IPython."""
    first, parts = 0, list[str]()
    for number, line in enumerate(source.split("\n")):
        first = first if parts else number
        is_open = line.rstrip().endswith("\\")
        parts.append(line.rstrip()[:-1] if is_open else line)
        if not is_open:
            yield first, " ".join(parts)
            parts = []
    if parts:
        yield first, " ".join(parts)


def _line_with(cell: Cell, text: str) -> int | None:
    """Return the line of the lecture's file that holds a text, or the cell's first line unless it is the only one."""
    lines = [number for number, line in enumerate(cell.source.split("\n"), start=1) if text in line]
    return cell.file_line(lines[0]) if len(lines) == 1 else cell.line


def _shell_findings(
    command: str, code: int, output: str, payload: Mapping[str, Any], place: dict[str, Any]
) -> Iterator[Finding]:
    shown = cut_line(" ".join(command.split()), _COMMAND_CHARS)
    if code == _NOT_FOUND:
        message = f"shell line {shown!r} ended with code {code}: program not found"
        yield Finding(kind=FindingKind.MISSING_PROGRAM, message=message, fails_when_strict=True, **place)
    elif _INSTALL.search(command):
        # Installers colour their words, because a shell line runs in a terminal of its own.
        ended = _install_result(plain(output), payload) if code == 0 else f"ended with code {code}"
        yield Finding(
            kind=FindingKind.INSTALL,
            message=f"install line {shown!r} {ended}",
            fails_when_strict=ended != _NO_CHANGE,
            may_explain=code != 0 or "though" in ended or bool(payload.get("replaced")),
            **place,
        )
    elif code != 0:
        message = f"shell line {shown!r} ended with code {code}"
        yield Finding(kind=FindingKind.SHELL, message=message, fails_when_strict=True, **place)


def _install_result(output: str, payload: Mapping[str, Any]) -> str:
    """Determine the effect of an install line from what it replaced, the cell's output, and the installed packages."""
    if replaced := payload.get("replaced"):
        return f"changed packages that were already imported: {cut_line(', '.join(replaced), _COMMAND_CHARS)}"
    if _INSTALLED.search(output):
        return "changed the environment"
    if match := _INSTALL_ERROR.search(output):
        # `|| true` and -q hide it from the exit code.
        return f"ended with code 0, though the cell's output has {cut_line(match[0].strip(), _COMMAND_CHARS)!r}"
    if payload.get("nothing_installed") or "Requirement already satisfied" in output:
        return _NO_CHANGE
    return "may have changed the environment"


def allowed_error_findings(cells: Sequence[CellRun]) -> Iterator[Finding]:
    """Yield one finding if cells raised in a lecture that allows errors: the rest of its code may not have run."""
    raised = [cell for cell in cells if cell.status is CellStatus.ALLOWED_ERROR]
    if not raised:
        return
    first, count = raised[0], sum(cell.status.has_run for cell in cells)
    error = first.error
    line_in_cell = error.line_in_cell if error is not None else None
    line = first.line if first.line is None or line_in_cell is None else first.line + line_in_cell - 1
    name = f"{error.name!r}" if error is not None else "an error"
    message = (
        f"{len(raised)} of {count} cells raised and the lecture went on (allow_errors), first with {name}; "
        "tag single cells with raises-exception instead"
    )
    yield Finding(
        kind=FindingKind.ALLOWED_ERROR, message=message, cell_number=first.number, line=line, fails_when_strict=True
    )


def mapped_file_findings(heaviest: CellRun, mapped_file_bytes: int | None) -> Iterator[Finding]:
    """Report that a large part of the peak was pages of mapped files, which the system can reclaim."""
    peak = heaviest.measured(Metric.PEAK_FOOTPRINT)
    if peak is None or mapped_file_bytes is None:
        return
    if mapped_file_bytes < max(_MAPPED_LEAST_BYTES, _MAPPED_FRACTION * peak.value):
        return
    message = (
        f"at the peak of code cell {heaviest.number}, {format_size(mapped_file_bytes)} of its resident memory were "
        "pages of mapped files (memory-mapped data, libraries): they count in the peak, but the system can reclaim "
        "those that were only read"
    )
    yield Finding(kind=FindingKind.MEASURE, message=message, cell_number=heaviest.number)


def peak_reset_finding(cell_number: int) -> Finding:
    """Report a cell that reset the counter of its own peak, which is then only a lower bound or a range."""
    message = (
        "the cell reset the system's counter of its own memory peak (/proc/self/clear_refs); a peak between two "
        "samples may be missing"
    )
    return Finding(kind=FindingKind.MEASURE, message=message, cell_number=cell_number, fails_when_strict=True)


def thread_findings(heaviest_cell: int, threads_after: Mapping[int, Sequence[tuple[str, int]]]) -> Iterator[Finding]:
    """Report threads of earlier cells that were alive in the heaviest one, whose peak may be theirs."""
    earlier = [number for number in threads_after if number < heaviest_cell]
    if not earlier:
        return
    for name, number in threads_after[max(earlier)]:
        if 0 < number < heaviest_cell:
            message = (
                f"thread {cut_line(name, _COMMAND_CHARS)!r} started in code cell {number} was still alive when code "
                f"cell {heaviest_cell} reached the lecture's peak"
            )
            yield Finding(kind=FindingKind.THREAD, message=message, cell_number=number)
