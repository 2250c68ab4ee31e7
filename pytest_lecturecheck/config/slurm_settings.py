"""
Resource requests for Slurm: the settings of ``[slurm]``, the memory of a job step, and commands that submit jobs.

Pure. This package runs nothing here through a shell; commands for people are quoted with :mod:`shlex`.
"""

from __future__ import annotations

import math
import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from pytest_lecturecheck.budget.limits import LectureBudget
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError, UnitError, expected_instead
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, GpuNeed, RunSettings
from pytest_lecturecheck.units import MIB, parse_size

LEAST_STEP_BYTES: Final = 256 * MIB
"""A bare kernel needs about 60 MiB, and the process that starts it some more."""
ASSUMED_STEP_BYTES: Final = 2048 * MIB
"""For an unknown lecture, where neither the settings nor the allocation state a size."""
SESSION_BYTES: Final = 256 * MIB
"""Memory of pytest itself in a job of its own."""
_TIME_FACTOR: Final = 2
_SESSION_SECONDS: Final = 120.0
_MINUTE: Final = 60
_MARGIN_FRACTION: Final = 0.10
_MARGIN_BYTES: Final = 64 * MIB
_NEEDS_GPU: Final = frozenset({GpuNeed.REQUIRED, GpuNeed.NARRATIVE})

_TIME: Final = re.compile(r"[0-9]+(?::[0-9]{2}){0,2}|[0-9]+-[0-9]{1,2}(?::[0-9]{2}){0,2}")
_OWN_FLAGS: Final = (
    *("--mem", "--mem-per-cpu", "--mem-per-gpu", "--ntasks", "-n", "--nodes", "-N", "--cpus-per-task", "-c", "--exact"),
    *("--job-name", "-J", "--label", "-l", "--export", "--input", "-i", "--output", "-o", "--error", "-e", "--gres"),
    *("--time", "-t", "--chdir", "-D", "--multi-prog", "--pty", "--jobid", "--wait"),
)
_NAME_CHARS: Final = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """
    The table ``[slurm]`` of the settings file.

    Attributes:
        partition: for ``sbatch`` and ``salloc``; steps run in the partition of their allocation.
        account: for ``sbatch`` and ``salloc``.
        time: time limit of a step, and of a job, as Slurm writes it (``"30"``, ``"1:00:00"``, ``"1-12"``).
        gres: generic resources of lectures that need a GPU (``"gpu:1"``).
        mem_default_bytes: memory of a lecture without a budget.
        cpus: cores of a step.
        extra: further options of ``srun``, passed on unchanged.
        sbatch_extra: further options of ``sbatch``, passed on unchanged.
    """

    partition: str | None = None
    account: str | None = None
    time: str | None = None
    gres: str | None = None
    mem_default_bytes: int | None = None
    cpus: int = 1
    extra: tuple[str, ...] = ()
    sbatch_extra: tuple[str, ...] = ()

    def gres_of(self, gpu: GpuNeed | None) -> str | None:
        """Return the generic resources for a lecture, which depend on what it says about GPUs."""
        return self.gres if gpu in _NEEDS_GPU else None


def parse_slurm(value: object) -> SlurmSettings:
    """
    Read the table ``[slurm]``.

    Raises:
        SettingsError: not a table, an unknown key, or a value that cannot be used; the message names the key.
    """
    if not isinstance(value, Mapping):
        msg = f"{value!r} is not a table"
        raise SettingsError(msg)
    found: dict[str, Any] = {}
    for key, item in value.items():
        if key not in _READERS:
            msg = f"unknown key {key!r}; {expected_instead(key, _READERS)}"
            raise SettingsError(msg)
        attribute, read = _READERS[key]
        try:
            found[attribute] = read(item)
        except (SettingsError, UnitError) as exc:
            msg = f"{key}: {exc}"
            raise SettingsError(msg) from exc
    return SlurmSettings(**found)


def _read_word(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(r"[!-~]+", value) is None:
        msg = f"{value!r} is not a word without spaces"
        raise SettingsError(msg)
    return value


def _read_time(value: object) -> str:
    text = str(value)
    if isinstance(value, bool) or not isinstance(value, str | int) or _TIME.fullmatch(text) is None:
        msg = f"{value!r} is not a time as Slurm writes it; expected for example 90 (minutes), '1:30:00' or '1-12'"
        raise SettingsError(msg)
    return text


def _read_memory(value: object) -> int:
    size = parse_size(value)
    if size < LEAST_STEP_BYTES:
        msg = f"{value!r} is less than a kernel needs; expected at least '256 MiB'"
        raise SettingsError(msg)
    return size


def _read_cpus(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        msg = f"{value!r} is not a whole number of at least 1"
        raise SettingsError(msg)
    return value


def _read_flags(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        msg = f'{value!r} is not a list of options such as ["--nodelist=n1"]'
        raise SettingsError(msg)
    return tuple(_read_flag(item) for item in value)


def _read_flag(value: object) -> str:
    # srun would take a value in a word of its own for the program to run.
    if not isinstance(value, str) or re.fullmatch(r"--?[A-Za-z][^\x00-\x1f\x7f]*", value) is None:
        msg = f"{value!r} is not an option with its value in one word, such as '--nodelist=n1'"
        raise SettingsError(msg)
    name = value.partition("=")[0]
    if name in _OWN_FLAGS or (not name.startswith("--") and name[:2] in _OWN_FLAGS):
        msg = f"{value!r} is set by lecturecheck itself and cannot be given here"
        raise SettingsError(msg)
    return value


_READERS: Final[Mapping[str, tuple[str, Callable[[object], Any]]]] = {
    "partition": ("partition", _read_word),
    "account": ("account", _read_word),
    "time": ("time", _read_time),
    "gres": ("gres", _read_word),
    "mem-default": ("mem_default_bytes", _read_memory),
    "cpus": ("cpus", _read_cpus),
    "extra": ("extra", _read_flags),
    "sbatch-extra": ("sbatch_extra", _read_flags),
}


def step_memory_bytes(budget: LectureBudget | None, settings: RunSettings) -> int | None:
    """
    Return the memory that the job step of a lecture asks for, or ``None`` for an unknown lecture.

    A memory cap that somebody chose is requested as it is. Otherwise the request is the lecture's budget or, without
    one, the memory that a README declares, plus 10 % (at least 64 MiB). The margin lets a lecture that is slightly over
    its budget end with a verdict instead of being killed, and Slurm also counts memory that is in no footprint. The
    result is never less than :data:`LEAST_STEP_BYTES`.
    """
    cap = settings.memory_cap_bytes
    if cap is not None and cap != AUTOMATIC_CAP and math.isfinite(cap):
        return max(LEAST_STEP_BYTES, math.ceil(cap))
    limit = budget.metrics.get(Metric.PEAK_FOOTPRINT) if budget is not None else None
    known = limit.limit if limit is not None and limit.limit is not None else settings.declared_memory_bytes
    return None if known is None else with_margin(known)


def with_margin(need_bytes: float) -> int:
    """Return the memory that a job step asks for, for a lecture that needs so much; see :func:`step_memory_bytes`."""
    margin = max(_MARGIN_BYTES, math.ceil(need_bytes * _MARGIN_FRACTION))
    return max(LEAST_STEP_BYTES, math.ceil(need_bytes) + margin)


def job_minutes(measured_seconds: float) -> int:
    """Return the time limit of a job, for lectures that took so long: twice that, and two minutes for pytest."""
    return math.ceil((_TIME_FACTOR * measured_seconds + _SESSION_SECONDS) / _MINUTE)


def mebibytes(size_bytes: int) -> int:
    """Return a size in MiB, the unit of Slurm's ``--mem``, rounded up."""
    return -(-size_bytes // MIB)


def job_name(lecture: str) -> str:
    """Return a lecture's name in characters that Slurm can show: letters, digits, ``.``, ``_`` and ``-``."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", PurePath(lecture).name).lstrip("-._")[:_NAME_CHARS]
    return safe or "lecture"


def sbatch_line(  # noqa: PLR0913 - keyword-only
    lecture: str,
    *,
    command: Sequence[str],
    folder: str,
    memory_bytes: int | None,
    gpu: GpuNeed | None,
    settings: SlurmSettings,
    seconds: float | None = None,
) -> str:
    """
    Return the command line that submits one lecture as a job of its own, for people to review and run.

    Args:
        lecture: the lecture's name.
        command: the command that the job runs.
        folder: the folder that it runs in.
        memory_bytes: memory of the lecture, to which that of pytest is added; ``None`` requests no memory, so that
            the default of the cluster applies.
        gpu: what the lecture says about GPUs.
        settings: the settings of Slurm.
        seconds: time that the lecture took, or ``None``; a limit follows from it where the settings state none.

    Raises:
        SettingsError: a name contains control characters, which a single line cannot hold.
    """
    options = job_options(lecture, memory_bytes=memory_bytes, gpu=gpu, settings=settings, seconds=seconds)
    options.append(f"--chdir={folder}")
    line = shlex.join(["sbatch", *options, f"--wrap={shlex.join(command)}"])
    if any(unicodedata.category(char).startswith("C") for char in line):
        msg = f"{lecture!r}: the name contains control characters, which a shell command cannot hold; rename the file"
        raise SettingsError(msg)
    return line


def job_options(
    name: str, *, memory_bytes: int | None, gpu: GpuNeed | None, settings: SlurmSettings, seconds: float | None
) -> list[str]:
    """Return the options of ``sbatch`` for a job; see :func:`sbatch_line`."""
    gres = settings.gres_of(gpu)
    time = settings.time or (str(job_minutes(seconds)) if seconds is not None else "")
    return [
        f"--job-name={job_name(name)}",
        *([f"--mem={mebibytes(memory_bytes + SESSION_BYTES)}M"] if memory_bytes is not None else []),
        f"--cpus-per-task={settings.cpus}",
        *([f"--partition={settings.partition}"] if settings.partition else []),
        *([f"--account={settings.account}"] if settings.account else []),
        *([f"--time={time}"] if time else []),
        *([f"--gres={gres}"] if gres else []),
        *settings.sbatch_extra,
    ]
