"""What is measured, in which unit, and how."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import TypeAlias

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import UnitError
from pytest_lecturecheck.units import (
    format_counts_apart,
    format_duration,
    format_duration_up,
    format_durations_apart,
    format_size,
    format_size_up,
    format_sizes_apart,
    parse_duration,
    parse_size,
)


class Unit(StrEnum):
    """The unit of a metric's values."""

    BYTES = "B"
    SECONDS = "s"
    COUNT = "1"


class Metric(StrEnum):
    """
    One physical quantity, the same on every operating system.

    The value of each member is its name in records; the suffix is its unit.
    """

    PEAK_FOOTPRINT = "peak_footprint_bytes"
    PEAK_RSS = "peak_rss_bytes"
    PEAK_SWAP = "peak_swap_bytes"
    PEAK_COMPRESSED = "peak_compressed_bytes"
    GPU_USED = "gpu_used_bytes"
    GPU_LIVE = "gpu_live_bytes"
    GPU_POOL = "gpu_pool_bytes"
    WALL = "wall_seconds"
    CPU = "cpu_seconds"
    COMPILE = "compile_seconds"
    DISK_WRITTEN = "disk_written_bytes"
    DISK_READ = "disk_read_bytes"
    READ_CALLS = "read_calls_bytes"
    MAJOR_FAULTS = "major_faults_count"

    @property
    def unit(self) -> Unit:
        """Return the unit that the name's suffix states."""
        suffix = self.value.rsplit("_", 1)[1]
        return {"bytes": Unit.BYTES, "seconds": Unit.SECONDS, "count": Unit.COUNT}[suffix]

    @property
    def label(self) -> str:
        """Return the metric's name as people read it."""
        return _LABELS[self]

    @property
    def key(self) -> str:
        """Return the metric's key in budget files, where every value carries its own unit (``peak_footprint``)."""
        return self.value.rsplit("_", 1)[0]

    @property
    def is_memory(self) -> bool:
        """Return True for an amount of memory: a lecture's value is then the highest of its cells, not their sum."""
        return self.unit is Unit.BYTES and self not in _TRAFFIC

    def format_value(self, value: float) -> str:
        """Format a value of this metric with its unit."""
        if self.unit is Unit.BYTES:
            return format_size(value)
        if self.unit is Unit.SECONDS:
            return format_duration(value)
        return f"{value:.0f}"

    def format_value_up(self, value: float) -> str:
        """Format a value for a budget file; it parses back to no less."""
        if self.unit is Unit.BYTES:
            return format_size_up(value)
        if self.unit is Unit.SECONDS:
            return format_duration_up(value)
        return f"{math.ceil(value)}"

    def parse_value(self, text: str) -> float:
        """
        Read a value of this metric from text with its unit.

        Raises:
            UnitError: the text is not a value of this metric's unit.
        """
        if self.unit is Unit.BYTES:
            return parse_size(text)
        if self.unit is Unit.SECONDS:
            return parse_duration(text)
        if re.fullmatch("[0-9]{1,18}", text) is None:
            msg = f"count {text!r} is not understood; expected a whole number"
            raise UnitError(msg)
        return int(text)

    def round_up(self, value: float) -> float:
        """Return the value as a budget file holds it: rounded up, and unchanged by writing and reading it again."""
        return self.parse_value(self.format_value_up(value))

    def format_values_apart(self, first: float, second: float) -> tuple[str, str]:
        """Format two values so that different values look different."""
        if self.unit is Unit.BYTES:
            return format_sizes_apart(first, second)
        if self.unit is Unit.SECONDS:
            return format_durations_apart(first, second)
        return format_counts_apart(first, second)


_TRAFFIC = frozenset({Metric.DISK_WRITTEN, Metric.DISK_READ, Metric.READ_CALLS})
_LABELS = {
    Metric.PEAK_FOOTPRINT: "peak footprint",
    Metric.PEAK_RSS: "peak RSS",
    Metric.PEAK_SWAP: "peak swap",
    Metric.PEAK_COMPRESSED: "peak compressed memory",
    Metric.GPU_USED: "GPU memory used",
    Metric.GPU_LIVE: "GPU memory live",
    Metric.GPU_POOL: "GPU memory pool",
    Metric.WALL: "wall time",
    Metric.CPU: "CPU time",
    Metric.COMPILE: "compile time",
    Metric.DISK_WRITTEN: "written to disk",
    Metric.DISK_READ: "read from disk",
    Metric.READ_CALLS: "returned by read calls",
    Metric.MAJOR_FAULTS: "major page faults",
}


class Method(StrEnum):
    """How a value was measured; budgets compare like with like."""

    EXACT = "exact"
    """A counter of the operating system; true within the stated tolerance."""
    BRACKET = "bracket"
    """Between ``value`` and ``high``; both ends are sound."""
    SAMPLED = "sampled"
    """Read at intervals: a lower bound."""
    AGENT = "agent"
    """Reported by the agent inside the kernel."""

    @property
    def is_lower_bound(self) -> bool:
        """Return True if the true value may exceed the stated one by an unknown amount."""
        return self is Method.SAMPLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """
    One value with the method of its measurement.

    Attributes:
        metric: the quantity; its unit is the unit of every number here.
        value: the value; the lower end for ``bracket`` and ``sampled``.
        method: how it was measured.
        high: a sound upper end where one is known; ``None`` means the same as ``value`` for ``exact`` values and
            unknown for ``sampled`` ones.
        tolerance: how far the operating system's own counter may lag, in the metric's unit.
        interval_seconds: sampling interval of ``sampled`` and ``bracket`` values.
        source: the interface read, in a few words ("VmHWM", "PSS of 5 processes").
    """

    metric: Metric
    value: float
    method: Method
    high: float | None = None
    tolerance: float = 0
    interval_seconds: float | None = None
    source: str = ""

    @property
    def upper_bound(self) -> float | None:
        """Return the upper bound of the true value, or ``None`` if it is unknown."""
        if self.high is not None:
            return max(self.value, self.high)
        return self.value if self.method in {Method.EXACT, Method.AGENT} else None

    @property
    def text(self) -> str:
        """Format the value; lower bounds and brackets are marked."""
        shown = self.metric.format_value(self.value)
        if self.method is Method.BRACKET and self.high is not None and self.high > self.value:
            return f"{shown} to {self.metric.format_value(self.high)}"
        return f">= {shown}" if self.method.is_lower_bound else shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """A value that could not be measured, with the reason. Never the same as zero."""

    metric: Metric
    reason: str

    @property
    def text(self) -> str:
        """Format the reason why there is no value."""
        return f"not measured ({self.reason})"


Reading: TypeAlias = Measurement | Unavailable
