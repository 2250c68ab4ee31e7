"""Cold and warm storage, told apart by what was read from the disk and by read calls."""

import pytest

from pytest_lecturecheck.findings.storage import storage_state
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.units import MIB


class FakeSample:
    def __init__(self, fetched, called):
        self.values = {Metric.DISK_READ: fetched, Metric.READ_CALLS: called}

    def value(self, metric):
        found = self.values[metric]
        return None if found is None else found * MIB


@pytest.mark.parametrize(
    ("fetched", "called", "state"),
    [
        (400, 420, "cold"),
        (400, 1, "cold"),
        (0, 420, "warm"),
        (100, 420, "mixed"),
        (0, 10, ""),
        (None, 420, ""),
        (30, None, "cold"),
    ],
)
def test_storage_is_cold_where_a_disk_delivered_the_data(fetched, called, state):
    assert storage_state(FakeSample(fetched, called)) == state
