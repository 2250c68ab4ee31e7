"""Fail once: recall failures of earlier sessions, and remember those of this one."""

from __future__ import annotations

import datetime as dt
import errno
import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.diagnosis import CauseKind
from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.store.failures import (
    FILE_NAME,
    Failures,
    NewerFailuresError,
    RememberedFailure,
    Subject,
    change_failures,
    read_failures,
    set_aside,
    subject_of,
)
from pytest_lecturecheck.store.own_folder import NAME, make_own_folder
from pytest_lecturecheck.store.runs import StoredRun
from pytest_lecturecheck.verdict import Verdict, VerdictKind

_REMEMBERED: Final = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.DIED})
"""Outcomes that the lecture itself causes. An exceeded limit is not among them: only a new run can measure it."""
_SAYS_NOTHING: Final = frozenset(
    {Outcome.STOPPED, Outcome.REFUSED, Outcome.SKIPPED, Outcome.NOTHING_TO_RUN, Outcome.UNREADABLE}
)
_TRANSIENT_ERRORS: Final = frozenset(
    {
        "FileNotFoundError",
        "ImportError",
        "ModuleNotFoundError",
        "NotADirectoryError",
        "PermissionError",
    }
)
"""
Errors about something outside the lecture, beside the network: a file or module that somebody adds.

They occur early, so little time is saved by remembering them, and a repeated failure would be wrong once the cause is
gone.
"""
_ERRNO: Final = re.compile(r"\[Errno (?P<number>\d{1,4})\] ")
_TRANSIENT_ERRNOS: Final = frozenset(
    {
        errno.EADDRINUSE,
        errno.EAGAIN,
        errno.EBUSY,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
    }
)
"""The same for the machine: a port, a disk or memory that others use at that moment."""
_FROM_OUTSIDE: Final = frozenset(
    {
        CauseKind.KILLED,
        CauseKind.ENDED_BY_SCHEDULER,
        CauseKind.TIMED_OUT_STARVED,
        CauseKind.PREALLOCATION_RACE,
        CauseKind.LEFTOVER_HOLDER,
        CauseKind.OTHER_TENANT,
        CauseKind.DEVICE_NOT_USABLE,
        CauseKind.DRIVER_ERROR,
    }
)
"""Causes that lie with other processes or with the machine: the lecture may well pass the next time."""
RERUN_ADVICE: Final = (
    "Not run again: its code, its settings, its kernel's packages, and the files beside it are as they were. "
    "A change runs it again, and so does --lecture-rerun-failed."
)


def is_ci(environ: Mapping[str, str]) -> bool:
    """Return True in a CI job, by the variable that all CI services set."""
    return environ.get("CI", "").strip().lower() not in {"", "0", "false"}


@dataclass(slots=True, kw_only=True)
class FailureMemory:
    """
    The failures that one process of a session knows.

    Attributes:
        rootdir: pytest's rootdir.
        is_on: whether failures are remembered at all.
        recalls: whether a remembered failure replaces a run.
        writes: whether this process writes (the controller does).
        warnings: problems with the file, for the terminal.
    """

    rootdir: Path
    is_on: bool
    recalls: bool
    writes: bool
    warnings: list[str] = field(default_factory=list)
    _known: Failures = field(default_factory=dict)
    _recalled: Failures = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return self.rootdir / NAME / FILE_NAME

    def load(self) -> None:
        """
        Read what is remembered; a damaged file is renamed, with a warning.

        Raises:
            NewerFailuresError: the file was written by a newer version.
        """
        if not self.is_on:
            return
        try:
            self._known = self._recalled = read_failures(self.path)
        except NewerFailuresError:
            raise
        except RunFileError as exc:
            if self.writes:
                self._set_aside(exc)

    def _set_aside(self, fault: RunFileError) -> None:
        try:
            target = set_aside(self.path)
        except OSError as exc:
            self.warnings.append(f"remembered failures are not used: {fault}; it cannot be moved either: {exc}")
        else:
            self.warnings.append(
                f"remembered failures are not used: {fault}. The file is now {NAME}/{target.name}; "
                "every lecture is run again"
            )

    def recall(self, subject: Subject, key: str) -> Entry | None:
        """Return the entry of a lecture that failed before and has not changed, or ``None`` if it has to run."""
        # Only failures of earlier sessions: a lecture that another plugin runs again in this one has to run.
        found = self._recalled.get(subject) if self.recalls else None
        if found is None or found.key != key or found.stored.verdict is None:
            return None
        return Entry(
            run=found.stored.run, verdict=repeat_verdict(found.stored.verdict, found.stored.run.launch.started)
        )

    def has_failed(self, subject: Subject) -> bool:
        """Return True if the last run of a lecture is remembered as a failure, whatever has changed since."""
        return subject in self._recalled

    def note(self, entries: Sequence[Entry], key: str) -> None:
        """
        Remember or clear the result of a lecture's runs, on disk at once: the session may be killed at any moment.

        Args:
            entries: the entries of one item.
            key: the key of the state in which they ran.
        """
        if not self.is_on or not self.writes or not entries:
            return
        if any(item.verdict.kind is VerdictKind.FAILED_BEFORE or item.run.outcome in _SAYS_NOTHING for item in entries):
            return
        add = [
            RememberedFailure(key=key, stored=StoredRun(run=item.run, verdict=item.verdict))
            for item in entries
            if key and is_worth_remembering(item)
        ][:1]
        clear = {subject_of(item.run) for item in entries}
        if not add and clear.isdisjoint(self._known):
            return
        try:
            make_own_folder(self.rootdir)
            change_failures(self.path, rootdir=self.rootdir, add=add, clear=clear)
        except (OSError, NewerFailuresError) as exc:
            text = f"failures are not remembered: {exc}"
            if text not in self.warnings:
                self.warnings.append(text)
        else:
            kept = {subject: item for subject, item in self._known.items() if subject not in clear}
            self._known = {**kept, **{item.subject: item for item in add}}


def is_worth_remembering(entry: Entry) -> bool:
    """Return True if the lecture itself caused the failure, so that another run would only repeat it."""
    if not entry.verdict.failed or entry.run.outcome not in _REMEMBERED:
        return False
    cause, evidence = entry.verdict.cause, entry.run.evidence
    if cause is not None and cause.kind in _FROM_OUTSIDE:
        return False
    error = evidence.error if evidence is not None else None
    if error is None:
        return True
    from pytest_lecturecheck.diagnosis.network import find_network_failure  # noqa: PLC0415 - only for bad ends

    if find_network_failure(error) is not None:
        # A server may answer tomorrow.
        return False
    number = _ERRNO.match(error.value)
    return error.name not in _TRANSIENT_ERRORS and (number is None or int(number["number"]) not in _TRANSIENT_ERRNOS)


def repeat_verdict(first: Verdict, started: str) -> Verdict:
    """Return the verdict of a failure that is repeated: it still fails, with the first text, evidence and advice."""
    return replace(
        first,
        kind=VerdictKind.FAILED_BEFORE,
        failed=True,
        headline=f"failed before, unchanged since {_minute(started)}: {first.headline}",
        notes=(*first.notes, RERUN_ADVICE),
    )


def _minute(started: str) -> str:
    try:
        moment = dt.datetime.fromisoformat(started).astimezone(dt.UTC)
    except ValueError:
        return "an unknown time"
    return moment.strftime("%Y-%m-%d %H:%M UTC")
