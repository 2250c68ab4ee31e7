"""Findings as values."""

from __future__ import annotations

import pytest

from pytest_lecturecheck.model.finding import Finding, FindingKind


@pytest.mark.parametrize(
    ("message", "cell_number", "place"),
    [
        ("1 nested code-cell (line 20) is not executed", None, ""),
        ("2 nested code-cells (lines 20 and 24) are not executed", None, ""),
        ("1 nested code-cell (line 201) is not executed", None, "line 20"),
        ("the cell fails (code cell 2, line 20)", 2, ""),
        ("the cell calls f (line 20)", 2, "code cell 2, line 20"),
    ],
)
def test_a_place_that_the_message_states_is_not_repeated(message, cell_number, place):
    finding = Finding(kind=FindingKind.NOT_RUN, message=message, cell_number=cell_number, line=20)
    assert finding.place_beside == place
