"""Makes this folder's ``real_sessions`` importable, and gives its runs of pytest in processes of their own."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from real_sessions import Desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder for one session's lectures; a module's tests share what its session came to."""
    return Desk(tmp_path_factory.mktemp("desk"))


@pytest.fixture
def own_desk(tmp_path):
    """A folder for one test alone."""
    return Desk(tmp_path)
