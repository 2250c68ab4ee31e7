from __future__ import annotations

import math
from decimal import localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.errors import UnitError
from pytest_lecturecheck.units import (
    GIB,
    KIB,
    MIB,
    TIB,
    format_bytes,
    format_counts_apart,
    format_declared_duration,
    format_declared_size,
    format_duration,
    format_duration_up,
    format_durations_apart,
    format_fraction,
    format_size,
    format_size_down,
    format_size_up,
    format_sizes_apart,
    parse_duration,
    parse_size,
)

SIZES = st.one_of(st.integers(0, 2**62), st.floats(0, 2.0**62, allow_nan=False))
SECONDS = st.floats(0, 3e9, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("24 GB", 24_000_000_000),
        ("24GB", 24_000_000_000),
        ("24 GiB", 25_769_803_776),
        ("24000 MB", 24_000_000_000),
        ("24576 MiB", 25_769_803_776),
        ("1.5 TB", 1_500_000_000_000),
        ("0.5 GiB", 536_870_912),
        (".5 GiB", 536_870_912),
        ("2.4e10 B", 24_000_000_000),
        ("24 gib", 25_769_803_776),
        ("24 gb", 24_000_000_000),
        ("24\N{NO-BREAK SPACE}GB", 24_000_000_000),
        ("  1 kB\n", 1000),
        ("1 KB", 1000),
        ("7 bytes", 7),
        ("0 B", 0),
        ("0.1 B", 1),
        ("1.0000000001 kB", 1001),
        ("2 PiB", 2 * 1024**5),
    ],
)
def test_sizes_that_people_write_are_read(text, size_bytes):
    assert parse_size(text) == size_bytes


VALID_UNITS = "B, kB, KB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB"
EXAMPLE = "for example '24 GB' or '512 MiB'"
ONE_EACH = f"expected one number and one unit, {EXAMPLE}"
SEPARATORS = "write decimals with a point, and no separators inside the number"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("24", f"size '24' has no unit; expected one of {VALID_UNITS}"),
        ("24 G", "size '24 G' has an ambiguous unit 'G': write GB (powers of 1000) or GiB (of 1024)"),
        ("24m", "size '24m' has an ambiguous unit 'm': write MB (powers of 1000) or MiB (of 1024)"),
        ("24 Gb", "size '24 Gb' has the unit 'Gb', which means bits; for bytes write GB"),
        ("24 Gib", "size '24 Gib' has the unit 'Gib', which means bits; for bytes write GiB"),
        ("24 b", "size '24 b' has the unit 'b', which means bits; for bytes write B"),
        ("24 GIB", f"size '24 GIB' has an unknown unit 'GIB'; expected one of {VALID_UNITS}"),
        ("24 000 MB", f"size '24 000 MB' is not understood ({SEPARATORS}); {ONE_EACH}"),
        ("0,5 GB", f"size '0,5 GB' is not understood ({SEPARATORS}); {ONE_EACH}"),
        ("24,000 MB", f"size '24,000 MB' is not understood ({SEPARATORS}); {ONE_EACH}"),
        ("about 24GB", f"size 'about 24GB' is not understood; {ONE_EACH}"),
        ("4 GB per core", f"size '4 GB per core' is not understood; {ONE_EACH}"),
        (
            "５００ MB",  # noqa: RUF001 - full-width digits are the point
            "size '５００ MB' is not understood (only the digits 0-9 and the letters of the units are read); "  # noqa: RUF001
            + ONE_EACH,
        ),
        ("-1 GB", f"size '-1 GB' is not understood (it is negative); {ONE_EACH}"),
        ("nan GB", f"size 'nan GB' is not understood; {ONE_EACH}"),
        ("inf GB", f"size 'inf GB' is not understood; {ONE_EACH}"),
        ("", f"size '' is not understood; {ONE_EACH}"),
        ("GB", f"size 'GB' is not understood; {ONE_EACH}"),
        ("1e999 B", f"size '1e999 B' is larger than any memory; expected {EXAMPLE}"),
        ("8193 PiB", f"size '8193 PiB' is larger than any memory; expected {EXAMPLE}"),
        (24, f"size 24 is not text with a unit; expected {EXAMPLE}"),
        (24.0, f"size 24.0 is not text with a unit; expected {EXAMPLE}"),
        (math.nan, f"size nan is not text with a unit; expected {EXAMPLE}"),
        (math.inf, f"size inf is not text with a unit; expected {EXAMPLE}"),
        (True, f"size True is not text with a unit; expected {EXAMPLE}"),
        (None, f"size None is not text with a unit; expected {EXAMPLE}"),
    ],
)
def test_sizes_that_would_have_to_be_guessed_are_refused(text, message):
    with pytest.raises(UnitError) as caught:
        parse_size(text)
    assert str(caught.value) == message


def test_a_very_long_number_is_refused_and_not_computed():
    with pytest.raises(UnitError, match="is not understood"):
        parse_size("9" * 5000 + " GB")


def test_reading_does_not_depend_on_the_decimal_context():
    with localcontext() as context:
        context.prec = 2
        assert parse_size("24.576 GB") == 24_576_000_000
        assert format_size_up(24_576_000_001) == "22.89 GiB"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1023.7, "1 KiB"),
        (KIB, "1 KiB"),
        (1536, "1.5 KiB"),
        (MIB - 1, "1 MiB"),
        (1023 * KIB, "1023 KiB"),
        (int(1.42 * GIB), "1.42 GiB"),
        (634 * MIB, "634 MiB"),
        (8 * 10**13, "72.8 TiB"),
        (5000 * TIB, "5000 TiB"),
        (-1536, "-1.5 KiB"),
        (math.inf, "inf B"),
    ],
)
def test_sizes_print_in_iec_units(size_bytes, text):
    assert format_size(size_bytes) == text


def test_exact_bytes_print_with_separators():
    assert format_bytes(664_797_184) == "664,797,184 bytes"


@given(SIZES)
def test_a_size_printed_for_a_budget_parses_back_to_no_less_and_close(size_bytes):
    read = parse_size(format_size_up(size_bytes))
    assert read >= size_bytes
    # Four significant digits, and a whole byte for what is below a KiB.
    assert read <= size_bytes * 1.001 + 1


@given(SIZES)
def test_a_size_printed_for_a_budget_prints_alike_after_reading(size_bytes):
    text = format_size_up(size_bytes)
    assert format_size_up(parse_size(text)) == text


@given(SIZES, st.integers(3, 12))
def test_a_size_printed_to_nearest_parses_back_within_its_precision(size_bytes, digits):
    read = parse_size(format_size(size_bytes, digits))
    assert abs(read - size_bytes) <= size_bytes * 10.0 ** (1 - digits) + 1


@given(SIZES, SIZES)
def test_different_sizes_never_look_equal(first, second):
    shown = format_sizes_apart(first, second)
    assert (shown[0] == shown[1]) == (first == second)


@given(st.integers(0, 2**62), st.integers(-3, 3))
def test_neighbouring_sizes_never_look_equal(size_bytes, step):
    shown = format_sizes_apart(size_bytes, size_bytes + step)
    assert (shown[0] == shown[1]) == (step == 0)


def test_sizes_apart_take_no_more_digits_than_needed():
    assert format_sizes_apart(2 * MIB, 2 * MIB + 1) == ("2 MiB", "2.000001 MiB")
    assert format_sizes_apart(600 * MIB, 634 * MIB) == ("600 MiB", "634 MiB")
    assert format_sizes_apart(100.2, 100.4) == ("100.2 B", "100.4 B")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90 s", 90.0),
        ("90s", 90.0),
        ("0.5 sec", 0.5),
        ("250 ms", 0.25),
        ("2 min", 120.0),
        ("2 Minutes", 120.0),
        ("1:30", 90.0),
        ("1:30:00", 5400.0),
        ("100:00", 6000.0),
        ("12 hours", 43200.0),
        ("1 h 30 min", 5400.0),
        ("1h30min5s", 5405.0),
        ("1 hour, 30 minutes", 5400.0),
        ("2 days 3 h", 183600.0),
        ("0 s", 0.0),
    ],
)
def test_durations_that_people_write_are_read(text, seconds):
    assert parse_duration(text) == seconds


DURATION_EXAMPLE = "for example '90 s', '2 min' or '1:30'"
DURATION_FORMS = "expected numbers with units (ms, s, min, h, days) or m:ss or h:mm:ss"
DESCENDING = "does not go from large units to small ones; expected for example '1 h 30 min'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("90", f"duration '90' has no unit; did you mean '90 min'? expected {DURATION_EXAMPLE}"),
        ("2 m", f"duration '2 m' is not understood; did you mean '2 min'? {DURATION_FORMS}"),
        ("5 minuts", f"duration '5 minuts' is not understood; did you mean '5 minutes'? {DURATION_FORMS}"),
        ("1h30", f"duration '1h30' is not understood; {DURATION_FORMS}"),
        ("90 s,", f"duration '90 s,' is not understood; {DURATION_FORMS}"),
        ("1:5", f"duration '1:5' is not understood; {DURATION_FORMS}"),
        ("1:75", f"duration '1:75' is not understood; {DURATION_FORMS}"),
        ("0,5 s", f"duration '0,5 s' is not understood ({SEPARATORS}); {DURATION_FORMS}"),
        ("-5 s", f"duration '-5 s' is not understood (it is negative); {DURATION_FORMS}"),
        ("about 2 min", f"duration 'about 2 min' is not understood; {DURATION_FORMS}"),
        ("nan s", f"duration 'nan s' is not understood; {DURATION_FORMS}"),
        ("2 min per cell", f"duration '2 min per cell' is not understood; {DURATION_FORMS}"),
        ("5 s 1 h", f"duration '5 s 1 h' {DESCENDING}"),
        ("1 h 1 h", f"duration '1 h 1 h' {DESCENDING}"),
        ("1e300 s", f"duration '1e300 s' is longer than a hundred years; expected {DURATION_EXAMPLE}"),
        (" ", f"duration is empty; expected {DURATION_EXAMPLE}"),
        (90, f"duration 90 is not text with a unit; did you mean '90 min'? expected {DURATION_EXAMPLE}"),
        (True, f"duration True is not text with a unit; expected {DURATION_EXAMPLE}"),
    ],
)
def test_durations_that_would_have_to_be_guessed_are_refused(text, message):
    with pytest.raises(UnitError) as caught:
        parse_duration(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.00084, "0.00084 s"),
        (0.844, "0.84 s"),
        (2.0, "2 s"),
        (12.34, "12.3 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (125, "2 min 05 s"),
        (600, "10 min 00 s"),
        (3599.7, "1 h 00 min"),
        (3725, "1 h 02 min"),
        (86399, "1 day 0 h"),
        (183600, "2 days 3 h"),
        (-2.5, "-2.5 s"),
        (math.inf, "no limit"),
    ],
)
def test_durations_print_for_people(seconds, text):
    assert format_duration(seconds) == text


@given(SECONDS)
def test_a_duration_printed_for_a_budget_parses_back_to_no_less_and_close(seconds):
    read = parse_duration(format_duration_up(seconds))
    assert read >= seconds
    assert read <= seconds * 1.001 + 1e-12


@given(SECONDS, SECONDS)
def test_different_durations_never_look_equal(first, second):
    shown = format_durations_apart(first, second)
    assert (shown[0] == shown[1]) == (first == second)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_different_counts_never_look_equal(first, second):
    shown = format_counts_apart(first, second)
    assert (shown[0] == shown[1]) == (first == second)


def test_durations_apart_take_no_more_digits_than_needed():
    assert format_durations_apart(600, 600.4) == ("600 s", "600.4 s")
    assert format_durations_apart(600, 700) == ("10 min 00 s", "11 min 40 s")


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.0567, "+5.7 %"),
        (0.12, "+12 %"),
        (-0.003, "-0.30 %"),
        (4.2, "+420 %"),
        (0.0, "+0 %"),
        (math.inf, "+inf %"),
    ],
)
def test_fractions_print_as_signed_percentages(fraction, text):
    assert format_fraction(fraction) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(506.05 * MIB, "506 MiB"), (71.97 * MIB, "71.9 MiB"), (GIB - 1, "1023 MiB"), (999.9, "999 B"), (0, "0 B")],
)
def test_lower_bounds_are_printed_rounded_down(size_bytes, text):
    assert format_size_down(size_bytes) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(24_000_000_000, "24 GB (22.4 GiB)"), (256_000_000, "256 MB (244 MiB)"), (24 * GIB, "24 GiB"), (1000, "1000 B")],
)
def test_declared_sizes_are_printed_as_they_were_written(size_bytes, text):
    assert format_declared_size(size_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (7200.0, "2 h"),
        (5400.0, "1 h 30 min"),
        (120.0, "2 min"),
        (3605.0, "1 h 5 s"),
        (90.5, "90.5 s"),
        (172_800.0, "48 h"),
        (0.1, "0.1 s"),
        (0.0, "0 s"),
    ],
)
def test_declared_durations_are_printed_as_they_were_written(seconds, text):
    assert format_declared_duration(seconds) == text


@given(st.integers(1, 10**9))
def test_a_declared_duration_reads_back(seconds):
    assert parse_duration(format_declared_duration(float(seconds))) == seconds
