"""What the record of a run says of the scheduler's step that its kernel was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

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
    What is known when all has ended.

    Attributes:
        launcher: name of the launcher; empty for kernels that are started here.
        queued_seconds: how long the start waited, or ``None`` where there is nothing to wait for.
        facts: what the scheduler says, or ``None``.
    """

    launcher: str = ""
    queued_seconds: float | None = None
    facts: SchedulerFacts | None = None

    def added_to(self, record: Run) -> Run:
        """Give the record with this in it, and in its evidence."""
        evidence = record.evidence
        if evidence is not None:
            evidence = replace(evidence, conditions=replace(evidence.conditions, scheduler=self.facts))
        return replace(
            record,
            launch=replace(record.launch, launcher=self.launcher, queued_seconds=self.queued_seconds),
            conditions=replace(record.conditions, scheduler=self.facts),
            evidence=evidence,
        )


async def look_at_step(kernel: Kernel, launcher: Launcher) -> JobStep:
    """Ask what became of a kernel's step; call it after the teardown."""
    if launcher.name == LOCAL.name:
        return JobStep()
    facts = await kernel.provisioner.launch.facts()
    return JobStep(launcher=launcher.name, queued_seconds=round(kernel.provisioner.queued_seconds, 3), facts=facts)


def scheduler_findings(record: Run) -> Iterator[Finding]:
    """Say where the scheduler's figure and ours are more than 25 % of the larger one apart."""
    facts, peak = record.conditions.scheduler, record.measured(Metric.PEAK_FOOTPRINT)
    if facts is None or facts.max_rss_bytes is None or peak is None:
        return
    sampled, ours = facts.max_rss_bytes, peak.value
    if abs(sampled - ours) <= _DISAGREEMENT_FRACTION * max(sampled, ours):
        return
    message = (
        f"{facts.name}'s MaxRSS {format_size(sampled)}, our peak {format_size(ours)}: {facts.name} samples, and counts "
        "what is resident only"
    )
    yield Finding(kind=FindingKind.MEASURE, message=message)
