"""What the controller decides reaches its workers unchanged."""

import json

import pytest

from pytest_lecturecheck.lease.admission import Capacity
from pytest_lecturecheck.plugin.worker_configuration import WorkerConfiguration


@pytest.mark.parametrize("capacity", [None, Capacity(host_bytes=2**33, devices={0: 2**34}, core_count=4)])
def test_it_survives_json(capacity):
    sent = WorkerConfiguration(
        args=("a.md", "b[1].md"),
        invocation_dir="/lectures",
        width=80,
        colour=True,
        remembers_failures=True,
        capacity=capacity,
    )
    assert WorkerConfiguration.from_plain(json.loads(json.dumps(sent.to_plain()))) == sent
