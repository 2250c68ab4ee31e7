"""Runs of pytest in processes of their own."""

from pathlib import Path

import pytest
from support.in_process import shared_kernel_servers
from support.real_sessions import LectureProject


@pytest.fixture(autouse=True, scope="session")
def shared_servers():
    """Have the sessions of this process fork their kernels from the same server."""
    with shared_kernel_servers():
        yield


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder for one session's lectures; a module's tests share what its session came to."""
    return LectureProject(tmp_path_factory.mktemp("project"))


@pytest.fixture
def own_project(tmp_path):
    """A folder for one test alone."""
    return LectureProject(tmp_path)


def pytest_collection_modifyitems(config, items):
    """Leave out what needs a Slurm where there is none; who asks for it by its mark gets the failure."""
    if "slurm" in config.option.markexpr or Path("/run/lecturecheck-slurm").is_dir():
        return
    left_out = [item for item in items if item.get_closest_marker("slurm")]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
