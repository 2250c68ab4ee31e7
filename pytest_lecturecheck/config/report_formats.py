"""The formats of reports: the ending of a file's name selects one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath
from typing import Final

from pytest_lecturecheck.errors import SettingsError


class ReportFormat(StrEnum):
    """One format; the value is the ending of its files, in the spelling that its readers use."""

    BENCHER = ".bmf.json"
    """Bencher Metric Format."""
    PYTEST_BENCHMARK = ".benchmark.json"
    SMALLER_IS_BETTER = ".customSmallerIsBetter.json"
    """A tool of github-action-benchmark."""
    SHIELDS = ".shields.json"
    """The endpoint of a badge of shields.io."""
    OPEN_METRICS = ".metrics.txt"
    CSV = ".csv"
    HTML = ".html"
    MARKDOWN = ".md"
    JSON = ".json"


_DEFAULT_OF_GITLAB: Final = "metrics.txt"
_BY_LENGTH: Final = sorted(ReportFormat, key=len, reverse=True)


def find_format(path: str) -> ReportFormat | None:
    """Return the format of a report by the ending of its name in any case, the longest ending first, or ``None``."""
    name = PurePath(path).name
    # GitLab's default name has nothing before the ending.
    folded = f".{name}".lower() if name.lower() == _DEFAULT_OF_GITLAB else name.lower()
    return next((item for item in _BY_LENGTH if folded.endswith(item.lower())), None)


def check_report_name(path: str) -> ReportFormat:
    """
    Return the format of a report.

    Raises:
        SettingsError: the ending names no known format.
    """
    found = find_format(path)
    if found is None:
        endings = [str(item) for item in reversed(ReportFormat)]
        msg = (
            f"report {path!r} has no known format; expected a name ending in {', '.join(endings[:-1])} or {endings[-1]}"
        )
        raise SettingsError(msg)
    return found
