"""What lectures needed in the kept sessions of a platform, for those that have no budget."""

from __future__ import annotations

from pathlib import Path

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER
from pytest_lecturecheck.store.session_history import FOLDER_NAME, read_sessions
from pytest_lecturecheck.verdict.kept_session import KeptRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """
    The most that complete runs of a lecture needed.

    Attributes:
        peak_bytes: highest peak footprint, its upper bound where that is known, or ``None``.
        seconds: longest time, kernel start included, or ``None``.
    """

    peak_bytes: float | None = None
    seconds: float | None = None


def read_needs(root: Path, platform: str) -> dict[str, Need]:
    """Return the need of each lecture that ran to its end, by name; sessions that cannot be read are left out."""
    sessions, _ = read_sessions(root / OWN_FOLDER / FOLDER_NAME)
    runs: dict[str, list[KeptRun]] = {}
    for session in sessions:
        for kept in session.runs:
            if session.platform == platform and kept.speaks and not kept.run.variant:
                runs.setdefault(kept.run.lecture, []).append(kept)
    return {name: _need(found) for name, found in runs.items()}


def _need(runs: list[KeptRun]) -> Need:
    peaks = [found.upper_bound or found.value for kept in runs if (found := kept.run.measured(Metric.PEAK_FOOTPRINT))]
    times = [kept.seconds for kept in runs if kept.seconds]
    return Need(peak_bytes=max(peaks, default=None), seconds=max(times, default=None))
