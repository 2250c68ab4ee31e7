"""Limits that follow from what a README declares."""

import pytest

from pytest_lecturecheck.config.declared_limits import with_declared_limits
from pytest_lecturecheck.config.options import DEFAULTS
from pytest_lecturecheck.model.settings import NO_LIMIT, RunSettings

GB = 10**9
HOUR = 3600.0


def resolved(**values):
    origins = dict.fromkeys(values, "pyproject.toml")
    return with_declared_limits(RunSettings(**values, origins=origins).over(DEFAULTS))


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ({}, DEFAULTS.timeout_seconds),
        ({"declared_time_seconds": 12 * HOUR}, 12 * HOUR),
        ({"declared_time_seconds": 60.0}, DEFAULTS.timeout_seconds),
        ({"declared_time_seconds": 12 * HOUR, "timeout_seconds": 900.0}, 900.0),
        ({"declared_time_seconds": 12 * HOUR, "timeout_seconds": NO_LIMIT}, NO_LIMIT),
    ],
)
def test_a_declared_time_raises_the_limit_of_cells(values, seconds):
    assert resolved(**values).timeout_seconds == seconds


def test_declared_values_become_limits_where_they_are_enforced():
    found = resolved(declared_memory_bytes=24 * GB, declared_time_seconds=HOUR, enforce_declared=True)

    assert (found.memory_cap_bytes, found.total_timeout_seconds) == (24 * GB, HOUR)
    assert found.origin("memory_cap_bytes") == "the declared value"


def test_limits_that_are_set_stay():
    found = resolved(declared_memory_bytes=24 * GB, memory_cap_bytes=float(GB), enforce_declared=True)

    assert found.memory_cap_bytes == GB
    assert found.total_timeout_seconds == DEFAULTS.total_timeout_seconds


def test_declared_values_are_no_limits_by_themselves():
    found = resolved(declared_memory_bytes=24 * GB, declared_time_seconds=HOUR)

    assert found.memory_cap_bytes == DEFAULTS.memory_cap_bytes
    assert found.total_timeout_seconds == DEFAULTS.total_timeout_seconds
