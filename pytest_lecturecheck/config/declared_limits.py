"""Limits that follow from what a README declares."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from pytest_lecturecheck.model.settings import RunSettings

_DEFAULT: Final = "default"


def with_declared_limits(settings: RunSettings) -> RunSettings:
    """
    Return resolved settings with the limits that follow from declared values.

    A declared time raises a cell's time limit that nobody has set: a package that declares twelve hours is not stopped
    after ten minutes. With ``enforce_declared`` the lecture runs under the declared memory and time, unless a cap or a
    total limit is set.

    Args:
        settings: the settings of one lecture, defaults included.
    """
    changes: dict[str, Any] = {}
    declared = settings.declared_time_seconds
    if declared is not None and _is_default(settings, "timeout_seconds"):
        limit = settings.timeout_seconds
        if limit is not None and math.isfinite(limit) and declared > limit:
            changes["timeout_seconds"] = declared
    if settings.enforce_declared:
        if declared is not None and _is_default(settings, "total_timeout_seconds"):
            changes["total_timeout_seconds"] = declared
        if settings.declared_memory_bytes is not None and _is_default(settings, "memory_cap_bytes"):
            changes["memory_cap_bytes"] = float(settings.declared_memory_bytes)
    origins = dict.fromkeys(changes, "the declared value")
    return replace(settings, **changes, origins={**settings.origins, **origins}) if changes else settings


def _is_default(settings: RunSettings, name: str) -> bool:
    return settings.origin(name) == _DEFAULT
