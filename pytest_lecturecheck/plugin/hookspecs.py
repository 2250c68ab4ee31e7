"""Hooks that other plugins can implement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_lecturecheck.kernel.launchers.port import Launcher
    from pytest_lecturecheck.model.run import Run
    from pytest_lecturecheck.verdict import Verdict


@pytest.hookspec
def pytest_lecturecheck_verdict(config: pytest.Config, run: Run, verdict: Verdict) -> None:
    """
    Receive a verdict; called once for each run, on the controller under pytest-xdist.

    Args:
        config: pytest's configuration.
        run: the record of the run.
        verdict: its verdict.
    """


@pytest.hookspec
def pytest_lecturecheck_launchers(config: pytest.Config) -> Mapping[str, Launcher]:  # type: ignore[empty-body]
    """
    Return launchers, which start kernels elsewhere; called once in each process, when the session begins.

    Args:
        config: pytest's configuration.

    Returns:
        Launchers by the name that ``--lecture-launcher`` accepts; see
        :class:`pytest_lecturecheck.kernel.launchers.port.Launcher`.
    """
