"""How the value of each option is read, from the command line as text and from the settings file as TOML has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.config.environment import parse_environment, parse_profiles
from pytest_lecturecheck.config.slurm_settings import parse_slurm
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.cohort import parse_cohorts, parse_concurrency
from pytest_lecturecheck.model.platform import parse_platform_label
from pytest_lecturecheck.model.profile import TraceRequest
from pytest_lecturecheck.model.settings import CAP_WORDS, timeout_from_number
from pytest_lecturecheck.units import parse_duration, parse_size

REPORT_SUFFIXES: Final = (".html", ".json", ".md")


def _read_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        msg = f"{value!r} is not text"
        raise SettingsError(msg)
    return value.strip()


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        msg = f"{value!r} is neither true nor false"
        raise SettingsError(msg)
    return value


def _read_count(value: object) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdigit() or int(text) < 1:
        msg = f"{value!r} is not a whole number of at least 1"
        raise SettingsError(msg)
    return int(text)


def _read_keep(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        msg = f"{value!r} is not a whole number of at least 0"
        raise SettingsError(msg)
    return value


def read_heartbeat(value: object) -> float:
    """Read how often a running lecture is told of: a duration, or ``"off"`` (0)."""
    if isinstance(value, str) and value.strip().lower() == "off":
        return 0.0
    return _read_positive_duration(value)


def read_seconds(value: object) -> float:
    """Read a timeout: a number of seconds (0 or less: no limit) or a duration such as ``"10 min"``."""
    if isinstance(value, bool):
        msg = f"{value!r} is not a duration"
        raise SettingsError(msg)
    if isinstance(value, int | float):
        number = float(value)
    else:
        text = _read_text(value)
        try:
            number = float(text) if text.isascii() else float("nan")
        except ValueError:
            return parse_duration(text)
    if number != number or number in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN is what differs from itself
        msg = f"{value!r} is not a number of seconds"
        raise SettingsError(msg)
    return timeout_from_number(number)


def _read_positive_size(value: object) -> int:
    size = parse_size(value)
    if size <= 0:
        msg = f"size {value!r} is not more than zero"
        raise SettingsError(msg)
    return size


def read_cap(value: object) -> float:
    """Read a memory cap: a size, ``"auto"``, or ``"off"``."""
    if isinstance(value, str) and value.strip().lower() in CAP_WORDS:
        return CAP_WORDS[value.strip().lower()]
    return _read_positive_size(value)


def _read_positive_duration(value: object) -> float:
    seconds = parse_duration(value)
    if seconds <= 0:
        msg = f"duration {value!r} is not more than zero"
        raise SettingsError(msg)
    return seconds


def _read_report(value: object) -> str:
    text = _read_text(value)
    if Path(text).suffix.lower() not in REPORT_SUFFIXES:
        msg = f"report {text!r} has no known form; expected a name ending in {' or '.join(REPORT_SUFFIXES)}"
        raise SettingsError(msg)
    return text


def read_trace_request(value: object) -> TraceRequest:
    """Read which cells are to be traced: ``"over"``, or numbers of code cells (``"3,7"``, in a file ``[3, 7]`` too)."""
    if isinstance(value, str) and value.strip().lower() == "over":
        return TraceRequest()
    parts = value if isinstance(value, list) else str(value).split(",")
    texts = [str(part).strip() for part in parts]
    if isinstance(value, bool) or not texts or any(re.fullmatch("[0-9]{1,6}", text) is None for text in texts):
        msg = f"cells {value!r} are not understood; expected 'over', or numbers of code cells such as '3' or '3,7'"
        raise SettingsError(msg)
    numbers = frozenset(map(int, texts))
    if 0 in numbers:
        msg = f"cells {value!r}: there is no code cell 0; the first one is 1"
        raise SettingsError(msg)
    return TraceRequest(cells=numbers)


def _read_suffix(value: object) -> str:
    text = _read_text(value).lower()
    if not text.startswith(".") or text in {".", ".ipynb", ".md"}:
        msg = f"suffix {value!r} cannot be added; expected for example '.qmd', '.Rmd' or '.py'"
        raise SettingsError(msg)
    return text


def _read_fraction(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        msg = f"{value!r} is not a number of at least 0"
        raise SettingsError(msg)
    return float(value)


READERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "budget": _read_flag,
    "record": _read_flag,
    "runs": _read_count,
    "strict": _read_flag,
    "platform": lambda value: parse_platform_label(_read_text(value)),
    "timeout": read_seconds,
    "total-timeout": read_seconds,
    "startup-timeout": read_seconds,
    "kernel": _read_text,
    "memory-cap": read_cap,
    "declared-memory": _read_positive_size,
    "declared-time": _read_positive_duration,
    "budget-dir": _read_text,
    "report": _read_report,
    "suffix": _read_suffix,
    "exclude": _read_text,
    "remember-failures": _read_flag,
    "rerun-failed": _read_flag,
    "no-leases": _read_flag,
    "capacity": _read_positive_size,
    "concurrency": parse_concurrency,
    "cohort": parse_cohorts,
    "launcher": _read_text,
    "slurm": parse_slurm,
    "env": parse_environment,
    "profile": read_trace_request,
    "env-profile": _read_text,
    "env-profiles": parse_profiles,
    "memory-fraction": _read_fraction,
    "memory-slack": _read_positive_size,
    "time-factor": _read_fraction,
    "time-slack": _read_positive_duration,
    "keep-runs": _read_keep,
    "github": _read_flag,
    "heartbeat": read_heartbeat,
}
