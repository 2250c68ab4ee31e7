"""A lecture that was run again in the kernel of its run: the times only."""

from __future__ import annotations

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.reported_value import ReportedValue


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPass:
    """
    All cells of a lecture once more, in the kernel that has run them before.

    Attributes:
        number: 2 for the first time after the run itself.
        wall_seconds: from the first cell to the end of the last one.
        compile_seconds: what JAX's compiler took of it; ``None`` where JAX was not imported.
        reported_values: the values that the lecture reported in it, the last report of each name.
    """

    number: int
    wall_seconds: float
    compile_seconds: float | None = None
    reported_values: tuple[ReportedValue, ...] = ()
