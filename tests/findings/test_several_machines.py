"""Findings over sessions of several machines: labels, orders of axes and prices that do not agree."""

from support.made_entries import MACHINE
from support.made_matrix import CPU, GPU, GPU_MACHINE, SIZES, kept_in, rounds
from support.made_sessions import replace, session_of

from pytest_lecturecheck.findings.answering import Assumptions, answer_questions
from pytest_lecturecheck.findings.cost_questions import lecture_costs
from pytest_lecturecheck.findings.measured import measure
from pytest_lecturecheck.findings.placement import Placement, SourceFacts, place
from pytest_lecturecheck.model.fleet import MachineType
from pytest_lecturecheck.model.profile import Bound, DeviceProfile, ProfileSummary


def session(platform, seconds, *, machine=MACHINE, sizes=SIZES, prefix="", count=6):
    runs = [
        run
        for size in sizes
        for run in rounds(f"{prefix}size={size}", seconds(size), platform=platform, machine=machine, count=count)
    ]
    return session_of(*runs, name=platform, platform=platform)


def slow(size):
    return size * 1e-6


def fast(size):
    return 0.02 + size * 1e-7


def answers(*sessions, machines=()):
    return {item.title[:2]: item for item in answer_questions(sessions, Assumptions(machines=machines)).questions}


def test_a_label_without_cpu_in_it_is_no_gpu():
    own = session("c6i.large", slow)
    assert {key.device for key in measure([own]).groups} == {"cpu"}
    assert answers(own)["2."].answer == "not answered: no GPU runs"


def test_a_variant_under_the_axis_device_is_a_device_of_its_machine():
    own = session(GPU, fast, machine=GPU_MACHINE, prefix="device=t4,")
    assert {key.device for key in measure([own]).groups} == {"gpu"}


def test_each_pair_of_machines_has_a_break_even_of_its_own():
    sessions = [
        session("one-cpu", slow),
        session("two-cpu", lambda size: 2 * slow(size)),
        session(GPU, fast, machine=GPU_MACHINE),
        session("faster", lambda size: fast(size) / 2, machine=GPU_MACHINE),
    ]
    rows = answers(*sessions)["2."].tables[0].rows
    assert [row[1] for row in rows] == [
        f"as it is ({cpu} to {gpu})" for cpu in ("one-cpu", "two-cpu") for gpu in (GPU, "faster")
    ]
    picture = answers(*sessions)["2."].pictures[0]
    assert [len(series.points) for series in picture.series] == [len(SIZES)] * 4


def test_axes_in_another_order_are_the_same_variant():
    first = session(CPU, slow, prefix="sampler=vectorized,precision=f32,")
    second = session_of(
        *[
            run
            for size in SIZES
            for run in rounds(f"size={size},precision=f64,sampler=vectorized", 2 * slow(size), platform=CPU)
        ],
        platform=CPU,
    )
    pairs = list(measure([first, second]).pairs("precision", "f32", "f64"))
    assert len(pairs) == len(SIZES)


def test_runs_with_device_cpu_are_those_of_a_machine_without_gpu():
    kind = MachineType(name="small", price=1.0, core_count=2, memory_bytes=10**10, platform=CPU)
    found = answers(session(CPU, slow, prefix="device=cpu,"), machines=(kind,))["6."]
    assert found.answer.startswith("small is the cheapest single type: ")


def test_a_machine_that_does_not_hold_a_lecture_is_not_the_cheapest():
    kinds = (
        MachineType(name="tiny", price=0.01, core_count=2, memory_bytes=100 * 2**20, platform="tiny-cpu"),
        MachineType(name="large", price=1.0, core_count=2, memory_bytes=10**10, platform="large-cpu"),
    )
    sessions = [session("tiny-cpu", slow), session("large-cpu", slow)]
    found = answers(*sessions, machines=kinds)["6."]
    # All lectures need 300 MiB.
    assert found.answer == (
        "large is the cheapest single type: 0.000309 for the 4 lectures measured on all; a split fleet saves nothing."
    )
    alone = answers(*sessions, machines=(kinds[0],))["6."]
    assert alone.answer == "no type of machine with a price holds all lectures that were measured on all of them."


def test_more_runs_on_one_device_do_not_favour_it():
    seconds = [9.0, *[1.0] * 5, *[2.0] * 6]
    cpu = session_of(*[kept_in("size=10", value, repeat=n) for n, value in enumerate(seconds, start=1)], platform=CPU)
    gpu = session_of(*rounds("size=10", 1.0, platform=GPU), platform=GPU)
    found = place("work.md", SourceFacts(packages=("jax",)), measure([cpu, gpu]), ())
    # The five fastest of eleven runs are as fast as the GPU; all of them conclude nothing.
    assert (found.placement, found.is_measured) == (Placement.UNDECIDED, False)


def test_the_busy_time_is_that_of_one_run():
    device = DeviceProfile(
        device="GPU 0", kernel_seconds=1.5, gap_seconds=3.0, launch_count=7, op_count=9, bound=next(iter(Bound))
    )
    traced = []
    for kept in rounds("size=1", 4.0, platform=GPU, count=3):
        (cell,) = kept.run.cells
        cell = replace(cell, profile=ProfileSummary(devices=(device,), cell_seconds=4.0))
        traced.append(replace(kept, run=replace(kept.run, cells=(cell,))))
    ((_, costs),) = lecture_costs(measure([session_of(*traced, platform=GPU)])).items()
    assert [cost.busy_seconds for cost in costs.values()] == [1.5]
