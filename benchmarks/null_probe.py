"""A pytest plugin for the benchmarks (``-p null_probe``): lectures run as ever, and nothing is measured."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_lecturecheck.model.metric import Metric, Reading
from pytest_lecturecheck.model.probe import CellReadings, Probe, Snapshot
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.session import workbench


class NullProbe:
    """A probe that reads nothing."""

    def begin_cell(self) -> None:
        """Do nothing."""

    def end_cell(self) -> CellReadings:
        """Give no readings."""
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
    return NullProbe()


def pytest_configure() -> None:
    """Put the null probe where the session takes its probes from."""
    workbench.open_memory_probe = _open_nothing  # type: ignore[assignment]
