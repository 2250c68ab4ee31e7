"""The ``sbatch`` commands that submit lectures to Slurm, and the job script for a whole package."""

from __future__ import annotations

import shlex
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.commands.measured_needs import Need, read_needs
from pytest_lecturecheck.config.options import SessionSettings, resolve
from pytest_lecturecheck.config.slurm_settings import job_options, sbatch_line, step_memory_bytes, with_margin
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.lecture.book.configuration import find_book
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.lecture.selection import is_candidate
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.settings import GpuNeed
from pytest_lecturecheck.store.budget_file.files import budget_path, load_budgets
from pytest_lecturecheck.units import format_duration, format_size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A lecture, and what is known of its need: from its budget, from what is declared, or from kept sessions."""

    name: str
    memory_bytes: int | None
    seconds: float | None
    gpu: GpuNeed | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """
    Lectures to submit.

    Attributes:
        left_out: files that were left out, with the reason.
    """

    jobs: tuple[_Job, ...]
    left_out: tuple[str, ...]
    settings: SessionSettings
    label: str
    root: Path

    def lines(self) -> list[str]:
        """Return the command that submits each lecture as a job of its own."""
        return [
            sbatch_line(
                job.name,
                command=self._command([job.name]),
                folder=str(self.root),
                memory_bytes=job.memory_bytes,
                gpu=job.gpu,
                settings=self.settings.slurm,
                seconds=job.seconds,
            )
            for job in self.jobs
        ]

    def script(self) -> list[str]:
        """
        Return the lines of a script for ``sbatch`` that runs all lectures in one job, one after the other.

        Raises:
            LectureCheckError: there is no lecture, or a name contains control characters.
        """
        if not self.jobs:
            msg = "none of the files is a lecture with code to run, so there is no job to write"
            raise LectureCheckError(msg)
        memory = [job.memory_bytes for job in self.jobs if job.memory_bytes is not None]
        seconds = [job.seconds for job in self.jobs if job.seconds is not None]
        options = job_options(
            self.root.resolve().name,
            memory_bytes=max(memory) if len(memory) == len(self.jobs) else None,
            gpu=next((job.gpu for job in self.jobs if job.gpu not in {None, GpuNeed.CPU}), None),
            settings=self.settings.slurm,
            seconds=sum(seconds) if len(seconds) == len(self.jobs) else None,
        )
        command = shlex.join(self._command([job.name for job in self.jobs]))
        lines = [*self._notes(), *(f"#SBATCH {option}" for option in options)]
        lines += [f"cd {shlex.quote(str(self.root))} || exit 2", f"exec {command}"]
        if any(unicodedata.category(char).startswith("C") for line in lines for char in line):
            msg = "a name contains control characters, which a script cannot hold; rename the file"
            raise LectureCheckError(msg)
        return ["#!/bin/sh", *lines]

    def _notes(self) -> Iterator[str]:
        count = len(self.jobs)
        what = f"{count} lectures, one after the other" if count > 1 else "1 lecture"
        yield f"# {what}. Submit with: sbatch FILE"
        unknown = [job.name for job in self.jobs if job.memory_bytes is None]
        if unknown:
            yield f"# --mem is missing: nothing is known of {', '.join(unknown)}; run it once, or add #SBATCH --mem=..."
        else:
            most = max(self.jobs, key=lambda job: job.memory_bytes or 0)
            size = format_size(most.memory_bytes or 0)
            yield f"# --mem: {size} for {most.name}, margin included, and 256 MiB for pytest"
        unknown = [job.name for job in self.jobs if job.seconds is None]
        if self.settings.slurm.time:
            yield "# --time: as the settings state"
        elif unknown:
            names = ", ".join(unknown)
            yield f"# --time is missing: nothing is known of {names}; run it once, or add #SBATCH --time=..."
        else:
            total = format_duration(sum(job.seconds or 0 for job in self.jobs))
            yield f"# --time: twice the measured {total}, and 2 min for pytest; another processor may take longer"

    def _command(self, names: Sequence[str]) -> list[str]:
        platform = [] if self.settings.platform else [f"--lecture-platform={self.label}"]
        command = [sys.executable, "-m", "pytest", "--lecture-budget", "--lecture-launcher=local", *platform]
        # A path that begins with a dash would be read as an option.
        return [*command, *(f"./{name}" for name in names)]


def plan_jobs(lectures: Sequence[Path], *, root: Path, platform: str | None, detected: str) -> JobPlan:
    """
    Return what there is to submit.

    Files that are no lectures, such as a plain Markdown page, and lectures without code to run are left out. Memory is
    requested if a budget, a declared value, a cap, a kept session or the setting ``mem-default`` states it. A time
    limit follows from a budget or a kept session.

    Args:
        lectures: files of lectures.
        root: pytest's rootdir; settings file, budgets and kept sessions are read there.
        platform: platform label given by the user, or ``None``.
        detected: label of this machine, used if no other is stated.

    Raises:
        LectureCheckError: a file is missing or outside ``root``, or settings or budgets cannot be used.
    """
    settings = resolve({}, root, root)
    label = platform or settings.platform or detected
    budgets = load_budgets(budget_path(settings.budget_folder, label))
    needs = read_needs(root, label)
    jobs, left_out = [], []
    for path in lectures:
        name = _name(path, root)
        if not is_candidate(root / name, explicit=True, extra_suffixes=settings.suffixes):
            left_out.append(f"{name}: not a lecture")
            continue
        lecture = read_lecture(root / name, name=name, root=root, book=find_book((root / name).parent, root=root))
        own = settings.for_lecture(lecture.settings)
        if own.skip_reason or not lecture.has_work:
            left_out.append(f"{name}: {own.skip_reason or 'no code to run'}")
            continue
        budget, need = budgets.find(lecture.name), needs.get(lecture.name, Need())
        measured = with_margin(need.peak_bytes) if need.peak_bytes is not None else None
        # What was measured says more than what a README declares.
        stated = step_memory_bytes(budget, replace(own, declared_memory_bytes=None))
        known = stated or measured or step_memory_bytes(None, own) or settings.slurm.mem_default_bytes
        jobs.append(_Job(name=name, memory_bytes=known, seconds=_seconds(budget, need), gpu=own.gpu))
    return JobPlan(jobs=tuple(jobs), left_out=tuple(left_out), settings=settings, label=label, root=root)


def _seconds(budget: LectureBudget | None, need: Need) -> float | None:
    recorded = budget.metrics.get(Metric.WALL) if budget is not None else None
    return max(recorded.seen) if recorded is not None and recorded.seen else need.seconds


def _name(path: Path, root: Path) -> str:
    shown = "".join(char for char in str(path) if not unicodedata.category(char).startswith("C"))
    found = path.resolve()
    if not found.is_file():
        msg = f"{shown}: no such file; expected lectures (.ipynb, .md)"
        raise LectureCheckError(msg)
    if not found.is_relative_to(root.resolve()):
        msg = f"{shown}: outside {root}; call lecturecheck from pytest's rootdir"
        raise LectureCheckError(msg)
    return found.relative_to(root.resolve()).as_posix()
