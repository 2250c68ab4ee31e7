"""
Render ``runtime-info.txt``: when each notebook of a package ran, where, with what, and how it ended. Plain text.

It is made to lie beside a package's log files. No path of this machine, user name or host name is in it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_lecturecheck.model.manifest import Fact
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.measurement_text import method_text
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_duration, format_size

FILE_NAME: Final = "runtime-info.txt"
_NOT_RECORDED: Final = "not recorded"
_FACTS: Final = (
    *(Fact.PYTHON, Fact.PYTHON_BUILD, Fact.PYTHON_ORIGIN, Fact.NUMPY_BLAS, Fact.NUMPY_LAPACK, Fact.SCIPY_BLAS),
    *(Fact.SCIPY_LAPACK, Fact.LOADED_BLAS, Fact.LIBC, Fact.ALLOCATOR, Fact.HUGE_PAGES, Fact.OVERCOMMIT),
    *(Fact.CPU_FLAGS, Fact.CONTAINER),
)
_PROGRAM_FACTS: Final = (
    *(Fact.PROGRAM, Fact.LOADED_BLAS, Fact.HUGE_PAGES, Fact.OVERCOMMIT, Fact.CPU_FLAGS, Fact.CONTAINER),
)


def render_runtime_info(entries: Sequence[Entry], *, version: str) -> str:
    """
    Render the text.

    Args:
        entries: the runs.
        version: version of this package that measured, or an empty string.
    """
    lines = [f"Runtime information, measured with pytest-lecturecheck {version}".rstrip(), ""]
    machines = dict.fromkeys(run.machine.text for entry in entries if (run := entry.run).machine is not None)
    lines += [f"machine: {one_line(text)}" for text in machines] or [f"machine: {_NOT_RECORDED}"]
    for entry in entries:
        lines += ["", *_run_lines(entry)]
    environments: dict[tuple[str, ...], list[str]] = {}
    for entry in entries:
        environments.setdefault(tuple(_environment_lines(entry.run)), []).append(entry.name)
    for found, names in environments.items():
        lines += ["", f"environment of {', '.join(names)}", *found]
    return "\n".join(lines) + "\n"


def _run_lines(entry: Entry) -> Iterator[str]:
    run = entry.run
    yield f"{'program' if run.is_program else 'notebook'}: {entry.name}"
    rows = {"started": _moment(run.launch.started) or _NOT_RECORDED}
    whole = entry.seconds or entry.wall_seconds
    rows["time"] = f"{format_duration(whole)}, of which {format_duration(entry.wall_seconds)} in {_steps(run)}"
    for metric in (Metric.PEAK_FOOTPRINT, Metric.CPU, Metric.DISK_WRITTEN, Metric.DISK_READ):
        found = run.measured(metric)
        rows[metric.label] = f"{found.text}, {method_text(found)}" if found is not None else "not measured"
    cap = run.conditions.cap_bytes
    rows["memory cap"] = f"{format_size(cap)} ({run.conditions.cap_method})" if cap is not None else "none"
    rows["result"] = entry.run.outcome.value
    if run.outcome is not Outcome.COMPLETED or entry.verdict.failed:
        rows["reason"] = entry.headline
    yield from (f"  {name}: {one_line(text)}" for name, text in rows.items())


def _steps(run: Run) -> str:
    return "the program" if run.is_program else f"{run.cell_run_count} of {len(run.cells)} code cells"


def _moment(text: str) -> str:
    try:
        return f"{dt.datetime.fromisoformat(text).astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
    except ValueError:
        return ""


def _environment_lines(run: Run) -> Iterator[str]:
    if run.manifest is None:
        yield f"  {_NOT_RECORDED}"
        return
    facts = _PROGRAM_FACTS if run.is_program else _FACTS
    yield from (f"  {fact.value}: {one_line(run.manifest.fact(fact)) or _NOT_RECORDED}" for fact in facts)
    imported = run.software.packages if run.software is not None else {}
    if imported:
        yield f"  imported: {', '.join(f'{name} {version}' for name, version in sorted(imported.items()))}"
    yield f"  installed: {len(run.manifest.distributions) or _NOT_RECORDED}"
    for name, text in sorted(run.manifest.distributions.items()):
        number, _, origin = text.partition(" ")
        yield f"    {one_line(name)}=={one_line(number)}{f'  {one_line(origin)}' if origin else ''}"
