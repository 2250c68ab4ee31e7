"""Save the entries of a session as they finish, and report what an earlier session left that was killed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_lecturecheck import __version__
from pytest_lecturecheck.config.options import SessionSettings
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.store.own_folder import NAME as OWN_FOLDER
from pytest_lecturecheck.store.own_folder import make_own_folder
from pytest_lecturecheck.store.runs import entry_to_dict
from pytest_lecturecheck.store.unfinished import FOLDER_NAME, UnfinishedFile, find_unfinished, forget_old


class EntrySaver:
    """
    Saves entries of this session, on the controller.

    Args:
        rootdir: pytest's rootdir.
        settings: the session's settings.
        platform: platform label.
    """

    def __init__(self, rootdir: Path, settings: SessionSettings, platform: str) -> None:
        """Write nothing yet."""
        self._is_on = settings.keep_runs > 0
        about = {"platform": platform, "mode": settings.mode.value, "version": __version__}
        self._file = UnfinishedFile(lambda: make_own_folder(rootdir) / FOLDER_NAME, about)
        self._early: dict[int, Entry] = {}

    def save(self, entries: Sequence[Entry]) -> None:
        """Save entries once, so that SIGKILL or a power failure leaves them."""
        new = [entry for entry in entries if self._early.pop(id(entry), None) is not entry]
        if self._is_on and new:
            self._file.add(
                entry_to_dict(entry.run, entry.verdict, seconds=entry.seconds, budget=entry.budget) for entry in new
            )

    def save_early(self, entries: Sequence[Entry]) -> None:
        """Save entries whose item has not been reported yet, and will be."""
        self.save(entries)
        self._early.update((id(entry), entry) for entry in entries)

    def end(self, *, is_whole: bool) -> None:
        """Remove what was saved if it is written or the session is kept, and leave it for recovery otherwise."""
        self._file.close(remove=is_whole)


def describe_unfinished(rootdir: Path) -> list[str]:
    """Return a line for each session that was killed and left finished lectures, with what to do."""
    folder = rootdir / OWN_FOLDER / FOLDER_NAME
    if not folder.is_dir():
        return []
    forget_old(folder)
    lines = []
    for session in find_unfinished(folder):
        if session.records:
            count = len(session.records)
            runs = "1 finished run" if count == 1 else f"{count} finished runs"
            lines.append(f"a session that was cut off left {runs}: lecturecheck recover keeps them")
    return list(dict.fromkeys(lines))
