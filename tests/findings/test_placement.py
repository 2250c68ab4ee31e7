"""Where a lecture belongs: measured runs decide, else the source."""

import pytest
from support.made_matrix import CPU, GPU, cpu_session, rounds
from support.made_sessions import kept, replace, session_of

from pytest_lecturecheck.findings.measured import measure
from pytest_lecturecheck.findings.placement import Placement, SourceFacts, place
from pytest_lecturecheck.model.fleet import BUILT_IN_TARGETS, ReaderTarget
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.model.settings import GpuNeed

NOTHING = measure([])


def placed(facts, measured=NOTHING, name="work.md", targets=BUILT_IN_TARGETS):
    return place(name, facts, measured, targets)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (SourceFacts(), Placement.CPU),
        (SourceFacts(packages=("jax",)), Placement.UNDECIDED),
        (SourceFacts(packages=("jax", "numpyro"), has_x64=True), Placement.CPU),
        (SourceFacts(packages=("jax",), largest_number=10**7), Placement.GPU),
        (SourceFacts(packages=("jax",), hints_at_gpu=True, prints_device=True), Placement.NARRATIVE),
        (SourceFacts(packages=("jax",), gpu=GpuNeed.CPU), Placement.CPU),
        (SourceFacts(gpu=GpuNeed.REQUIRED), Placement.GPU),
    ],
)
def test_the_source_decides_where_nothing_was_measured(facts, expected):
    found = placed(facts)
    assert (found.placement, found.is_measured) == (expected, False)


@pytest.mark.parametrize(("seconds", "expected"), [(1.0, Placement.GPU), (1.9, Placement.CPU), (5.0, Placement.CPU)])
def test_runs_on_both_devices_decide(seconds, expected):
    cpu = session_of(*rounds("size=10", 2.0), platform=CPU)
    gpu = session_of(*rounds("size=10", seconds, platform=GPU), platform=GPU)
    found = placed(SourceFacts(packages=("jax",)), measure([cpu, gpu]))
    assert (found.placement, found.is_measured) == (expected, True)


def test_a_failure_beside_others_makes_a_lecture_unsafe():
    found = placed(SourceFacts(), measure([cpu_session()]), name="alone.md")
    assert (found.placement, found.why) == (Placement.UNSAFE, "kernels failed with 3 at once; safe: 2")
    assert found.front_matter == "exclusive: true"


def test_readers_are_compared_with_the_measured_peak():
    small = ReaderTarget(name="small", memory_bytes=100 * 2**20)
    measured = measure([session_of(*rounds("size=10", 2.0), platform=CPU)])
    found = placed(SourceFacts(), measured, targets=(small, *BUILT_IN_TARGETS))
    assert found.targets == {"small": False} | {target.name: True for target in BUILT_IN_TARGETS}


def test_a_run_killed_above_the_memory_of_a_reader_answers_no():
    ended = kept("work.md", 150, 1.0, platform=CPU)
    ended = replace(ended, run=replace(ended.run, outcome=Outcome.DIED))
    targets = (ReaderTarget(name="small", memory_bytes=100 * 2**20), ReaderTarget(name="large", memory_bytes=2**30))
    found = placed(SourceFacts(), measure([session_of(ended, platform=CPU)]), targets=targets)
    assert (found.peak_bytes, found.reached_bytes) == (None, 150 * 2**20)
    assert found.targets == {"small": False, "large": None}
    # A variant that ran to its end with less says nothing about this one.
    for peak, answer in ((120, None), (200, True)):
        done = kept("work.md", peak, 1.0, platform=CPU, variant="size=1")
        found = placed(SourceFacts(), measure([session_of(ended, done, platform=CPU)]), targets=targets)
        assert found.targets == {"small": False, "large": answer}


def test_a_lecture_that_requires_a_gpu_needs_a_reader_with_one():
    found = placed(SourceFacts(gpu=GpuNeed.REQUIRED))
    assert found.targets == {"binder": False, "colab-free": None, "codespaces": False, "laptop-16": False}
