"""What every reader of a format hands back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_lecturecheck.model.finding import Finding
from pytest_lecturecheck.model.lecture import LectureFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """
    Where a code cell stands.

    Attributes:
        line: 1-based line where its source starts, or ``None``.
        opening_line: 1-based line where the cell begins, or ``None``.
        source_path: the file its source was loaded from, or ``None``.
        skip_reason: why the format says that the cell is not run, or an empty string.
        expects_error: the format says that the cell may raise.
    """

    line: int | None = None
    opening_line: int | None = None
    source_path: str | None = None
    skip_reason: str = ""
    expects_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """
    A notebook as its format's reader saw it.

    Attributes:
        format: the format.
        document: nbformat 4 ``NotebookNode``, outputs taken out.
        places: one place for each code cell of the document, in order.
        metadata: the notebook's metadata as plain types; keys that jupytext keeps under ``jupyter`` stand at the top.
        key_lines: 1-based line of each metadata key, by dotted name, where known.
        findings: what was noticed.
    """

    format: LectureFormat
    document: Any
    places: tuple[SourceLocation, ...]
    metadata: Mapping[str, Any]
    key_lines: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def lift_jupyter(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Bring what jupytext keeps under a top-level ``jupyter`` key to the top, where notebooks have it."""
    inner = metadata.get("jupyter")
    if not isinstance(inner, dict):
        return dict(metadata)
    return {**{key: value for key, value in metadata.items() if key != "jupyter"}, **inner}


def lift_lines(lines: Mapping[str, int]) -> dict[str, int]:
    """Do for the lines of keys what :func:`lift_jupyter` does for the keys."""
    return {key.removeprefix("jupyter."): line for key, line in lines.items()}
