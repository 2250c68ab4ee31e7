"""Complete the record of a run with what only the session knows. Pure but for the lease, which is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_lecturecheck.lease.broker import HeldLease
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.run import Run


def complete_run(run: Run, held: HeldLease, rootdir: Path) -> Run:
    """
    Return the run with the lectures that ran beside it, what its lease has to say, and no path of this machine.

    Args:
        run: the record; of a cohort with its members.
        held: the lease that is still held.
        rootdir: pytest's rootdir.
    """
    concurrent = held.concurrent_lectures
    members = tuple(
        _without_folders(replace(member, concurrent_lectures=concurrent), rootdir) for member in run.members
    )
    run = _without_folders(replace(run, concurrent_lectures=concurrent, members=members), rootdir)
    if held.warning:
        finding = Finding(kind=FindingKind.LEASE, message=held.warning)
        run = replace(run, findings=(*run.findings, finding))
    return run


def _without_folders(run: Run, rootdir: Path) -> Run:
    """Replace rootdir by a dot in the variables of the kernel: records are handed on to others."""
    shown = {name: text.replace(str(rootdir), ".") for name, text in run.conditions.environment.items()}
    evidence = run.evidence
    if evidence is not None:
        evidence = replace(evidence, conditions=replace(evidence.conditions, environment=shown))
    return replace(run, conditions=replace(run.conditions, environment=shown), evidence=evidence)
