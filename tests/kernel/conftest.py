"""Makes ``benches`` and ``fakes`` importable; one loop of kernels serves all tests of this folder."""

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from benches import Bench  # noqa: E402 - the path comes first


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
