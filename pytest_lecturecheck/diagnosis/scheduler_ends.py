"""Kernels whose step a batch scheduler ended: for memory, for time, or for reasons that are not the lecture's."""

from __future__ import annotations

from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.wording import all_lines, within
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.run_conditions import SchedulerFacts
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_size

_OUT_OF_MEMORY: Final = "OUT_OF_MEMORY"
_ENDS: Final = {
    "TIMEOUT": "ended at its time limit",
    "DEADLINE": "ended at its deadline",
    "NODE_FAIL": "ended because its node failed",
    "BOOT_FAIL": "ended because its node failed",
    "PREEMPTED": "ended in favour of another job",
    "CANCELLED": "cancelled",
}
_ADVICE: Final = {
    "TIMEOUT": "give steps more time ([slurm] time), and the allocation (salloc --time)",
    "DEADLINE": "give the allocation a later deadline",
    "NODE_FAIL": "nothing is said about the lecture: run it again on another node",
    "BOOT_FAIL": "nothing is said about the lecture: run it again on another node",
    "PREEMPTED": "nothing is said about the lecture: run it again",
    "CANCELLED": "nothing is said about the lecture: someone cancelled its step, or the allocation ended",
}
_MEMORY_ADVICE: Final = (
    "have the cell need less memory, or give its step more: its budget, --lecture-memory-cap SIZE, [slurm] mem-default"
)


def find_scheduler_end(evidence: Evidence) -> Cause | None:
    """Recognise a kernel that ended because its scheduler ended its step; what we stopped ourselves is none."""
    facts = evidence.conditions.scheduler
    if facts is None or evidence.timeout.limit_seconds is not None or evidence.error is not None:
        return None
    where = within(evidence) if evidence.exit.ready else " before the kernel was ready"
    name = one_line(facts.name)
    step = f"step {one_line(facts.step)}" if facts.step else "its step"
    if facts.state == _OUT_OF_MEMORY:
        size = f", {format_size(facts.memory_bytes)}," if facts.memory_bytes is not None else ""
        return Cause(
            kind=CauseKind.OOM_KILLED,
            headline=f"kernel was killed by the OOM killer{where}: {name}'s memory limit of {step}{size} was reached",
            evidence=(*scheduler_lines(facts), *all_lines(evidence)),
            advice=(_MEMORY_ADVICE,),
        )
    if facts.state not in _ENDS:
        return None
    return Cause(
        kind=CauseKind.ENDED_BY_SCHEDULER,
        headline=f"kernel was ended by {name}{where}: {step} was {_ENDS[facts.state]}",
        evidence=(*scheduler_lines(facts), *all_lines(evidence)),
        advice=(_ADVICE[facts.state],),
    )


def scheduler_lines(facts: SchedulerFacts) -> tuple[str, ...]:
    """Return the scheduler's report as one line."""
    parts = [f"{one_line(facts.name)} step {one_line(facts.step)}" if facts.step else one_line(facts.name)]
    said = [f"state {one_line(facts.state)}"] if facts.state else []
    said += [f"exit {one_line(facts.exit)}"] if facts.exit else []
    said += [f"limit {format_size(facts.memory_bytes)}"] if facts.memory_bytes is not None else []
    said += [f"MaxRSS {format_size(facts.max_rss_bytes)}"] if facts.max_rss_bytes is not None else []
    source = f" ({one_line(facts.source)})" if facts.source else ""
    return (f"{parts[0]}: {', '.join(said)}{source}",) if said else ()
