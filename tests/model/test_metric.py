from __future__ import annotations

import pytest

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable, Unit
from pytest_lecturecheck.units import MIB

UNITS_BY_SUFFIX = {"bytes": Unit.BYTES, "seconds": Unit.SECONDS, "count": Unit.COUNT}


@pytest.mark.parametrize("metric", list(Metric))
def test_every_metric_states_its_unit_and_has_a_key_and_a_label(metric):
    key, suffix = metric.value.rsplit("_", 1)
    assert metric.unit is UNITS_BY_SUFFIX[suffix]
    assert metric.key == key
    assert metric.label


def test_labels_and_keys_are_unique():
    assert len({metric.label for metric in Metric}) == len({metric.key for metric in Metric}) == len(Metric)


def test_what_was_written_to_disk_is_no_memory():
    assert Metric.PEAK_FOOTPRINT.is_memory
    assert not Metric.DISK_WRITTEN.is_memory
    assert not Metric.WALL.is_memory


@pytest.mark.parametrize(
    ("metric", "value", "text", "text_up"),
    [
        (Metric.PEAK_RSS, 634.1234 * MIB, "634 MiB", "634.2 MiB"),
        (Metric.WALL, 12.3451, "12.3 s", "12.35 s"),
        (Metric.MAJOR_FAULTS, 12.3, "12", "13"),
    ],
)
def test_values_print_with_their_unit_and_never_less_for_a_budget(metric, value, text, text_up):
    assert metric.format_value(value) == text
    assert metric.format_value_up(value) == text_up


@pytest.mark.parametrize(
    ("metric", "first", "second", "texts"),
    [
        (Metric.PEAK_RSS, 2 * MIB, 2 * MIB + 1, ("2 MiB", "2.000001 MiB")),
        (Metric.WALL, 1.0, 1.0001, ("1 s", "1.0001 s")),
        (Metric.MAJOR_FAULTS, 121, 120.6, ("121", "120.6")),
    ],
)
def test_different_values_look_different_in_every_unit(metric, first, second, texts):
    assert metric.format_values_apart(first, second) == texts


def measurement(method, high=None):
    return Measurement(metric=Metric.PEAK_RSS, value=100 * MIB, method=method, high=high)


@pytest.mark.parametrize(
    ("found", "text", "upper"),
    [
        (measurement(Method.EXACT), "100 MiB", 100 * MIB),
        (measurement(Method.AGENT), "100 MiB", 100 * MIB),
        (measurement(Method.SAMPLED), ">= 100 MiB", None),
        (measurement(Method.SAMPLED, 120 * MIB), ">= 100 MiB", 120 * MIB),
        (measurement(Method.BRACKET, 120 * MIB), "100 MiB to 120 MiB", 120 * MIB),
        (measurement(Method.BRACKET, 99 * MIB), "100 MiB", 100 * MIB),
        (measurement(Method.BRACKET), "100 MiB", None),
    ],
)
def test_a_measurement_says_what_is_known_of_it(found, text, upper):
    assert (found.text, found.upper_bound) == (text, upper)


def test_what_was_not_measured_says_why():
    assert Unavailable(metric=Metric.GPU_USED, reason="no GPU").text == "not measured (no GPU)"
