"""The result of every format's reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.finding import Finding
from pytest_lecturecheck.model.lecture import LectureFormat
from pytest_lecturecheck.model.settings import RunSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """
    The location of a code cell in its file, and what the format itself sets for it.

    Attributes:
        line: 1-based line where its source starts, or ``None``.
        opening_line: 1-based line where the cell begins, or ``None``.
        source_path: the file that the source was loaded from, or ``None``.
        skip_reason: why the format does not run the cell, or an empty string.
        expects_error: whether the format allows the cell to raise.
    """

    line: int | None = None
    opening_line: int | None = None
    source_path: str | None = None
    skip_reason: str = ""
    expects_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """
    A notebook as its format's reader parsed it.

    Attributes:
        format: the format.
        document: nbformat 4 ``NotebookNode`` without outputs.
        locations: one for each code cell of the document, in order.
        metadata: the notebook's metadata as plain types; jupytext's ``jupyter`` keys are at the top level.
        key_lines: 1-based line of each metadata key, by dotted name, where known.
        findings: remarks for the user.
        settings: what the format itself sets for the run; the lecture's own settings override it.
    """

    format: LectureFormat
    document: Any
    locations: tuple[SourceLocation, ...]
    metadata: Mapping[str, Any]
    key_lines: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    settings: RunSettings = field(default_factory=RunSettings)


def lift_jupyter(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Move the keys that jupytext keeps under ``jupyter`` to the top level, where notebooks have them."""
    inner = metadata.get("jupyter")
    if not isinstance(inner, dict):
        return dict(metadata)
    return {**{key: value for key, value in metadata.items() if key != "jupyter"}, **inner}


def lift_lines(lines: Mapping[str, int]) -> dict[str, int]:
    """Rename the keys of a table of lines as :func:`lift_jupyter` does."""
    return {key.removeprefix("jupyter."): line for key, line in lines.items()}
