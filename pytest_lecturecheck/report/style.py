"""Map meanings to colours; the only module that knows terminal codes."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.verdict import VerdictKind


class Tone(StrEnum):
    """What a piece of text means to its reader."""

    PLAIN = "plain"
    HEADLINE = "headline"
    TITLE = "title"
    GOOD = "good"
    BAD = "bad"
    WARN = "warn"
    MARK = "mark"
    LOCATION = "location"
    DIM = "dim"


_CODES: Final = {
    Tone.HEADLINE: "1;31",
    Tone.TITLE: "1",
    Tone.GOOD: "32",
    Tone.BAD: "31",
    Tone.WARN: "33",
    Tone.MARK: "1;31",
    Tone.LOCATION: "36",
    Tone.DIM: "2",
}

_VERDICT_TONES: Final = {
    VerdictKind.WITHIN: Tone.GOOD,
    VerdictKind.FITS: Tone.GOOD,
    VerdictKind.RECORDED: Tone.GOOD,
    VerdictKind.IMPROVED: Tone.WARN,
    VerdictKind.NO_BUDGET: Tone.WARN,
    VerdictKind.NOT_MEASURED: Tone.WARN,
    VerdictKind.PROFILED: Tone.WARN,
    VerdictKind.PARTIAL: Tone.WARN,
    VerdictKind.NOTHING_TO_RUN: Tone.DIM,
    VerdictKind.SKIPPED: Tone.DIM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    """
    Colour text, or leave it plain.

    Attributes:
        colour: whether codes are written; the caller knows the terminal, ``NO_COLOR`` and ``--color``.
    """

    colour: bool = False

    def __call__(self, tone: Tone, text: str) -> str:
        """Return ``text`` in the colour of ``tone``."""
        code = _CODES.get(tone) if self.colour and text else None
        return f"\x1b[{code}m{text}\x1b[0m" if code else text


def verdict_tone(kind: VerdictKind, *, failed: bool) -> Tone:
    """Return the tone of a verdict; a failing one is bad whatever its kind."""
    return Tone.BAD if failed else _VERDICT_TONES.get(kind, Tone.WARN)
