"""Lectures made of a few cells, run in real kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

import nbformat.v4

from pytest_lecturecheck.config.options import DEFAULTS
from pytest_lecturecheck.kernel.run.ports import RunPlan
from pytest_lecturecheck.kernel.run.runner import run_lecture
from pytest_lecturecheck.model.lecture import Cell, Lecture, LectureFormat
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.probe.machine import detect_machine
from pytest_lecturecheck.session.workbench import Workbench
from support.fakes import FakeDeviceProbe, FakeProbe, FakeProbes

FIRST_LINE = 100
"""Each cell begins 100 lines after the one before it, so that lines are told apart."""


@dataclass(frozen=True)
class Code:
    """A cell's source and what the reader would have made of its tags."""

    source: str
    expects_error: bool = False
    skip_reason: str = ""
    is_exact: bool = False


def lecture(folder: Path, *cells: str | Code, kernel_name: str | None = None) -> Lecture:
    codes = [cell if isinstance(cell, Code) else Code(cell) for cell in cells]
    made = tuple(
        Cell(
            index=position,
            number=position + 1,
            source=code.source if code.is_exact else dedent(code.source).strip("\n"),
            line=FIRST_LINE * (position + 1),
            expects_error=code.expects_error,
            skip_reason=code.skip_reason,
        )
        for position, code in enumerate(codes)
    )
    document = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.source) for cell in made])
    return Lecture(
        path=folder / "lecture.md",
        name="lecture.md",
        format=LectureFormat.MYST,
        kernel_name=kernel_name,
        language="python",
        cells=made,
        settings=RunSettings(),
        findings=(),
        document=document,
    )


class Bench:
    """The workbench of a session, with a probe that measures nothing where measuring is not the point."""

    def __init__(self) -> None:
        self.folder = Path()
        self.progress = []
        self._bench = Workbench(
            platform="linux-x86_64-cpu",
            machine=detect_machine(),
            on_kernel=lambda _pid: None,
            on_progress=self.progress.append,
            on_wait=lambda: None,
        )
        self._real_ports = self._bench._ports

    def run(
        self, *cells: str | Code, probe: FakeProbe | None = None, kernel_name: str | None = None, **settings
    ) -> Run:
        """Run a lecture of these cells; without a probe a fake one is used."""
        probes = FakeProbes(probe, others=self._real_ports.probes)
        self._bench._ports = replace(self._real_ports, probes=probes)
        return self._run(*cells, kernel_name=kernel_name, **settings)

    def run_on_devices(
        self,
        *cells: str | Code,
        device_probe: FakeDeviceProbe | None = None,
        environment: dict[str, str] | None = None,
        **settings,
    ) -> Run:
        """Run a lecture of these cells with variables of its own, and with these devices where any are given."""
        ports = replace(self._real_ports, probes=FakeProbes(devices=device_probe))
        plan = RunPlan(
            lecture=lecture(self.folder, *cells),
            settings=replace(DEFAULTS, **{"timeout_seconds": 60.0, **settings}),
            platform="linux-x86_64-cpu",
            machine=detect_machine(),
            environment=environment or {},
        )
        return self._bench._loop.run(run_lecture(plan, ports, self._bench._zmq()))

    def run_sources(self, *sources: str, **settings) -> Run:
        """Run a lecture of cells whose sources are taken as they are, empty lines at the beginning included."""
        return self.run(*(Code(source, is_exact=True) for source in sources), **settings)

    def measure(self, *cells: str | Code, **settings) -> Run:
        """Run a lecture of these cells under the real probe."""
        self._bench._ports = self._real_ports
        return self._run(*cells, **settings)

    def _run(self, *cells: str | Code, kernel_name: str | None = None, is_followed: bool = False, **settings) -> Run:
        layer = replace(DEFAULTS, **{"timeout_seconds": 60.0, **settings})
        made = lecture(self.folder, *cells, kernel_name=kernel_name)
        return self._bench.run(made, layer, 1, is_followed=is_followed)

    @property
    def has_spare(self) -> bool:
        return self._bench._spares.has_one

    @property
    def loop(self):
        return self._bench._loop

    def close(self) -> None:
        self._bench.close()


def kernelspec(folder: Path, name: str, *argv: str, language: str = "python") -> Path:
    """Write a kernelspec; return the folder for ``JUPYTER_PATH``."""
    spec_folder = folder / "jupyter" / "kernels" / name
    spec_folder.mkdir(parents=True)
    spec = {"argv": list(argv), "display_name": name, "language": language}
    (spec_folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return folder / "jupyter"


def run_to_limit(run_with: Callable[[float], Run], got_there: Callable[[Run], bool], seconds: float) -> Run:
    """
    Run under a limit, and under longer ones until the run has got to where its limit is to meet it.

    How far a kernel gets in a few seconds depends on what else the machine does.
    """
    for factor in (1, 3, 9):
        run = run_with(seconds * factor)
        if got_there(run):
            break
    return run


def statuses(run: Run) -> list[str]:
    return [cell.status.value for cell in run.cells]


def messages(run: Run) -> list[str]:
    return [finding.message for finding in run.findings]
