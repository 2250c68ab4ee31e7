"""Render the session as one JSON document: the stored runs, with totals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.verdict import PackageComparison, compare_package

SCHEMA: Final = 1


def render_json(
    records: Sequence[Mapping[str, Any]],
    entries: Sequence[Entry],
    *,
    platform: str = "",
    about: Mapping[str, str] | None = None,
    is_compact: bool = False,
) -> str:
    """
    Render the document as ASCII, which every reader accepts.

    Args:
        records: the stored runs, in the order of the session.
        entries: the session's entries, for the totals.
        platform: platform label.
        about: further keys of the session, such as its end and its mode.
        is_compact: write no spaces between values.

    Raises:
        ValueError: a record holds NaN or an infinite number, which JSON does not allow.
    """
    document = {
        "schema": SCHEMA,
        "platform": platform,
        **(about or {}),
        "totals": totals(entries),
        "runs": list(records),
    }
    layout: dict[str, Any] = {"separators": (",", ":")} if is_compact else {"indent": 2}
    return json.dumps(document, allow_nan=False, **layout) + "\n"


def totals(entries: Sequence[Entry]) -> dict[str, Any]:
    """Count what the session ran; values that were not measured are ``None``."""
    peaks = [
        (found.value, entry) for entry in entries if (found := entry.run.measured(Metric.PEAK_FOOTPRINT)) is not None
    ]
    highest = max(peaks, key=lambda pair: pair[0]) if peaks else None
    package = compare_package([(entry.run, entry.verdict) for entry in entries])
    return {
        "lectures": len({entry.run.lecture for entry in entries}),
        "runs": len(entries),
        "run_again": sum(len(entry.verdict.earlier_ends) for entry in entries),
        "failed": sum(entry.verdict.failed for entry in entries),
        "verdicts": dict(sorted(Counter(entry.verdict.kind.value for entry in entries).items())),
        "cells_run": sum(entry.run.cell_run_count for entry in entries),
        "seconds": sum(entry.seconds for entry in entries),
        "highest_peak_footprint_bytes": None if highest is None else highest[0],
        "highest_peak_footprint_lecture": None if highest is None else highest[1].run.lecture,
        **({"package": [_package_item(item) for item in package]} if package else {}),
    }


def _package_item(item: PackageComparison) -> dict[str, Any]:
    return {"metric": item.metric.value, "verdict": item.kind.value, "value": item.value, "limit": item.limit}
