"""Entries of cohorts."""

from __future__ import annotations

from dataclasses import replace

from pytest_lecturecheck.model.cohort import CohortSpec, PeakOfSum
from pytest_lecturecheck.model.cohort_record import join_runs
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.verdict import VerdictKind
from support.made_entries import MIB, cell, run_of, verdict
from support.made_records import made_evidence


def kernel(lecture="a.md", outcome=Outcome.COMPLETED, start=0.0, peak=500, **more):
    return run_of(lecture, [cell(1, 10, peak, 400, 8.0)], outcome=outcome, first_cell_seconds=start, **more)


def aborted(lecture="a.md"):
    return kernel(lecture, Outcome.DIED, evidence=made_evidence(signal=6, cell_number=1))


def entry_of(run, kind=VerdictKind.WITHIN):
    return Entry(run=run, verdict=verdict(kind, "as it is"), seconds=9.0)


def cohort(*kernels, name=None, wall=9.5, together=800, repeat=1):
    spec = CohortSpec(name=name or f"c={len(kernels)}", lectures=tuple(item.lecture for item in kernels))
    run = join_runs(
        spec,
        kernels,
        wall_seconds=wall,
        together=PeakOfSum(total_bytes=together * MIB, seconds=1.0, parts_bytes=()),
        interval_seconds=0.02,
        device_starts_seconds=[0.0] * len(kernels),
    )
    return entry_of(replace(run, repeat=repeat))
