"""Types of machines with their price, and what readers of a lecture have. Values and their parsing only."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError, UnitError, expected_instead
from pytest_lecturecheck.units import parse_size

GB: Final = 10**9
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """
    One type of machine that can be rented.

    Attributes:
        name: its name ("g4dn.2xlarge").
        price: price of an hour, in any currency; ``None`` where it is not stated.
        core_count: cores.
        memory_bytes: memory.
        gpu_count: number of GPUs.
        gpu_bytes: memory of each GPU.
        platform: label of the platform that was measured on such a machine; its own name by default.
    """

    name: str
    price: float | None = None
    core_count: int = 1
    memory_bytes: int = 0
    gpu_count: int = 0
    gpu_bytes: int = 0
    platform: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderTarget:
    """
    What a reader has who runs a lecture.

    Attributes:
        name: its name ("binder").
        memory_bytes: memory.
        has_gpu: whether there is a GPU.
    """

    name: str
    memory_bytes: int
    has_gpu: bool = False


BUILT_IN_TARGETS: Final = (
    ReaderTarget(name="binder", memory_bytes=2 * GB),
    ReaderTarget(name="colab-free", memory_bytes=127 * GB // 10, has_gpu=True),
    ReaderTarget(name="codespaces", memory_bytes=8 * GB),
    ReaderTarget(name="laptop-16", memory_bytes=16 * GB),
)
"""
Targets that need no settings: Binder, the free Colab with its T4, the smallest Codespace, and a laptop.

Binder: at most 2 GB, 1 GB guaranteed (https://mybinder.readthedocs.io/en/latest/about/user-guidelines.html).
Codespaces: the smallest machine has 2 cores and 8 GB, as users report it
(https://github.com/redcanaryco/atomic-red-team/wiki/Github-Codespaces). GitHub's page of machine types states cores
only; https://docs.github.com/rest/codespaces/machines lists the machines of an account. Google publishes no size for
Colab; 12.7 GB is what users report.
"""


def parse_machines(tables: object) -> tuple[MachineType, ...]:
    """
    Read the tables ``[machines.NAME]``: price, cores, memory, gpus, gpu-memory, platform.

    Raises:
        SettingsError: a name, key or value that cannot be used.
    """
    readers = {
        "price": _price,
        "cores": _count,
        "memory": _size,
        "gpus": _count,
        "gpu-memory": _size,
        "platform": _text,
    }
    fields = {"cores": "core_count", "memory": "memory_bytes", "gpus": "gpu_count", "gpu-memory": "gpu_bytes"}
    found = []
    for name, values in _tables(tables, "machines", readers):
        stated = {fields.get(key, key): value for key, value in values.items()}
        stated.setdefault("platform", name)
        found.append(MachineType(name=name, **stated))
    return tuple(found)


def parse_targets(tables: object) -> tuple[ReaderTarget, ...]:
    """
    Read the tables ``[targets.NAME]``: memory, and whether there is a GPU. Built-in targets are included.

    Raises:
        SettingsError: a name, key or value that cannot be used.
    """
    found = {target.name: target for target in BUILT_IN_TARGETS}
    for name, values in _tables(tables, "targets", {"memory": _size, "gpu": _flag}):
        if "memory" not in values:
            msg = f"[targets.{name}]: memory is missing; expected for example memory = '8 GB'"
            raise SettingsError(msg)
        found[name] = ReaderTarget(name=name, memory_bytes=values["memory"], has_gpu=values.get("gpu", False))
    return tuple(found.values())


def _tables(
    tables: object, what: str, readers: Mapping[str, Callable[[object], Any]]
) -> list[tuple[str, dict[str, Any]]]:
    if not isinstance(tables, Mapping):
        msg = f"{what} = {tables!r} is not a table; expected [{what}.NAME] with {', '.join(readers)}"
        raise SettingsError(msg)
    found = []
    for name, table in tables.items():
        where = f"[{what}.{name}]"
        if _NAME.fullmatch(str(name)) is None or not isinstance(table, Mapping):
            msg = f"{where}: {table!r} cannot be used; expected a table under a name of letters, digits and . _ + -"
            raise SettingsError(msg)
        values = {}
        for key, value in table.items():
            if key not in readers:
                msg = f"{where}: unknown key {key!r}; {expected_instead(key, readers)}"
                raise SettingsError(msg)
            try:
                values[key] = readers[key](value)
            except (SettingsError, UnitError) as exc:
                msg = f"{where} {key}: {exc}"
                raise SettingsError(msg) from exc
        found.append((str(name), values))
    return found


def _price(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        msg = f"{value!r} is not a price of an hour; expected a number of at least 0"
        raise SettingsError(msg)
    return float(value)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        msg = f"{value!r} is not a whole number of at least 0"
        raise SettingsError(msg)
    return value


def _size(value: object) -> int:
    size = parse_size(value)
    if size <= 0:
        msg = f"size {value!r} is not more than zero"
        raise SettingsError(msg)
    return size


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        msg = f"{value!r} is not text"
        raise SettingsError(msg)
    return value.strip()


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        msg = f"{value!r} is neither true nor false"
        raise SettingsError(msg)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """
    What somebody expects of a value before it is measured.

    Attributes:
        name: its name.
        of: key of the value ("float64-penalty kalman.md size=1000").
        low: the least that is expected.
        high: the most that is expected.
    """

    name: str
    of: str
    low: float
    high: float


def parse_priors(tables: object) -> tuple[Prior, ...]:
    """
    Read the tables ``[priors.NAME]``: ``of``, and ``between`` with two numbers.

    Raises:
        SettingsError: a name, key or value that cannot be used.
    """
    found = []
    for name, values in _tables(tables, "priors", {"of": _text, "between": _interval}):
        if set(values) != {"of", "between"}:
            msg = f"[priors.{name}]: expected of = 'the name of a value' and between = [1.8, 2.2]"
            raise SettingsError(msg)
        found.append(Prior(name=name, of=values["of"], low=values["between"][0], high=values["between"][1]))
    return tuple(found)


def _interval(value: object) -> tuple[float, float]:
    is_pair = isinstance(value, list) and len(value) == 2  # noqa: PLR2004 - two ends
    if not is_pair or not all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):  # type: ignore[attr-defined]
        msg = f"{value!r} is not an interval; expected two numbers, such as [1.8, 2.2]"
        raise SettingsError(msg)
    low, high = map(float, value)  # type: ignore[call-overload]
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        msg = f"{value!r} is not an interval; expected the lower number first"
        raise SettingsError(msg)
    return low, high
