"""Add what the scheduler reports about the kernel's job step to the record of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL
from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.kernel.process.launch import Kernel
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Run
from pytest_lecturecheck.model.run_conditions import SchedulerFacts
from pytest_lecturecheck.units import format_size

_DISAGREEMENT_FRACTION: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep:
    """
    The kernel's job step after its end.

    Attributes:
        launcher: name of the launcher; empty for local kernels.
        queued_seconds: how long the start was queued, or ``None`` for local kernels.
        facts: what the scheduler reports, or ``None``.
    """

    launcher: str = ""
    queued_seconds: float | None = None
    facts: SchedulerFacts | None = None

    def added_to(self, record: Run) -> Run:
        """Return the record with these facts, also in its evidence."""
        evidence = record.evidence
        if evidence is not None:
            evidence = replace(evidence, conditions=replace(evidence.conditions, scheduler=self.facts))
        return replace(
            record,
            launch=replace(record.launch, launcher=self.launcher, queued_seconds=self.queued_seconds),
            conditions=replace(record.conditions, scheduler=self.facts),
            evidence=evidence,
        )


async def read_job_step(kernel: Kernel, launcher: Launcher) -> JobStep:
    """Ask the scheduler how a kernel's job step ended; call this after the teardown."""
    if launcher.name == LOCAL.name:
        return JobStep()
    facts = await kernel.provisioner.launch.facts()
    return JobStep(launcher=launcher.name, queued_seconds=round(kernel.provisioner.queued_seconds, 3), facts=facts)


def scheduler_findings(record: Run) -> Iterator[Finding]:
    """Report that the scheduler's peak and ours differ by more than 25 % of the larger one."""
    facts, peak = record.conditions.scheduler, record.measured(Metric.PEAK_FOOTPRINT)
    if facts is None or facts.max_rss_bytes is None or peak is None:
        return
    sampled, ours = facts.max_rss_bytes, peak.value
    if abs(sampled - ours) <= _DISAGREEMENT_FRACTION * max(sampled, ours):
        return
    message = (
        f"{facts.name} reports MaxRSS {format_size(sampled)}, our peak is {format_size(ours)}: {facts.name} samples, "
        "and counts resident memory only"
    )
    yield Finding(kind=FindingKind.MEASURE, message=message)
