"""
Flags of the command line that a lecture's own metadata replaces.

A lecture's own value wins over the command line, as in nbmake and pytest-timeout. A finding tells
the person who gave the flag.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pytest_lecturecheck.config.option_reading import LECTURE_OPTIONS
from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.model.axis import value_text
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, RunSettings
from pytest_lecturecheck.units import format_declared_duration, format_size


def replaced_flags(lecture: str, own: RunSettings, session: SessionSettings) -> Iterator[Finding]:
    """
    Yield a finding for each flag whose value the lecture's own value replaced.

    Args:
        lecture: the lecture's name.
        own: the layer of the lecture's own metadata.
        session: the session's settings.
    """
    for option in LECTURE_OPTIONS.values():
        attribute = option.field.removeprefix("run.")
        value, given = getattr(own, attribute), getattr(session.command_line, attribute)
        is_overridden = getattr(session.override, attribute) is not None
        if value is None or given is None or value == given or is_overridden:
            continue
        line = own.lines.get(attribute)
        where = lecture if line is None else f"{lecture}, line {line}"
        message = (
            f"{option.name} {_format_value(attribute, value)} from {where}, "
            f"instead of {option.flag} {_format_value(attribute, given)}"
        )
        yield Finding(kind=FindingKind.SETTING, message=message)


def _format_value(attribute: str, value: Any) -> str:
    if attribute == "axes":
        return " ".join(f"{axis.name}={','.join(map(value_text, axis.values))}" for axis in value)
    if attribute.endswith("_seconds"):
        return format_declared_duration(value) if math.isfinite(value) else "none"
    if attribute.endswith("_bytes"):
        if value == AUTOMATIC_CAP:
            return "auto"
        return format_size(value) if math.isfinite(value) else "off"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
