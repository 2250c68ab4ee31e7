"""Two runs of one lecture, cell by cell, and the suspects below equal package versions."""

from dataclasses import replace

import pytest
from support.made_entries import MACHINE, MIB, cell, run_of
from support.made_records import changed

from pytest_lecturecheck.model.cell_run import CellStatus
from pytest_lecturecheck.model.manifest import Fact, Manifest
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.verdict.cell_diff import Divergence, compare_cells
from pytest_lecturecheck.verdict.suspects import Rank, rank_suspects, recorded_on_neither

BLAS = {Fact.NUMPY_BLAS.value: "scipy-openblas 0.3.27"}
REFERENCE = {Fact.NUMPY_BLAS.value: "blas 3.11.0"}
NUMPY = Software(packages={"numpy": "2.1.0"})


def run(*raised, status=CellStatus.OK, **rest):
    cells = [cell(n, 10 * n, 400 + size, size, 1.0) for n, size in enumerate(raised, 1)]
    cells[-1] = replace(cells[-1], status=status)
    return run_of("a.md", cells, software=NUMPY, **rest)


@pytest.mark.parametrize(
    ("after", "number", "divergence"),
    [
        (run(50, 100, 100), None, None),
        (run(50, 110, 200), 3, Divergence.MEMORY),
        (run(50, 300, 900), 2, Divergence.MEMORY),
        (run(50, 100, 100, status=CellStatus.FAILED), 3, Divergence.OUTCOME),
    ],
)
def test_first_cell_whose_need_diverges(after, number, divergence):
    first = compare_cells(run(50, 100, 100), after).first_divergence

    assert (first.number if first else None, first.divergence if first else None) == (number, divergence)


def test_cells_that_did_not_run_are_not_compared():
    after = run(50, 900, status=CellStatus.NOT_RUN)

    assert compare_cells(run(50, 100), after).first_divergence is None


def test_slower_cells_on_another_class_of_machine_do_not_diverge():
    slow = [cell(1, 10, 450, 50, 9.0)]
    other = run_of("a.md", slow, software=NUMPY, machine=replace(MACHINE, core_count=64))

    assert compare_cells(run(50), run_of("a.md", slow)).first_divergence.divergence is Divergence.TIME
    assert compare_cells(run(50), other).first_divergence is None


def suspects(before, after):
    return {item.name: item for item in rank_suspects(before, after, compare_cells(before, after).first_divergence)}


def test_equal_systems_have_no_suspects():
    assert suspects(run(50, manifest=Manifest(facts=BLAS)), run(300, manifest=Manifest(facts=BLAS))) == {}


def test_blas_can_explain_what_its_threads_can_hold():
    before = run(50, manifest=Manifest(facts=BLAS))
    name, cores = Fact.NUMPY_BLAS.value, MACHINE.core_count

    small = suspects(before, run(50 + 64 * cores - 1, manifest=Manifest(facts=REFERENCE)))[name]
    large = suspects(before, run(50 + 64 * cores + 1, manifest=Manifest(facts=REFERENCE)))[name]

    assert (small.rank, large.rank) == (Rank.CAN, Rank.UNLIKELY)
    assert (small.before, small.after) == ("scipy-openblas 0.3.27", "blas 3.11.0")
    assert "buffers of threads take at most about" in large.reason


def test_what_one_side_has_not_recorded_is_a_suspect():
    found = suspects(run(50), run(300, manifest=Manifest(facts=BLAS, distributions={"rich": "1 (pip)"})))

    assert found[Fact.NUMPY_BLAS.value].rank is Rank.NOT_RECORDED
    assert found[Fact.NUMPY_BLAS.value].before == ""
    assert (found["distributions"].before, found["distributions"].after) == ("", "1 recorded")


def test_what_neither_side_has_recorded_is_named():
    both = Manifest(facts={fact.value: "x" for fact in Fact if fact is not Fact.CONTAINER}, libraries={"m": "6"})

    assert recorded_on_neither(run(50), run(50, manifest=both)) == ("container", "distributions")
    assert recorded_on_neither(run(50), run(50)) == ("what lies beneath equal package versions",)


def test_a_machine_that_one_side_has_not_recorded_is_a_row_for_each_fact():
    found = suspects(replace(run(50), machine=None), run(300))

    names = ("architecture", "operating system", "processor", "cores", "memory that can be used", "GPUs")
    assert [(found[name].before, found[name].rank) for name in names] == [("", Rank.NOT_RECORDED)] * 6


def test_variables_of_a_kernel_that_could_not_be_asked_are_not_unset():
    set_here = replace(run(300), software=replace(NUMPY, variables={"OMP_NUM_THREADS": "1"}))
    found = suspects(replace(run(50), software=None), set_here)["OMP_NUM_THREADS"]

    assert (found.before, found.after, found.rank) == ("", "1", Rank.NOT_RECORDED)


def test_the_likeliest_suspect_comes_first():
    before = run(50, manifest=Manifest(facts={**BLAS, Fact.CONTAINER.value: "none seen"}))
    mac = replace(MACHINE, architecture="arm64")
    after = run(50, status=CellStatus.FAILED, machine=mac, manifest=Manifest(facts={Fact.CONTAINER.value: "Docker"}))

    found = rank_suspects(before, after, compare_cells(before, after).first_divergence)

    assert found[0].name == "architecture"
    assert found[0].rule_out
    assert [item.rank for item in found] == sorted(item.rank for item in found)
    assert found[-1].name == "container"


def test_builds_of_one_version_differ_by_their_origin():
    sides = [Manifest(distributions={"numpy": f"2.1.0 ({origin})", "rich": "1 (pip)"}) for origin in ("pip", "conda")]

    found = suspects(run(50, manifest=sides[0]), run(50 + 2000, manifest=sides[1]))

    assert (found["numpy"].before, found["numpy"].after) == ("2.1.0 (pip)", "2.1.0 (conda)")
    assert found["numpy"].rank is Rank.PARTLY


def test_automatic_caps_may_vary_a_little():
    caps = [changed(run(50), cap_bytes=size * MIB) for size in (1000, 1050, 2000)]

    assert "memory cap" not in suspects(caps[0], caps[1])
    assert suspects(caps[0], caps[2])["memory cap"].rank is Rank.UNLIKELY


def test_distributions_of_two_failed_runs_may_have_been_imported():
    sides = [Manifest(distributions={"numpy": f"{version} (pip)", "rich": "1 (pip)"}) for version in ("2.1", "2.2")]
    before, after = (
        replace(run(size, manifest=side), software=None) for size, side in zip((50, 900), sides, strict=True)
    )

    found = suspects(before, after)["distributions, imported or not"]

    assert (found.rank, found.before, found.after) == (Rank.CAN, "numpy 2.1 (pip)", "numpy 2.2 (pip)")
