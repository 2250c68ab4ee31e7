"""Made-up entries of every verdict, and the golden texts that show them. Run as a script to write those texts anew."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

from pytest_lecturecheck.budget.limits import HeavyCell, LectureBudget, MetricBudget
from pytest_lecturecheck.diagnosis import Cause, CauseKind
from pytest_lecturecheck.model.cell_run import CellError, CellRun, CellStatus
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.markdown_report import render_markdown
from pytest_lecturecheck.report.terminal.failure import render_failure
from pytest_lecturecheck.report.terminal.summary import render_summary
from pytest_lecturecheck.verdict import Comparison, Verdict, VerdictKind
from support.made_records import made_evidence, made_run

GOLDEN = Path(__file__).parents[1] / "report" / "golden"
MIB = 1024**2
GIB = 1024**3
MACHINE = Machine(
    system="Linux 6.18",
    architecture="x86_64",
    cpu="Example CPU 7763",
    core_count=4,
    ram_bytes=16 * GIB,
    swap_bytes=0,
    memory_limit_bytes=7 * GIB,
    memory_limit_source="container (cgroup v2 memory.max)",
    transparent_hugepages="madvise",
)
PACKAGES = "File /opt/env/lib/python3.12/site-packages/scipy"
TRACEBACK = (
    "---------------------------------------------------------------------------",
    "ZeroDivisionError                         Traceback (most recent call last)",
    "Cell In[3], line 3\n      1 import scipy.optimize as so\n      2 f = cost\n----> 3 so.minimize(f, [1.0])\n",
    f"{PACKAGES}/optimize/_minimize.py:779, in minimize(fun, x0)\n    777 r = 1\n--> 779 r = b(fun)\n    780 elif m:\n",
    f"{PACKAGES}/optimize/_optimize.py:16, in b(fun)\n-> 1416 sf = p(fun,\n   1417        x0)\n\n   1420 f = sf.fun\n",
    f"{PACKAGES}/optimize/_optimize.py:310, in _prepare(fun)\n--> 310 sf = S(fun)\n",
    f"{PACKAGES}/optimize/_functions.py:362, in S.update(self)\n--> 362 fx = self.w()\n",
    f"{PACKAGES}/_lib/_util.py:603, in W.__call__(self, x)\n--> 603 fx = self.f(x)\n",
    "File ~/book/lectures/tools.py:7, in cost(x)\n      6 def cost(x):\n----> 7     return inner(x)\n",
    "Cell In[2], line 2, in inner(x)\n      1 def inner(x):\n----> 2     return 1 / 0\n",
    "ZeroDivisionError: division by zero",
)
SOURCE = "import scipy.optimize as so\nf = cost\nso.minimize(f, [1.0])\nso.show()\n"


def cell(number, line, peak=None, raised=0, wall=0.1, status=CellStatus.OK, **rest):
    """One code cell; sizes in MiB."""
    readings = {}
    if peak is not None:
        readings = {
            Metric.PEAK_FOOTPRINT: Measurement(
                metric=Metric.PEAK_FOOTPRINT,
                value=peak * MIB,
                method=Method.EXACT,
                source="VmHWM",
                tolerance=256 * 1024,
            ),
            Metric.WALL: Measurement(metric=Metric.WALL, value=wall, method=Method.EXACT, source="monotonic clock"),
            Metric.CPU: Measurement(metric=Metric.CPU, value=wall * 1.5, method=Method.EXACT),
        }
    start = None if peak is None else round((peak - raised) * MIB)
    return CellRun(
        number=number,
        index=number * 2,
        line=line,
        status=status,
        readings=readings,
        start_footprint_bytes=start,
        **rest,
    )


def run_of(lecture, cells, outcome=Outcome.COMPLETED, **rest):
    """A run whose measurements follow from its cells."""
    measured = [item for item in cells if item.readings]
    readings = {}
    if measured:
        walls = sum(item.measured(Metric.WALL).value for item in measured)
        peaks = (item.measured(Metric.PEAK_FOOTPRINT) for item in measured)
        readings[Metric.PEAK_FOOTPRINT] = max(peaks, key=lambda item: item.value)
        readings[Metric.WALL] = replace(measured[0].measured(Metric.WALL), value=walls)
    values = {"platform": "linux-x86_64-cpu", "readings": readings, "machine": MACHINE, **rest}
    return made_run(lecture=lecture, outcome=outcome, cells=tuple(cells), **values)


def budget_of(lecture, limit, seen, wall=30.0, heaviest=()):
    """A recorded budget; sizes in MiB."""
    memory = MetricBudget(
        metric=Metric.PEAK_FOOTPRINT, limit=limit * MIB, seen=tuple(item * MIB for item in seen), method=Method.SAMPLED
    )
    time = MetricBudget(metric=Metric.WALL, limit=wall, seen=(9.1, 9.4, 10.2), method=Method.EXACT)
    return LectureBudget(
        lecture=lecture,
        metrics={Metric.PEAK_FOOTPRINT: memory, Metric.WALL: time},
        run_count=len(seen),
        recorded=dt.date(2025, 11, 2),
        heaviest=heaviest,
        machine=replace(MACHINE, core_count=2),
        software=Software(python="3.11.9", packages={"jax": "0.4.35", "numpy": "2.1.0"}),
    )


def comparison(run, metric, kind, limit, message=""):
    """One metric of ``run`` against ``limit``."""
    return Comparison(
        metric=metric,
        kind=kind,
        limit=limit,
        measured=run.measured(metric),
        message=message,
        cell=run.heaviest_cell(metric),
    )


def verdict(kind, headline, *, failed=False, **rest):
    return Verdict(kind=kind, failed=failed, headline=headline, **rest)


def within(lecture="lectures/jax_intro.md", **rest):
    cells = [cell(1, 12, 95, 40, 0.84), cell(2, 30, 1188, 1093, 3.2), cell(3, 41, 1240, 52, 6.0)]
    run, budget = run_of(lecture, cells, **rest), budget_of(lecture, 1420, (1238, 1240, 1241))
    items = (comparison(run, Metric.PEAK_FOOTPRINT, VerdictKind.WITHIN, 1420 * MIB),)
    said = verdict(VerdictKind.WITHIN, "peak footprint 1.21 GiB, limit 1.39 GiB", comparisons=items)
    return Entry(run=run, verdict=said, budget=budget, seconds=11.0)


def over():
    lecture = "lectures/programming/kesten_processes_in_depth.md"
    cells = [
        cell(1, 12, 95, 40, 0.84),
        cell(2, 30, 488, 393, 3.2),
        cell(3, 88, 8129, 7641, 6.2),
        cell(4, 112, 8129, 0, 26.0),
    ]
    software = Software(python="3.12.1", packages={"jax": "0.5.0", "numpy": "2.1.0", "scipy": "1.15.0"})
    run = run_of(lecture, cells, software=software)
    then = (
        HeavyCell(number=3, line=86, peak_footprint_bytes=1291 * MIB),
        HeavyCell(number=9, line=140, peak_footprint_bytes=480 * MIB),
    )
    items = (
        comparison(run, Metric.PEAK_FOOTPRINT, VerdictKind.OVER, 1420 * MIB),
        comparison(run, Metric.WALL, VerdictKind.OVER, 30.0),
    )
    headline = "peak footprint 7.94 GiB, limit 1.39 GiB: 6.55 GiB over (+472 %), in code cell 3, line 88"
    return Entry(
        run=run,
        verdict=verdict(
            VerdictKind.OVER,
            headline,
            failed=True,
            comparisons=items,
            source_extract="a = 1\nb = np.random.standard_normal((500, 500_000))",
            source_line_count=2,
        ),
        budget=budget_of(lecture, 1420, (1238, 1240, 1291), heaviest=then),
        seconds=37.0,
    )


def over_by_time():
    """A lecture whose memory is within its limit, and whose time is over the one that was set by hand."""
    entry = within("lectures/slow.md")
    items = (*entry.verdict.comparisons, comparison(entry.run, Metric.WALL, VerdictKind.OVER, 10.0))
    by_hand = replace(entry.budget.metrics[Metric.WALL], limit=10.0, hand_set=True)
    return replace(
        entry,
        verdict=verdict(VerdictKind.OVER, "wall time 10.04 s, limit 10 s", failed=True, comparisons=items),
        budget=replace(entry.budget, metrics={**entry.budget.metrics, Metric.WALL: by_hand}),
    )


def failed(lecture="lectures/bang.md", source=SOURCE, traceback=TRACEBACK):
    error = CellError(name="ZeroDivisionError", value="division by zero", traceback=traceback, line_in_cell=3)
    cells = [
        cell(1, 12, 95, 40, 0.84),
        cell(2, 20, 99, 4, 8.2),
        cell(3, 41, 120, 21, 0.2, CellStatus.FAILED, error=error, output_extract="reading data\nwarning: no network\n"),
        *(cell(number, 50 + number, status=CellStatus.NOT_RUN) for number in range(4, 13)),
    ]
    findings = (
        Finding(
            kind=FindingKind.SHELL,
            message="shell line '!pip install example' ended with code 1",
            cell_number=1,
            line=12,
            fails_when_strict=True,
        ),
        Finding(kind=FindingKind.MEASURE, message="a warning that explains nothing", cell_number=2, line=20),
        Finding(kind=FindingKind.SHELL, message="a shell line after the failure", cell_number=5, line=55),
    )
    cause = Cause(
        kind=CauseKind.CELL_ERROR,
        headline="ZeroDivisionError: division by zero, in code cell 3, line 43",
        evidence=("the cell raised after 0.2 s, at a peak of 120 MiB while 12.3 GiB were free on the machine",),
        advice=("Guard the division, or tag the cell raises-exception where the error is meant to be shown.",),
    )
    evidence = Evidence(cell_number=3, line=43, source=source, error=error)
    run = run_of(lecture, cells, Outcome.FAILED, evidence=evidence, findings=findings)
    return Entry(run=run, verdict=verdict(VerdictKind.FAILED, cause.headline, failed=True, cause=cause), seconds=12.2)


def timed_out():
    source = "while True:\n    try:\n        pass\n    except BaseException:\n        pass\n"
    cells = [cell(1, 5, 60, 8, 0.1), cell(2, 9, 60, 0, 2.5, CellStatus.TIMED_OUT)]
    evidence = made_evidence(cell_number=2, line=9, source=source, timeout_seconds=2.0, timeout_kind="cell")
    cause = Cause(
        kind=CauseKind.TIMED_OUT_COMPUTING,
        headline="code cell 2, line 9, timed out after 2 s",
        evidence=("limit 2 s for one cell", "the kernel did not stop when interrupted and was killed"),
    )
    run = run_of("lectures/loop.ipynb", cells, Outcome.TIMED_OUT, evidence=evidence)
    return Entry(run=run, verdict=verdict(VerdictKind.TIMED_OUT, cause.headline, failed=True, cause=cause), seconds=5.0)


def died():
    cells = [cell(1, None, 60, 8, 0.1), cell(2, None, 900, 840, 2.5, CellStatus.DIED)]
    evidence = made_evidence(cell_number=2, source="import jax\nx = jax.numpy.ones(10**9)", signal=6)
    cause = Cause(
        kind=CauseKind.NATIVE_CRASH,
        headline="kernel aborted (SIGABRT) in code cell 2",
        evidence=("signal 6", "stderr of the kernel:\nfailed to allocate 2.50GiB\nterminate called"),
        advice=("Set XLA_PYTHON_CLIENT_PREALLOCATE=false, or run GPU lectures one at a time.",),
    )
    run = run_of("lectures/gpu/abort.ipynb", cells, Outcome.DIED, variant="gpu-f32", evidence=evidence)
    return Entry(run=run, verdict=verdict(VerdictKind.DIED, cause.headline, failed=True, cause=cause), seconds=5.0)


def not_started():
    reason = "kernel 'conda-env-x-py' is not installed; installed: python3"
    run = run_of("lectures/dead.md", [cell(1, 7, status=CellStatus.NOT_RUN)], Outcome.NOT_STARTED, reason=reason)
    return Entry(run=run, verdict=verdict(VerdictKind.NOT_STARTED, reason, failed=True), seconds=0.1)


def without_budget(lecture):
    finding = Finding(kind=FindingKind.NO_KERNELSPEC, message="no kernelspec is named; python3 was used")
    headline = "no budget for linux-x86_64-cpu (recorded: darwin-arm64-cpu: 954 MiB)"
    run = run_of(lecture, [cell(1, 5, 60, 8)], findings=(finding,))
    return Entry(run=run, verdict=verdict(VerdictKind.NO_BUDGET, headline), seconds=1.0)


def quiet_ones():
    """Entries that ended well, or not at all, with what they say."""
    note = "time not compared: its limit was recorded on another class of machine (Example CPU M3, 8 cores)"
    base = within("lectures/time_a.md")
    times = [
        replace(
            base,
            run=replace(base.run, lecture=f"lectures/time_{letter}.md"),
            verdict=replace(base.verdict, notes=(note,)),
        )
        for letter in "abcdef"
    ]
    skipped = run_of("lectures/skip.md", [], Outcome.SKIPPED, reason="execute.skip in its front matter")
    empty = run_of("lectures/text.md", [], Outcome.NOTHING_TO_RUN, reason="no code cells")
    unread = run_of(
        "lectures/unread.md",
        [cell(1, 3)],
        readings={Metric.PEAK_FOOTPRINT: Unavailable(metric=Metric.PEAK_FOOTPRINT, reason="/proc is not readable")},
    )
    improved = run_of("lectures/tiny.md", [cell(1, 5, 60, 8)])
    text = "peak footprint 60 MiB is far under its limit 2.93 GiB (50 times too large): record it again"
    return [
        *times,
        Entry(run=skipped, verdict=verdict(VerdictKind.SKIPPED, skipped.reason)),
        Entry(run=empty, verdict=verdict(VerdictKind.NOTHING_TO_RUN, empty.reason)),
        Entry(
            run=unread,
            budget=budget_of("lectures/unread.md", 100, (80,)),
            verdict=verdict(
                VerdictKind.NOT_MEASURED, "peak footprint not measured (/proc is not readable); limit 100 MiB"
            ),
            seconds=0.4,
        ),
        Entry(
            run=improved,
            budget=budget_of("lectures/tiny.md", 3000, (2900,)),
            verdict=verdict(VerdictKind.IMPROVED, text),
            seconds=1.0,
        ),
    ]


def session():
    """A session with every verdict of a check."""
    return [
        within(),
        over(),
        failed(),
        timed_out(),
        died(),
        not_started(),
        without_budget("lectures/new_a.md"),
        without_budget("lectures/new_b.md"),
        *quiet_ones(),
    ]


def replication():
    """Two parts of a package whose README declares 256 MB and 2 minutes."""
    entries = []
    for lecture, peak, kind in (
        ("01_prepare.ipynb", 52, VerdictKind.FITS),
        ("02_solve.ipynb", 571, VerdictKind.NOT_FITTING),
    ):
        run = run_of(lecture, [cell(1, None, peak, peak - 50, 1.2), cell(2, None, peak)])
        items = (
            comparison(run, Metric.PEAK_FOOTPRINT, kind, 256_000_000),
            comparison(run, Metric.WALL, VerdictKind.FITS, 120.0),
        )
        headline = "needs 571 MiB (peak footprint, exact, code cell 1), declared 244 MiB"
        bad = kind is VerdictKind.NOT_FITTING
        said = verdict(kind, headline if bad else "52 MiB fits", failed=bad, comparisons=items)
        entries.append(Entry(run=run, verdict=said, seconds=2.0))
    return entries


RENDERINGS = {
    "over-80": lambda: render_failure(over(), width=80),
    "failed-60": lambda: render_failure(failed(), width=60),
    "failed-80": lambda: render_failure(failed(), width=80),
    "failed-200": lambda: render_failure(failed(), width=200),
    "failed-80-verbose": lambda: render_failure(failed(), width=80, verbosity=1),
    "timed-out-80": lambda: render_failure(timed_out(), width=80),
    "died-80": lambda: render_failure(died(), width=80),
    "not-started-80": lambda: render_failure(not_started(), width=80),
    "not-fitting-80": lambda: render_failure(replication()[1], width=80),
    "summary-60": lambda: "\n".join(render_summary(session(), width=60, colour=False)),
    "summary-80": lambda: "\n".join(render_summary(session(), width=80, colour=False)),
    "summary-200": lambda: "\n".join(render_summary(session(), width=200, colour=False)),
    "replication-80": lambda: "\n".join(render_summary(replication(), width=80, colour=False)),
    "session.md": lambda: render_markdown(session(), platform="linux-x86_64-cpu", machine=MACHINE),
}


def golden_path(name):
    return GOLDEN / (name if "." in name else f"{name}.txt")


if __name__ == "__main__":
    for golden_name, render in RENDERINGS.items():
        golden_path(golden_name).write_text(render() + "\n", encoding="utf-8")
