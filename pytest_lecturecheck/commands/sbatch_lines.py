"""The ``sbatch`` commands that submit lectures to Slurm."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from pytest_lecturecheck.config.options import SessionSettings, resolve
from pytest_lecturecheck.config.slurm_settings import sbatch_line, step_memory_bytes
from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.lecture.book.configuration import find_book
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.lecture.selection import is_candidate
from pytest_lecturecheck.store.budget_file.files import budget_path, load_budgets


def sbatch_lines(
    lectures: Sequence[Path], *, root: Path, platform: str | None, detected: str
) -> tuple[list[str], list[str]]:
    """
    Return the command that submits each lecture as a job of its own, and the files that were left out.

    Files that are no lectures, such as a plain Markdown page, and lectures without code to run are left out. Memory is
    requested if a budget, a declared value, a cap or the setting ``mem-default`` states it.

    Args:
        lectures: files of lectures.
        root: pytest's rootdir; settings file and budgets are read there.
        platform: platform label given by the user, or ``None``.
        detected: label of this machine, used if no other is stated.

    Raises:
        LectureCheckError: a file is missing or outside ``root``, or settings or budgets cannot be used.
    """
    settings = resolve({}, root, root)
    label = platform or settings.platform or detected
    budgets = load_budgets(budget_path(settings.budget_folder, label))
    lines, left_out = [], []
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
        known = step_memory_bytes(budgets.find(lecture.name), own)
        line = sbatch_line(
            name,
            command=_command(name, label, settings),
            folder=str(root),
            memory_bytes=known or settings.slurm.mem_default_bytes,
            gpu=own.gpu,
            settings=settings.slurm,
        )
        lines.append(line)
    return lines, left_out


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


def _command(name: str, label: str, settings: SessionSettings) -> list[str]:
    platform = [] if settings.platform else [f"--lecture-platform={label}"]
    # A path that begins with a dash would be read as an option.
    return [sys.executable, "-m", "pytest", "--lecture-budget", "--lecture-launcher=local", *platform, f"./{name}"]
