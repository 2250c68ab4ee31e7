"""A pytest plugin for the benchmarks (``-p null_probe``): lectures run as ever, and nothing is measured."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_lecturecheck.model.metric import Metric, Reading
    from pytest_lecturecheck.model.probe import CellReadings, Probe, Snapshot
    from pytest_lecturecheck.model.timeline import MemorySample

_PORTS = "pytest_lecturecheck.session.kernel_ports"
_opened: list[NullProbe] = []


class NullProbe:
    """A probe that reads nothing."""

    def begin_cell(self) -> None:
        """Do nothing."""

    def end_cell(self) -> CellReadings:
        """Give no readings."""
        from pytest_lecturecheck.model.probe import CellReadings  # noqa: PLC0415 - loaded by now, and not before

        return CellReadings(readings={}, start_footprint_bytes=None)

    def snapshot(self) -> Snapshot | None:
        """Know nothing."""
        return None

    def fresh_snapshot(self) -> Snapshot | None:
        """Know nothing."""
        return None

    def close(self) -> Mapping[Metric, Reading]:
        """Give no readings."""
        return {}

    def timeline(self, since: float) -> tuple[MemorySample, ...]:  # noqa: ARG002 - the port's signature
        """Give no samples."""
        return ()


def _open_nothing(*_arguments: object, **_options: object) -> Probe:
    _opened.append(NullProbe())
    return _opened[-1]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """Put the null probe where kernels take their probes from; a lecture's setup has loaded the module."""
    sys.modules[_PORTS].open_memory_probe = _open_nothing  # type: ignore[attr-defined]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session that was measured all the same: it would be no comparison."""
    if session.testscollected and not _opened:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
