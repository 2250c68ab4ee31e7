"""
Render a session as the JSON endpoint of a badge; see https://shields.io/badges/endpoint-badge.

The badge says how many lectures failed. Without failures it says how many are within their budgets.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.exports.series import series_of
from pytest_lecturecheck.verdict import VerdictKind

_LABEL: Final = "lectures"
_LEFT_OUT: Final = frozenset({VerdictKind.SKIPPED, VerdictKind.NOTHING_TO_RUN})
_UNCHECKED: Final = frozenset(
    {VerdictKind.NO_BUDGET, VerdictKind.NOT_MEASURED, VerdictKind.PROFILED, VerdictKind.PARTIAL}
)


def render_shields(entries: Sequence[Entry]) -> str:
    """Render the badge."""
    verdicts = [item.decisive.verdict for item in series_of(entries)]
    message, colour = _badge([verdict.kind for verdict in verdicts], sum(verdict.failed for verdict in verdicts))
    badge = {"schemaVersion": 1, "label": _LABEL, "message": message, "color": colour}
    return json.dumps({**badge, "isError": True} if colour == "red" else badge, indent=2) + "\n"


def _badge(kinds: Sequence[VerdictKind], failed: int) -> tuple[str, str]:
    counted = [kind for kind in kinds if kind not in _LEFT_OUT]
    if not counted:
        return "none run", "lightgrey"
    if failed:
        return f"{failed} of {len(counted)} failed", "red"
    unchecked = sum(kind in _UNCHECKED for kind in counted)
    if unchecked:
        return f"{len(counted) - unchecked} within budget, {unchecked} unchecked", "yellow"
    if set(counted) == {VerdictKind.RECORDED}:
        return f"{len(counted)} recorded", "blue"
    return f"{len(counted)} within budget", "brightgreen"
