"""
Cohorts: several kernels that are started at the same moment, to see what a machine can take.

``lecture-concurrency = "1,2,3"`` runs each lecture alone, twice at once and three times at once; a table
``[cohort.NAME]`` names a mix of lectures. Values and arithmetic only.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.axis import KERNELS_PART
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.variant import DEFAULT_VARIANT, title_of

MOST_KERNELS: Final = 64
"""More kernels at once are a slip of the pen."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_COUNT: Final = re.compile(r"[0-9]{1,4}")
_KEYS: Final = frozenset({"lectures"})

Series: TypeAlias = Sequence[tuple[float, int]]
"""Moments (seconds of one clock, not falling) and the bytes that were held from each on until the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortSpec:
    """
    What runs at once.

    Attributes:
        name: the cohort's name as node ids and budgets show it ("c=2", "gpu-three").
        lectures: names of the lectures, one for each kernel; a lecture may come more than once.
    """

    name: str
    lectures: tuple[str, ...]

    @property
    def kernel_count(self) -> int:
        """Return the number of kernels."""
        return len(self.lectures)

    @property
    def is_repeat(self) -> bool:
        """Return True if it is one lecture several times, not a named mix."""
        return self.name.rpartition(",")[2].startswith(f"{KERNELS_PART}=")

    @property
    def variant(self) -> str:
        """Return the name of the variant that each kernel runs, without the number of kernels."""
        return self.name.rpartition(",")[0] if self.is_repeat else ""

    @property
    def title(self) -> str:
        """Name the cohort where its lecture may be one among several (``a.md [c=2]``)."""
        return title_of(self.lectures[0], self.name)


def repeat_lecture(lecture: str, kernel_count: int, variant: str = DEFAULT_VARIANT) -> CohortSpec:
    """Return the cohort of one lecture, or of a variant of it, that runs so many times at once."""
    count = f"{KERNELS_PART}={kernel_count}"
    return CohortSpec(name=f"{variant},{count}" if variant else count, lectures=(lecture,) * kernel_count)


def parse_concurrency(value: object) -> tuple[int, ...]:
    """
    Read how many kernels at once are to be tried: ``"1,2,3"``, a number, or a list of numbers.

    Returns:
        The counts from low to high, each once.

    Raises:
        SettingsError: not whole numbers from 1 to :data:`MOST_KERNELS`, or none at all.
    """
    items = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    counts = {_parse_count(item, value) for item in items}
    if not counts:
        raise SettingsError(_explain_concurrency(value))
    return tuple(sorted(counts))


def _parse_count(item: object, whole: object) -> int:
    text = item.strip() if isinstance(item, str) else str(item)
    if isinstance(item, bool) or not isinstance(item, str | int) or _COUNT.fullmatch(text) is None:
        raise SettingsError(_explain_concurrency(whole))
    if not 1 <= int(text) <= MOST_KERNELS:
        raise SettingsError(_explain_concurrency(whole))
    return int(text)


def _explain_concurrency(value: object) -> str:
    return (
        f"concurrency {value!r} is not understood: expected numbers of kernels from 1 to {MOST_KERNELS}, as in '1,2,3'"
    )


def parse_cohorts(tables: object) -> tuple[CohortSpec, ...]:
    """
    Read the tables ``[cohort.NAME]``, each with ``lectures = [...]``.

    Args:
        tables: what the settings file holds under ``cohort``.

    Returns:
        The cohorts by name.

    Raises:
        SettingsError: a name, key or lecture that cannot be used; the message names it.
    """
    if not isinstance(tables, Mapping):
        msg = f"cohort = {tables!r} is not a table; expected [cohort.NAME] with lectures = ['a.md', 'b.md']"
        raise SettingsError(msg)
    return tuple(_parse_cohort(str(name), table) for name, table in sorted(tables.items()))


def _parse_cohort(name: str, table: object) -> CohortSpec:
    if _NAME.fullmatch(name) is None:
        msg = (
            f"[cohort.{name}]: the name {name!r} cannot be used; expected letters, digits and . _ - "
            "(at most 64, starting with a letter or digit)"
        )
        raise SettingsError(msg)
    where = f"[cohort.{name}]"
    if not isinstance(table, Mapping):
        msg = f"{where}: {table!r} is not a table; expected lectures = ['a.md', 'b.md']"
        raise SettingsError(msg)
    for key in sorted(set(table) - _KEYS):
        msg = f"{where}: unknown key {key!r}; expected: {', '.join(sorted(_KEYS))}"
        raise SettingsError(msg)
    lectures = table.get("lectures")
    if not isinstance(lectures, list) or not 1 <= len(lectures) <= MOST_KERNELS:
        msg = (
            f"{where}: lectures = {lectures!r}: expected a list of 1 to {MOST_KERNELS} lectures, as in ['a.md', 'b.md']"
        )
        raise SettingsError(msg)
    return CohortSpec(name=name, lectures=tuple(_parse_lecture(where, item) for item in lectures))


def _parse_lecture(where: str, item: object) -> str:
    path = PurePosixPath(item) if isinstance(item, str) and item.strip() and "\\" not in item else None
    if path is None or path.is_absolute() or ".." in path.parts or not path.name:
        msg = f"{where}: lecture {item!r} cannot be used; expected a path with / below rootdir, as in 'ch1/intro.md'"
        raise SettingsError(msg)
    return unicodedata.normalize("NFC", str(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakOfSum:
    """
    The most that several held together.

    Attributes:
        total_bytes: the highest sum.
        seconds: the first moment at which it was held.
        parts_bytes: what each held then.
    """

    total_bytes: int
    seconds: float
    parts_bytes: tuple[int, ...]


def peak_of_sum(series: Sequence[Series]) -> PeakOfSum | None:
    """
    Find the highest sum of step functions over one clock, exactly.

    Each holds nothing before its first moment, and what its last moment says from then on: the series of a kernel that
    ended must end with 0. Of several values at one moment the last counts.

    Returns:
        The peak, or ``None`` where there is no moment at all. Exact for the steps as given: what was held between two
        samples is not in them.

    Raises:
        ValueError: a series goes back in time, or a moment is not a number.
    """
    for steps in series:
        moments = [-math.inf, *(seconds for seconds, _ in steps)]
        # Not "later < earlier": that is false for a moment that is no number.
        if not all(earlier <= later for earlier, later in pairwise(moments)):
            msg = "a series of samples goes back in time: expected moments of one clock, in order"
            raise ValueError(msg)
    events = sorted(
        ((seconds, index, size) for index, steps in enumerate(series) for seconds, size in steps),
        key=lambda event: event[0],
    )
    parts = [0] * len(series)
    highest: PeakOfSum | None = None
    for seconds, group in groupby(events, key=lambda event: event[0]):
        for _, index, size in group:
            parts[index] = size
        if highest is None or sum(parts) > highest.total_bytes:
            highest = PeakOfSum(total_bytes=sum(parts), seconds=seconds, parts_bytes=tuple(parts))
    return highest


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortRun:
    """
    One cohort as it ran.

    Attributes:
        spec: what was to run at once.
        members: the run of each kernel, in the order of the spec.
    """

    spec: CohortSpec
    members: tuple[Run, ...]

    @property
    def ended_badly(self) -> tuple[Run, ...]:
        """Return the runs that did not complete."""
        return tuple(run for run in self.members if run.outcome is not Outcome.COMPLETED)


def safe_concurrency(cohorts: Sequence[CohortRun]) -> int | None:
    """
    Return the highest number of kernels at which all completed, and at every lower number that was tried as well.

    ``None`` where not even the lowest number went well, or nothing was tried.
    """
    safe = None
    for cohort in sorted(cohorts, key=lambda item: (item.spec.kernel_count, not item.ended_badly)):
        if cohort.ended_badly:
            break
        safe = cohort.spec.kernel_count
    return safe
