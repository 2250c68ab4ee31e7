"""Kept sessions that are made up, and the golden texts over them. Run as a script to write those texts anew."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

from pytest_lecturecheck.budget.limits import PlatformBudgets
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.readme_paragraph import render_readme
from pytest_lecturecheck.report.replication_sections import PlatformResult
from pytest_lecturecheck.report.terminal.lecture_history import render_history
from pytest_lecturecheck.report.terminal.session_diff_table import render_comparison
from pytest_lecturecheck.report.terminal.summary import render_summary
from pytest_lecturecheck.verdict import VerdictKind
from pytest_lecturecheck.verdict.kept_session import KeptRun, KeptSession
from pytest_lecturecheck.verdict.session_diff import side_of_budgets, side_of_session
from support.made_entries import (
    GIB,
    MACHINE,
    MIB,
    budget_of,
    cell,
    died,
    failed,
    over,
    quiet_ones,
    run_of,
    verdict,
    within,
)
from support.made_html import with_timeline

GOLDEN = Path(__file__).parents[1] / "report" / "golden"
START = dt.datetime(2026, 1, 5, 6, tzinfo=dt.UTC)
THEN = Software(python="3.12.1", packages={"numpy": "2.1.0", "jax": "0.5.0"}, blas=("openblas 0.3.27, 4 threads",))
NOW = Software(python="3.12.1", packages={"numpy": "2.2.0", "jax": "0.5.0"}, blas=("openblas 0.3.28, 4 threads",))
LARGER = replace(MACHINE, core_count=8, ram_bytes=32 * GIB, memory_limit_bytes=None, transparent_hugepages="always")


def kept(lecture, peak, wall=4.0, *, method=Method.EXACT, kind=VerdictKind.WITHIN, more=None, **rest):
    """A run with one cell; sizes in MiB, further values by metric."""
    run = run_of(lecture, [cell(1, 12, peak, 10, wall)], **{"software": THEN, **rest})
    if run.outcome is Outcome.COMPLETED:
        peak_reading = replace(run.readings[Metric.PEAK_FOOTPRINT], method=method)
        extra = {key: Measurement(metric=key, value=value, method=Method.AGENT) for key, value in (more or {}).items()}
        run = replace(run, readings={**run.readings, Metric.PEAK_FOOTPRINT: peak_reading, **extra})
    return KeptRun(run=run, verdict=verdict(kind, kind.value), seconds=wall + 1)


def session_of(*runs, name="20260105T060000Z-aaaaaa", days=0.0, platform="linux-x86_64-cpu"):
    return KeptSession(name=name, platform=platform, runs=runs, ended=START + dt.timedelta(days=days), mode="check")


def before():
    return session_of(
        kept("lectures/growth.md", 748, 4.25),
        kept("lectures/rates.md", 51, 0.01),
        kept("lectures/gpu.md", 900, 60.0, more={Metric.GPU_LIVE: 2 * GIB, Metric.COMPILE: 6.0}),
        kept("lectures/steady.md", 300, 9.0),
        kept("lectures/forks.md", 400, 5.0),
        kept("lectures/loop.md", 200, 5.0),
        kept("lectures/old.md", 60),
    )


def after(machine=MACHINE):
    rest = {"software": NOW, "machine": machine}
    return session_of(
        kept("lectures/growth.md", 977, 8.13, kind=VerdictKind.OVER, **rest),
        kept("lectures/rates.md", 52, 0.03, **rest),
        kept("lectures/gpu.md", 910, 66.0, more={Metric.GPU_LIVE: GIB, Metric.COMPILE: 12.5}, **rest),
        kept("lectures/steady.md", 301, 9.1, **rest),
        kept("lectures/forks.md", 800, 5.1, method=Method.SAMPLED, **rest),
        kept("lectures/loop.md", 70, 5.0, kind=VerdictKind.TIMED_OUT, outcome=Outcome.TIMED_OUT, **rest),
        kept("lectures/new.md", 70, **rest),
        name="20260112T060000Z-bbbbbb",
        days=7,
    )


def budgets():
    lectures = [budget_of("lectures/growth.md", 823, (740, 748)), budget_of("lectures/steady.md", 420, (299, 300))]
    return PlatformBudgets(platform="linux-x86_64-cpu", lectures={(item.lecture, ""): item for item in lectures})


def drifting(weeks=12):
    """A lecture whose peak climbs by 4 % a month, with a small noise; times only wander."""
    sessions = []
    for week in range(weeks):
        noise = (0.2, -0.3, 0.1)[week % 3]
        peak = round(1024 * (800 * 1.04 ** (7 * week / 30) + noise)) / 1024
        rest = {"software": THEN if week < 8 else NOW}
        run = kept("lectures/nuts.md", peak, 20 + (3, -2, 5, 0)[week % 4], **rest)
        sessions.append(session_of(run, days=7 * week))
    bad = kept("lectures/nuts.md", 90, kind=VerdictKind.DIED, outcome=Outcome.DIED)
    other = kept("lectures/nuts.md", 300, 5.0, machine=LARGER)
    return [sessions[0], session_of(bad, days=1), session_of(other, days=2, platform="other"), *sessions[1:]]


def package():
    """What an author has measured: two notebooks that ran, one of them on child processes, with what they need."""
    findings = (
        Finding(kind=FindingKind.MISSING_PROGRAM, message="'!dot' is not installed", cell_number=1, line=12),
        Finding(kind=FindingKind.MEASURE, message="a warning that is no requirement"),
    )
    written = {Metric.DISK_WRITTEN: 30 * MIB}
    first = kept("01_prepare.ipynb", 101.5, 12.0, more=written, findings=findings)
    second = kept("02_solve.ipynb", 1126.4, 700.0, method=Method.SAMPLED)
    shorter = kept("01_prepare.ipynb", 122.5, 2.0, more=written, findings=findings, repeat=2)
    return [Entry(run=item.run, verdict=item.verdict, seconds=item.seconds) for item in (first, shorter, second)]


def comparison(second=None, width=100, most=1.2):
    sides = side_of_session(before(), "last~1"), side_of_session(second or after(), "last")
    return "\n".join(render_comparison(*sides, width=width, most=most))


def with_budgets():
    sides = side_of_budgets(budgets(), "budgets"), side_of_session(after(), "last")
    return "\n".join(render_comparison(*sides, width=100))


def verbose(verbosity, encoding="utf-8"):
    entries = [with_timeline(within(), 60), with_timeline(failed(), 400, 60), *quiet_ones()[-3:]]
    return "\n".join(render_summary(entries, width=80, colour=False, verbosity=verbosity, encoding=encoding))


SESSION_RENDERINGS = {
    "summary-verbose-80.txt": lambda: verbose(1),
    "summary-cells-80.txt": lambda: verbose(2),
    "summary-ascii-80.txt": lambda: verbose(1, "ascii"),
    "compare-100.txt": comparison,
    "compare-60.txt": lambda: comparison(width=60, most=None),
    "compare-machines-100.txt": lambda: comparison(after(LARGER)),
    "compare-budgets-100.txt": with_budgets,
    "history-100.txt": lambda: "\n".join(render_history(drifting(), "lectures/nuts.md", width=100)),
    "history-short-80.txt": lambda: "\n".join(render_history(drifting(3), "lectures/nuts.md", width=80)),
    "readme.md": lambda: render_readme(package(), platform="linux-x86_64-cpu", ended=START, version="1.0").rstrip("\n"),
    "readme-platforms.md": lambda: render_readme(
        package(),
        platform="linux-x86_64-cpu",
        ended=START,
        platforms=[
            PlatformResult(platform="linux-x86_64-cpu", entries=package(), ended=START),
            PlatformResult(platform="darwin-arm64-cpu", entries=[died(), *package()[:1]]),
        ],
    ).rstrip("\n"),
    "readme-bad.md": lambda: render_readme(
        [within(), over(), failed(), died(), *quiet_ones()], platform="linux-x86_64-cpu", ended=None
    ).rstrip("\n"),
}


if __name__ == "__main__":
    for golden_name, render in SESSION_RENDERINGS.items():
        (GOLDEN / golden_name).write_text(render() + "\n", encoding="utf-8")
