"""The session's output for GitHub Actions: the job summary and annotations. Nothing is written elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.files import append_plain
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.report.entry import Entry

_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
_ACTIONS: Final = "GITHUB_ACTIONS"
_OTHER_SERVICES: Final = ("TF_BUILD", "TEAMCITY_VERSION")
"""Variables of Azure Pipelines and TeamCity, whose agents read commands out of what a step prints too."""
_WORKSPACE: Final = "GITHUB_WORKSPACE"


def guard_for(environ: Mapping[str, str]) -> Callable[[str], str]:
    """Return what makes printed text harmless to the runner that reads it; without a runner, text is unchanged."""
    if environ.get(_ACTIONS) != "true" and not any(map(environ.get, _OTHER_SERVICES)):
        return lambda text: text
    from pytest_lecturecheck.report.github_summary import guard  # noqa: PLC0415 - only on GitHub Actions

    return guard


def guard_longrepr(longrepr: Any, guarded: Callable[[str], str]) -> Any:
    """Return the representation of a failure, an error or a skip with harmless text."""
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
    Writes the job summary and renders annotations; does nothing where there is no GitHub Actions.

    Args:
        environ: the variables of the process.
        rootdir: pytest's rootdir.
        is_on: whether the settings ask for it.
    """

    def __init__(self, environ: Mapping[str, str], rootdir: Path, *, is_on: bool) -> None:
        """Read the variables; nothing is written yet."""
        self._summary = environ.get(_SUMMARY, "") if is_on else ""
        self._annotates = is_on and environ.get(_ACTIONS) == "true"
        self._folder = _folder_in(environ.get(_WORKSPACE, ""), rootdir)

    def annotations(self, entries: Sequence[Entry], superseded: Sequence[Entry] = ()) -> list[str]:
        """
        Return the lines that GitHub turns into annotations; each has to be printed as a line of its own.

        Args:
            entries: the session's entries; failures are errors.
            superseded: entries of runs that another plugin repeated; they are warnings.
        """
        if not self._annotates:
            return []
        from pytest_lecturecheck.report.github_summary import render_annotations, render_rerun_annotations  # noqa: PLC0415 - as above

        return [
            *render_annotations(entries, self._folder),
            *render_rerun_annotations(superseded, self._folder),
        ]

    def write_summary(self, entries: Sequence[Entry], *, platform: str, machine: Machine) -> str:
        """
        Add the session to the summary of the job.

        Returns:
            The reason why nothing was written, or an empty string.
        """
        if not self._summary or not entries:
            return ""
        from pytest_lecturecheck.report.github_summary import SUMMARY_BYTES, render_step_summary  # noqa: PLC0415 - as above

        path = Path(self._summary)
        try:
            before = path.stat().st_size if path.exists() else 0
            gap = "\n" if before else ""
            room_bytes = SUMMARY_BYTES - before - len(gap)
            text = render_step_summary(entries, platform=platform, machine=machine, room_bytes=room_bytes)
            if not text:
                return f"the job's summary ({_SUMMARY}) is full: this session is not in it"
            append_plain(path, f"{gap}{text}".encode())
        except OSError as exc:
            return f"the job's summary ({_SUMMARY}) cannot be written: {exc.strerror or exc}"
        return ""


def _folder_in(workspace: str, rootdir: Path) -> str:
    """Return rootdir relative to the repository, because annotations name files from there."""
    if not workspace:
        return ""
    root, top = (Path(os.path.realpath(path)) for path in (rootdir, workspace))
    return root.relative_to(top).as_posix() if root.is_relative_to(top) else ""
