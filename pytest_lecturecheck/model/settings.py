"""
Settings of one lecture's run, and their layers.

A layer states only what its source states; ``None`` means "says nothing". Layers are stacked by precedence: lecture's
own metadata, command line, settings file, book configuration, defaults.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, fields, replace
from enum import StrEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.axis import Axis
from pytest_lecturecheck.model.finding import FindingKind

NO_LIMIT: Final = math.inf
"""The value of a timeout or a cap that was switched off (0, a negative number or null in the source)."""

AUTOMATIC_CAP: Final = 0.0
"""The value of a memory cap that follows from what the machine can give when the lecture starts."""


CAP_WORDS: Final = {"auto": AUTOMATIC_CAP, "off": NO_LIMIT}
"""What may stand instead of a size for a memory cap."""


class GpuNeed(StrEnum):
    """What a lecture says about GPUs."""

    REQUIRED = "required"
    """It cannot run, or not in any reasonable time, without one."""
    NARRATIVE = "narrative"
    """Its output shows a device: without one it would tell of something else."""
    CPU = "cpu"
    """It is pinned to the CPU, and sees no GPU."""


_ABOUT_SETTINGS: Final = frozenset({"origins", "lines", "texts"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """
    One layer of a lecture's settings.

    Attributes:
        timeout_seconds: limit for one cell; :data:`NO_LIMIT` for none.
        total_timeout_seconds: limit for the whole lecture, kernel start included.
        startup_timeout_seconds: limit for the kernel's start.
        marks_after_seconds: time after which the report marks in which line a cell is; :data:`NO_LIMIT` for never.
        allow_errors: run on after a cell that raised, and do not fail for it.
        run_in_temp: run in an empty temporary folder instead of the lecture's own.
        kernel_name: kernelspec to use instead of the lecture's own.
        skip_reason: why the lecture is not run at all; an empty string runs it in spite of a lower layer.
        declared_memory_bytes: memory that a README declares.
        declared_time_seconds: time that a README declares.
        declared_core_count: cores of the machine that a README declares.
        declared_disk_bytes: disk space that a README declares.
        enforce_declared: the lecture runs under the declared memory and time.
        memory_cap_bytes: memory that the lecture's processes may take before they are stopped; :data:`AUTOMATIC_CAP`
            works it out, :data:`NO_LIMIT` sets none.
        gpu: what the lecture says about GPUs.
        env_profile: named set of variables for the kernel.
        exclusive: nothing else may run beside the lecture.
        concurrency: how many kernels of the lecture are to be run at once, each in turn; empty for the lecture alone.
        gpus: number of GPUs that the lecture needs at once.
        passes: how often all cells run in each kernel; times of the second and later ones are kept.
        axes: what spans the lecture's variants.
        variants: the variants to run, by name or by the value of an axis; ``None`` for all.
        strict_except: kinds of findings that do not fail the lecture under ``strict``.
        origins: for each attribute that is set, where that was said ("_config.yml execute.timeout").
        lines: for attributes that the lecture's own file sets, the 1-based line, where it is known.
        texts: for attributes that this layer sets, the value as a person wrote it, where it is known.
    """

    timeout_seconds: float | None = None
    total_timeout_seconds: float | None = None
    startup_timeout_seconds: float | None = None
    marks_after_seconds: float | None = None
    allow_errors: bool | None = None
    run_in_temp: bool | None = None
    kernel_name: str | None = None
    skip_reason: str | None = None
    declared_memory_bytes: int | None = None
    declared_time_seconds: float | None = None
    declared_core_count: int | None = None
    declared_disk_bytes: int | None = None
    enforce_declared: bool | None = None
    memory_cap_bytes: float | None = None
    gpu: GpuNeed | None = None
    env_profile: str | None = None
    exclusive: bool | None = None
    concurrency: tuple[int, ...] | None = None
    gpus: int | None = None
    passes: int | None = None
    axes: tuple[Axis, ...] | None = None
    variants: tuple[str, ...] | None = None
    strict_except: tuple[FindingKind, ...] | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    texts: Mapping[str, str] = field(default_factory=dict, compare=False)

    def over(self, lower: RunSettings) -> RunSettings:
        """Lay this layer over ``lower``: what this one leaves open is taken from there."""
        changes = {
            item.name: getattr(lower, item.name)
            for item in fields(self)
            if item.name not in _ABOUT_SETTINGS and getattr(self, item.name) is None
        }
        taken = {name: text for name, text in lower.origins.items() if name in changes}
        # What a layer says about a setting that it leaves open must not hide where the value really comes from.
        own = {name: text for name, text in self.origins.items() if name not in changes}
        return replace(self, **changes, origins={**taken, **own})

    def origin(self, name: str) -> str:
        """Return where a setting comes from, defaults included."""
        return self.origins.get(name, "default")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemLimit:
    """A time limit that another plugin sets for an item and all its runs, and who says so."""

    seconds: float
    origin: str


def timeout_from_number(value: float | None) -> float:
    """
    Read a timeout in seconds as every notebook runner does: zero, negative and null switch it off.

    Raises:
        SettingsError: NaN (a limit that would never be reached) or a boolean.
    """
    if value is None:
        return NO_LIMIT
    if isinstance(value, bool) or math.isnan(value):
        msg = f"timeout {value!r} is not a number of seconds; expected for example 600, or -1 for no limit"
        raise SettingsError(msg)
    return NO_LIMIT if value <= 0 else float(value)
