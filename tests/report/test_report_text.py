"""Text is measured, shortened and wrapped as terminals show it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.report.text import display_width, fit_end, fit_middle, fold, fold_between_words, wrap

LINES = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")))


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("lectures/intro.md", 17, "lectures/intro.md"),
        ("lectures/programming/intro.md", 20, "lectu...ing/intro.md"),
        ("講義/とても長い名前の講義.md", 16, "講義...の講義.md"),
        ("abcdef", 3, "abc"),
        ("abcdef", 0, ""),
    ],
)
def test_names_lose_their_middle(text, width, expected):
    assert fit_middle(text, width) == expected


@given(LINES, st.integers(0, 40))
def test_fitted_text_fits(text, width):
    assert display_width(fit_middle(text, width)) <= width
    assert display_width(fit_end(text, width)) <= width


@given(LINES, st.integers(2, 40))
def test_folding_loses_nothing(text, width):
    pieces = fold(text, width)
    assert "".join(pieces) == text
    assert all(display_width(piece) <= width for piece in pieces)


@given(LINES, st.integers(2, 40))
def test_folding_between_words_loses_nothing(text, width):
    pieces = fold_between_words(text, width)
    assert "".join(pieces) == text
    assert all(display_width(piece) <= width for piece in pieces)


@pytest.mark.parametrize(
    ("text", "width", "pieces"),
    [
        ("result = compute(alpha, beta)", 20, ["result = compute(", "alpha, beta)"]),
        ("    total = total + price", 20, ["    total = total + ", "price"]),
        ("    x = 'averyveryverylongword'", 16, ["    x = ", "'averyveryverylo", "ngword'"]),
        ("short", 20, ["short"]),
    ],
)
def test_source_lines_break_between_words(text, width, pieces):
    assert fold_between_words(text, width) == pieces


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("result = compute(alpha, beta)", 25, "result = compute(..."),
        ("result = compute(alpha, beta)", 29, "result = compute(alpha, beta)"),
        ("x = 'averyveryverylongword'", 20, "x = 'averyveryver..."),
    ],
)
def test_shortened_lines_end_between_words(text, width, expected):
    assert fit_end(text, width) == expected


@given(LINES, st.integers(14, 60))
def test_wrapped_text_keeps_its_words_and_fits(text, width):
    rows = wrap(text, width, first="  - ")
    assert "".join("".join(rows).split()).removeprefix("-") == "".join(text.split())
    assert all(display_width(row) <= width for row in rows)


def test_combining_and_wide_characters_are_counted_as_terminals_do():
    assert [display_width(text) for text in ("abc", "e\u0301", "日本", "\N{ZERO WIDTH JOINER}", "")] == [3, 1, 4, 0, 0]


@pytest.mark.parametrize(
    ("text", "width", "rows"),
    [
        ("highest peak 506 MiB; 7.63 s", 27, ["highest peak 506 MiB;", "7.63 s"]),
        ("a limit of 1.5 GiB, 20 % over", 12, ["a limit of", "1.5 GiB,", "20 % over"]),
        ("it took longer (+21 %), twice", 20, ["it took longer", "(+21 %), twice"]),
        ("in all 1 h 02 min 03 s of it", 16, ["in all", "1 h 02 min 03 s", "of it"]),
        ("they are 1,234,567 bytes", 15, ["they are", "1,234,567 bytes"]),
        # A unit that follows no number, and a number that has none, are words.
        ("cell 3, s is a name", 9, ["cell 3, s", "is a name"]),
        ("of a list s", 9, ["of a list", "s"]),
        ("about 3 runs", 9, ["about 3", "runs"]),
        # Where a figure is wider than the line, its unit stands alone.
        ("123456789 MiB", 9, ["123456789", "MiB"]),
    ],
)
def test_a_number_stays_with_its_unit(text, width, rows):
    assert wrap(text, width) == rows
