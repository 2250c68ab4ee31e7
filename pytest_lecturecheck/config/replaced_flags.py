"""
Flags of the command line that a lecture's own metadata replaces.

A lecture's own value wins over the command line, as in nbmake and pytest-timeout. A finding tells
the person who gave the flag.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from pytest_lecturecheck.config.option_reading import LECTURE_OPTIONS
from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.model.axis import value_text
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, RunSettings
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_declared_duration, format_size

_TEXT_CHARS: Final = 80


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
            f"{option.name} {_text_of(attribute, value, own)} from {where}, "
            f"instead of {option.flag} {_text_of(attribute, given, session.command_line)}"
        )
        yield Finding(kind=FindingKind.SETTING, message=message)


def _text_of(attribute: str, value: Any, layer: RunSettings) -> str:
    """Return a value as it was written in a layer, or as it was read if that is not known."""
    text = layer.texts.get(attribute)
    return _format_value(attribute, value) if text is None else one_line(text, _TEXT_CHARS)


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
