"""What a session hands to GitHub Actions, where it runs there: the job's summary and annotations, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.report.entry import Entry

_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
_ACTIONS: Final = "GITHUB_ACTIONS"
_WORKSPACE: Final = "GITHUB_WORKSPACE"


def guard_for(environ: Mapping[str, str]) -> Callable[[str], str]:
    """Give what makes printed text harmless to the runner that reads it; without one, text stays as it is."""
    return _texts().guard if environ.get(_ACTIONS) == "true" else lambda text: text


def guard_longrepr(longrepr: Any, guarded: Callable[[str], str]) -> Any:
    """Make what pytest is going to print of a failure, an error or a skip harmless; gives what is to be printed."""
    if isinstance(longrepr, tuple):
        return tuple(guarded(part) if isinstance(part, str) else part for part in longrepr)
    for entry in getattr(getattr(longrepr, "reprtraceback", None), "reprentries", ()):
        entry.lines[:] = [guarded(line) for line in entry.lines]
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = guarded(crash.message)
    return longrepr


class GitHub:
    """
    The session's door to GitHub Actions; it does nothing elsewhere.

    Args:
        environ: the variables of the process.
        rootdir: pytest's rootdir.
        is_on: whether the settings want it.
    """

    def __init__(self, environ: Mapping[str, str], rootdir: Path, *, is_on: bool) -> None:
        """Read the variables; nothing is written yet."""
        self._summary = environ.get(_SUMMARY, "") if is_on else ""
        self._annotates = is_on and environ.get(_ACTIONS) == "true"
        self._folder = _folder_in(environ.get(_WORKSPACE, ""), rootdir)

    def annotations(self, entries: Sequence[Entry]) -> list[str]:
        """Give the lines that make annotations; each is to be printed as a line of its own."""
        return _texts().render_annotations(entries, self._folder) if self._annotates else []

    def write_summary(self, entries: Sequence[Entry], *, platform: str, machine: Machine) -> str:
        """
        Add the session to the summary of the job.

        Returns:
            What went wrong, or an empty string.
        """
        if not self._summary or not entries:
            return ""
        path = Path(self._summary)
        try:
            before = path.stat().st_size if path.exists() else 0
            gap = "\n" if before else ""
            room_bytes = _texts().SUMMARY_BYTES - before - len(gap)
            text = _texts().render_step_summary(entries, platform=platform, machine=machine, room_bytes=room_bytes)
            if not text:
                return f"the job's summary ({_SUMMARY}) is full: this session is not in it"
            with path.open("a", encoding="utf-8", newline="\n") as stream:
                stream.write(f"{gap}{text}")
        except OSError as exc:
            return f"the job's summary ({_SUMMARY}) cannot be written: {exc.strerror or exc}"
        return ""


def _texts() -> ModuleType:
    """Load what is written for GitHub Actions, which few sessions want."""
    from pytest_lecturecheck.report import github_summary as github  # noqa: PLC0415 - see above

    return github


def _folder_in(workspace: str, rootdir: Path) -> str:
    """Give rootdir's place in the repository, which is where annotations count from."""
    if not workspace:
        return ""
    root, top = (Path(os.path.realpath(path)) for path in (rootdir, workspace))
    return root.relative_to(top).as_posix() if root.is_relative_to(top) else ""
