"""What a session has to say beside its results."""

from __future__ import annotations

from collections.abc import Iterable


class Notices:
    """Collects lines for the header and the summary; each line is shown once."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._lines: list[str] = []
        self._shown: set[str] = set()

    def add(self, *lines: str) -> None:
        """Add lines; empty ones are dropped."""
        self._lines += [line for line in lines if line]

    def take_new(self, more: Iterable[str] = ()) -> list[str]:
        """Return the lines that were not shown before, those of ``more`` last."""
        lines = [line for line in dict.fromkeys((*self._lines, *more)) if line not in self._shown]
        self._shown.update(lines)
        return lines
