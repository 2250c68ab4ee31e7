"""Which cells are run again, and when memory is said to grow each time."""

import pytest

from pytest_lecturecheck.config.option_values import read_repeat_request
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.repetition import CellRepetitions, RepeatRequest, steady_growth

MIB = 1 << 20


@pytest.mark.parametrize(
    ("steps_mib", "expected_mib"),
    [
        ([1, 1, 1, 1], 1),
        ([1, 1.5, 0.75, 1], 1),
        # Caches that fill up, a single jump, and what comes and goes.
        ([8, 4, 2, 0.2], 0),
        ([1, 1, 1, 0], 0),
        ([0, 0, 20, 0], 0),
        ([3, -3, 3, -3], 0),
        # Cells of lectures that compile each time.
        ([1.6, 0.85, -0.46, 1.05], 0),
        ([0.95, 1.42, 0.5, -3.04], 0),
        ([1, 1, 1], 0),
        ([1], 0),
        ([0.2, 0.2, 0.2, 0.2], 0),
    ],
)
def test_growth_is_steady_or_none(steps_mib, expected_mib):
    values = [100 * MIB]
    for step in steps_mib:
        values.append(values[-1] + round(step * MIB))
    assert steady_growth(values) == expected_mib * MIB


def test_too_few_repetitions_say_nothing():
    assert CellRepetitions(count=4, level_bytes=(1, 2, 3, 4)).growth_bytes is None
    assert CellRepetitions(count=5, level_bytes=(1, 1, 1, 1, 1)).growth_bytes == 0


def test_what_jax_compiles_each_time_is_told_apart():
    def grown(*cleared_mib):
        levels = tuple(MIB * size for size in (100, 110, 120, 130, 140))
        return CellRepetitions(
            count=5, level_bytes=levels, cleared_level_bytes=tuple(MIB * size for size in cleared_mib)
        )

    assert (grown().grows, grown().is_compiled, grown().compiled_bytes) == (True, False, 0)
    assert (grown(60, 60, 61).is_compiled, grown(60, 60, 61).compiled_bytes) == (True, 80 * MIB)
    # A leak beside many programs: it goes on without them.
    assert not grown(60, 70, 80).is_compiled
    # The cell could not be run twice more.
    assert not grown(60, 60).is_compiled


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, RepeatRequest(count=5)),
        ("5: 3, 7", RepeatRequest(count=5, cells=frozenset({3, 7}))),
        ("9:slow,2", RepeatRequest(count=9, cells=frozenset({2}), tags=frozenset({"slow"}))),
    ],
)
def test_a_request_names_repetitions_and_cells(value, expected):
    assert read_repeat_request(value) == expected


def test_a_request_chooses_cells_by_number_and_tag():
    cells = [Cell(index=0, number=number, source="1", line=1, tags=frozenset({f"t{number}"})) for number in (1, 2, 3)]
    request = RepeatRequest(count=3, cells=frozenset({1}), tags=frozenset({"t3"}))
    assert [request.chooses(cell) for cell in cells] == [True, False, True]
    assert all(RepeatRequest(count=3).chooses(cell) for cell in cells)


@pytest.mark.parametrize("value", [True, "often", "5:", "5:1,,2", "-3", 2.5])
def test_a_request_that_is_none_says_what_is_expected(value):
    with pytest.raises(SettingsError) as raised:
        read_repeat_request(value)
    assert str(raised.value) == (
        f"{value!r} is not understood; expected the number of repetitions, alone or with cells: '5', '5:3,7' for "
        "code cells 3 and 7, '5:TAG' for cells with a tag"
    )


def test_few_repetitions_are_refused():
    with pytest.raises(SettingsError, match=r"^4 repetitions cannot tell growth from chance; expected 5 or more$"):
        read_repeat_request(4)


def test_there_is_no_cell_of_number_0_to_repeat():
    with pytest.raises(SettingsError, match=r"^'5:0,2': there is no code cell 0; the first one is 1$"):
        read_repeat_request("5:0,2")
