"""Lectures for pytester."""

import json

import pytest
from support.in_process import load_everything, shared_kernel_servers
from support.real_sessions import shared_runtime_folder

METADATA = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


@pytest.fixture(autouse=True, scope="session")
def everything_loaded():
    """Have nothing to load twice: after a session in this process pytester forgets the modules that came with it."""
    load_everything()


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch):
    """Keep the tests' own plugins, which take a second to load, out of the sessions that tests start."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")


@pytest.fixture(autouse=True)
def no_ci_service(monkeypatch):
    """Keep progress out of the sessions' output, also where these tests run under a CI service."""
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture(autouse=True, scope="session")
def shared_servers():
    """Have the sessions of this process fork their kernels from the same server."""
    with shared_kernel_servers():
        yield


@pytest.fixture(autouse=True)
def own_leases(monkeypatch):
    """Keep sessions of other processes from waiting for this one's lectures."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(shared_runtime_folder()))


@pytest.fixture
def pytester(pytester, monkeypatch, tmp_path_factory):
    """Have one home for all tests: what forks kernels serves only one environment."""
    home = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    return pytester


@pytest.fixture
def lecture(pytester, monkeypatch):
    """Write a notebook of code cells in pytester's folder; give its path."""
    monkeypatch.setenv("COLUMNS", "200")

    def write(name, *sources, **metadata):
        cells = [
            {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
            for source in sources or ["x = 1"]
        ]
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = {"cells": cells, "metadata": {**METADATA, **metadata}, "nbformat": 4, "nbformat_minor": 4}
        path.write_text(json.dumps(data, indent=1), encoding="utf-8")
        return path

    return write
