"""A Mac whose resident size tells too little: recorded readings, their verdict, their cap."""

import asyncio
import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from support.fakes import FakeSource, StillSampler

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget
from pytest_lecturecheck.kernel.process.cap import Cap, watch
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.metric import Method, Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.probe.memory._darwin import DarwinSource
from pytest_lecturecheck.probe.memory._sampled import SampledProbe
from pytest_lecturecheck.probe.memory._source import ProcessReading
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.terminal.exceeded import beside_footprint
from pytest_lecturecheck.report.terminal.failure import render_failure
from pytest_lecturecheck.units import GIB, parse_size
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge

CASE = Path(__file__).parents[2] / "cases" / "D13-macos-compressed"
KERNEL = 100
RECORDED = json.loads((CASE / "readings.json").read_text("utf-8"))
DECLARED = parse_size(tomllib.loads((CASE / "declared.toml").read_text("utf-8"))["declared_memory"])
BUDGET = LectureBudget(
    lecture="a.md",
    metrics={Metric.PEAK_FOOTPRINT: MetricBudget(metric=Metric.PEAK_FOOTPRINT, limit=60_000_000_000, hand_set=True)},
)


class Mac:
    """The recorded Mac, at one moment after the other."""

    def __init__(self):
        self.now = 0.0
        self.source = FakeSource()
        self.source.texts = DarwinSource("not asked").texts
        self.samples = RECORDED["samples"]
        self.show(self.samples[0])
        self.probe = SampledProbe(
            KERNEL, interval_seconds=30, source=self.source, sampler=StillSampler(), clock=lambda: self.now
        )

    def show(self, sample):
        self.now = float(sample["t"])
        self.source.swap_bytes = sample["swap_used"]
        self.source.processes[KERNEL] = ProcessReading(
            started=1, resident_bytes=sample["rss"], footprint_bytes=sample["phys_footprint"]
        )


@pytest.fixture
def mac():
    return Mac()


@pytest.fixture
def run(mac):
    mac.probe.begin_cell()
    for sample in mac.samples:
        mac.show(sample)
        mac.probe.sample(30)
    cell = mac.probe.end_cell()
    return Run(
        lecture="a.md",
        platform="darwin-arm64-cpu",
        outcome=Outcome.COMPLETED,
        cells=(CellRun(number=1, index=1, line=7, status=CellStatus.OK, readings=cell.readings),),
        readings=mac.probe.close(),
        machine=Machine(
            system="macOS 15", architecture="arm64", cpu="Apple M1", core_count=10, ram_bytes=RECORDED["ram_bytes"]
        ),
        timeline=mac.probe.timeline(0.0),
    )


def test_both_sizes_are_shown_with_their_times(run):
    footprint, resident = run.measured(Metric.PEAK_FOOTPRINT), run.measured(Metric.PEAK_RSS)
    assert (footprint.value, footprint.method, footprint.high) == (96_500_000_000, Method.SAMPLED, None)
    assert (resident.value, resident.method) == (48_500_000_000, Method.SAMPLED)
    moments = {sample.seconds: sample for sample in run.timeline}
    assert moments[60.0].footprint_bytes == 96_500_000_000
    assert moments[90.0].rss_bytes == 48_500_000_000
    assert moments[60.0].compressed_bytes == 81_300_000_000


def test_swap_of_the_machine_is_context(run):
    assert run.reading(Metric.PEAK_SWAP).text == (
        "not measured (macOS does not report it for a process; the footprint includes it; the whole machine had up to "
        "12 GiB in swap)"
    )
    assert run.measured(Metric.PEAK_COMPRESSED).value == 81_300_000_000


def test_the_last_sample_may_be_larger_than_its_charge(run):
    last = run.timeline[-1]
    assert (last.seconds, last.footprint_bytes, last.rss_bytes) == (120.0, 700_000_000, 900_000_000)
    assert last.compressed_bytes is None


def test_the_verdict_uses_the_footprint(run):
    verdict = judge(run, BUDGET, Policy(declared_memory_bytes=DECLARED))
    assert (verdict.kind, verdict.failed) == (VerdictKind.NOT_FITTING, True)
    needs, over = verdict.headline.split("; peak footprint ")
    assert needs == (
        "needs at least 89.9 GiB (peak footprint, sampled, a lower bound, in code cell 1, line 7), declared 22.4 GiB "
        "(24 GB); peak RSS of the kernel at least 45.2 GiB"
    )
    assert over.startswith("at least 89.9 GiB, limit 55.9 GiB")


def test_a_failure_shows_both_sizes_with_times_and_swap(run):
    verdict = judge(run, BUDGET, Policy())
    assert verdict.kind is VerdictKind.OVER
    rows = render_failure(Entry(run=run, verdict=verdict, budget=BUDGET), width=200).split("\n")
    start = rows.index("Other memory measurements")
    assert rows[start + 1 : start + 8] == [
        "  peak RSS of the kernel: >= 45.2 GiB",
        "  highest samples: footprint 89.9 GiB after 1 min 00 s, RSS of the kernel 45.2 GiB after 1 min 30 s",
        "  peak compressed memory: >= 75.7 GiB",
        f"  peak swap: {run.reading(Metric.PEAK_SWAP).text}",
        "",
        "Measurement methods",
        "  peak footprint: sampled every 30 s, a lower bound (phys_footprint)",
    ]


def test_two_limits_name_the_method_once(run):
    verdict = judge(run, BUDGET, Policy(declared_memory_bytes=DECLARED))
    text = render_failure(Entry(run=run, verdict=verdict, budget=BUDGET), width=200)
    assert text.count("sampled every 30 s") == 1


def test_equal_sizes_are_shown_once(run):
    same = {**run.readings, Metric.PEAK_RSS: replace(run.readings[Metric.PEAK_FOOTPRINT], metric=Metric.PEAK_RSS)}
    assert list(beside_footprint(replace(run, readings=same))) == []


def test_the_cap_uses_the_footprint(mac):
    killed = []
    mac.show(mac.samples[1])
    mac.probe.sample(30)
    cap = Cap(limit_bytes=60_000_000_000)
    assert mac.samples[1]["rss"] < cap.limit_bytes
    asyncio.run(watch(cap, mac.probe, lambda: 100 * GIB, lambda _reason: killed.append(KERNEL)))
    assert killed == [KERNEL]
