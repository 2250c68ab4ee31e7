"""One loop of kernels serves all tests of this folder."""

import pytest
from support.benches import Bench


@pytest.fixture(scope="session")
def _bench():
    bench = Bench()
    yield bench
    bench.close()


@pytest.fixture
def bench(_bench, tmp_path):
    """Runs lectures made of cells in ``tmp_path``."""
    _bench.folder = tmp_path
    return _bench
