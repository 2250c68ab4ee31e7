"""The conditions under which a kernel ran; a run and the evidence of its bad end hold one value of this type each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from pytest_lecturecheck.deferred_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFacts:
    """
    What a batch scheduler reports about the job step in which a kernel ran.

    Attributes:
        name: the scheduler ("Slurm").
        step: the scheduler's name for the step ("812.3"), or an empty string where none was made.
        state: the state in which the step ended, as the scheduler writes it ("OUT_OF_MEMORY"), or an empty string.
        exit: the exit code as the scheduler writes it ("0:9"), or an empty string.
        memory_bytes: memory that the step requested and was limited to.
        max_rss_bytes: the highest resident size that the scheduler sampled, or ``None`` where it reports none.
        source: where the state comes from ("sacct", "srun").
    """

    name: str
    step: str = ""
    state: str = ""
    exit: str = ""
    memory_bytes: int | None = None
    max_rss_bytes: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConditions:
    """
    The limits and surroundings of one kernel.

    Attributes:
        cap_bytes: memory limit that was set for the processes of the run, or ``None``.
        cap_method: what enforces that limit ("cgroup v1", "cgroup v2", "watchdog"), or an empty string.
        load_average: processes that wanted a core during the last minute, or ``None``. In a run it is read when the
            lecture has completed, in evidence at the bad end.
        environment: variables that the settings set for this kernel only.
        scheduler: what a batch scheduler reports about the kernel's job step, or ``None`` where none was involved.
    """

    cap_bytes: int | None = None
    cap_method: str = ""
    load_average: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    scheduler: SchedulerFacts | None = None
