"""The errors that users see; each message says where, what was found, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class LectureCheckError(Exception):
    """Root of every error this package raises on purpose."""


class UnitError(LectureCheckError, ValueError):
    """A size or a duration that is not understood, or that would be ambiguous."""


class SettingsError(LectureCheckError):
    """A setting (option, settings file, front matter, book configuration) that cannot be used."""


class LectureReadError(LectureCheckError):
    """
    A lecture's file that cannot be read as a notebook.

    Args:
        path: the file as the user knows it.
        line: 1-based line of the fault, or ``None`` when the fault has no place.
        reason: what was found and what was expected, without the path.
    """

    def __init__(self, path: str, line: int | None, reason: str) -> None:
        """Keep the parts, so that reporters can point an editor at the line."""
        self.path = path
        self.line = line
        self.reason = reason
        where = path if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {reason}")


class BudgetFileError(LectureCheckError):
    """A budget file that cannot be used; the message lists every fault with file, line and key."""


class RunFileError(LectureCheckError):
    """A stored run that cannot be read back."""


class KernelStartError(LectureCheckError):
    """A kernel that could not be started or never became ready."""


class TraceFileError(LectureCheckError):
    """A trace of a profiler that cannot be read."""


class LeaseError(LectureCheckError):
    """The machine's ledger of running lectures cannot be used."""


def expected_instead(key: object, known: Iterable[str]) -> str:
    """Return which key was probably meant instead of an unknown one, and which keys exist."""
    import difflib  # noqa: PLC0415 - only where something is wrong

    names = list(known)
    near = difflib.get_close_matches(str(key).lower().replace("_", "-"), names, n=1)
    return f"{f'did you mean {near[0]}? ' if near else ''}expected one of {', '.join(names)}"
