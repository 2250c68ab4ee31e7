"""The seven questions, over sessions that are made up and marked as such."""

import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from support.made_entries import verdict
from support.made_matrix import CPU, GPU, cpu_session, gpu_session, kept_in, rounds
from support.made_sessions import KeptRun, session_of

from pytest_lecturecheck.findings.answering import Assumptions, answer_questions, judge_prior
from pytest_lecturecheck.findings.document import KeyValue
from pytest_lecturecheck.findings.media import files_of
from pytest_lecturecheck.findings.spread import Conclusion, ratio_of
from pytest_lecturecheck.model.fleet import MachineType, Prior
from pytest_lecturecheck.model.kernel_pass import KernelPass
from pytest_lecturecheck.model.reported_value import ReportedValue
from pytest_lecturecheck.verdict import VerdictKind

MACHINES = (
    MachineType(name="small-cpu", price=0.1, core_count=4, memory_bytes=16 * 10**9, platform=CPU),
    MachineType(name="one-gpu", price=0.5, core_count=8, memory_bytes=32 * 10**9, gpu_count=1, platform=GPU),
)
PENALTY = f"float64-penalty {CPU} work.md size=10000"
PRIORS = (
    Prior(name="twice", of=PENALTY, low=1.5, high=2.5),
    Prior(name="no penalty", of=PENALTY, low=0.9, high=1.1),
    Prior(name="misspelled", of=PENALTY + "x", low=0, high=1),
)


@pytest.fixture(scope="module")
def document():
    return answer_questions([cpu_session(), gpu_session()], Assumptions(machines=MACHINES, priors=PRIORS))


def section(document, start):
    return next(item for item in document.sections if item.title.startswith(start))


def test_every_question_has_a_section_in_order(document):
    assert [item.title[:2] for item in document.questions] == [f"{number}." for number in range(1, 8)]
    assert not [item.title for item in document.sections if item.answer.startswith("not answered")]


def test_float64_costs_twice_on_the_cpu_and_more_on_the_gpu(document):
    values = {item.key: item.value for item in document.values}
    assert values[PENALTY] == pytest.approx(2.0, rel=0.05)
    assert values[f"float64-penalty {GPU} work.md size=1000000"] == pytest.approx(0.82 / 0.12, rel=0.05)
    assert "float64 takes longer in" in section(document, "1.").answer


def test_the_break_even_is_where_the_curves_cross(document):
    values = {item.key: item for item in document.values}
    found = values["break-even work.md precision=f32"]
    truth = 0.02 / (1e-6 - 1e-7)
    assert found.low <= truth <= found.high


def test_safe_concurrency_is_the_highest_without_a_failure(document):
    assert {item.key: item.value for item in document.values}[f"safe-kernels {CPU} alone.md as it is"] == 2
    assert ("1 of 3", "2") in {row[-2:] for row in section(document, "3.").tables[0].rows}


def test_vectorized_chains_take_half_the_time(document):
    assert {item.key: item.value for item in document.values}[f"vectorized-ratio {CPU} nuts.md as it is"] == (
        pytest.approx(0.5, rel=0.05)
    )


def test_scaling_names_superlinear_and_poor_points(document):
    remarks = [row[-1] for row in section(document, "Scaling").tables[0].rows]
    assert remarks == ["ok", "ok", "superlinear, unexplained"]


def test_a_split_fleet_is_compared_with_the_best_single_type(document):
    fit = section(document, "6.")
    assert fit.answer.startswith("small-cpu is the cheapest single type")
    assert fit.notes[0].startswith("These lectures lose on a GPU, in price: work.md [precision=f32,size=")
    assert "work.md [precision=f32,size=1000000]" not in fit.notes[0]
    assert "; a split fleet costs " in fit.answer
    what_if = section(document, "GPU hours").notes[0]
    assert what_if.startswith("one-gpu: pin these ")


def test_runs_with_cold_storage_are_named(document):
    rows = section(document, "Cold and warm storage").tables[0].rows
    assert {row[3:7] for row in rows} == {("cold", "1", "64 MiB", "65 MiB"), ("warm", "5", "0 B", "65 MiB")}


def test_priors_are_confirmed_or_refuted(document):
    rows = section(document, "Priors").tables[0].rows
    assert [row[-1] for row in rows] == ["confirmed", "refuted", "not measured"]
    assert rows[2][3] == f"no value has this name; is it {PENALTY!r}?"


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(1, 3, "confirmed"), (1, 2, "undecided"), (3, 4, "refuted"), (0, 1, "refuted")]
)
def test_a_prior_is_confirmed_only_by_the_whole_interval(low, high, expected):
    found = KeyValue(key="x", value=2.0, low=1.5, high=2.5)
    assert judge_prior(Prior(name="p", of="x", low=low, high=high), found) == expected


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        (0.0, "a warm compile cache saves 0.5 s of a run in the median."),
        (0.9, "what a warm compile cache saves is too noisy to conclude."),
    ],
)
def test_a_cold_run_within_the_noise_shows_no_saving(noise, expected):
    runs = [kept_in("size=1", 2.0, repeat=1)]
    runs += [kept_in("size=1", 2.0 + noise * shift, repeat=n) for n, shift in enumerate((-1, -0.5, 0, 0.5, 1), start=2)]
    answer = section(answer_questions([session_of(*runs, platform=CPU)], Assumptions()), "5.").answer
    assert answer.endswith(f"; {expected}")


def test_a_prior_is_not_decided_by_too_few_runs():
    runs = [
        run for value, seconds in (("f32", 1.0), ("f64", 2.0)) for run in rounds(f"precision={value}", seconds, count=3)
    ]
    prior = Prior(name="twice", of=f"float64-penalty {CPU} work.md as it is", low=1.5, high=2.5)
    document = answer_questions([session_of(*runs, platform=CPU)], Assumptions(priors=(prior,)))
    assert section(document, "Priors").tables[0].rows[0][3:] == ("2 (2 to 2), too few runs to conclude", "undecided")


def test_without_gpu_runs_the_questions_say_so():
    answers = answer_questions([cpu_session()], Assumptions(machines=MACHINES))
    assert section(answers, "2.").answer == "not answered: no GPU runs"
    assert section(answers, "1.").answer.endswith("Not answered for GPUs: no GPU runs.")
    assert section(answers, "Scaling").answer == "not answered: no GPU runs"
    assert section(answers, "GPU hours").answer == "not answered: no GPU runs"


def test_without_runs_nothing_is_answered():
    document = answer_questions([session_of()], Assumptions())
    assert all(item.answer.startswith("not answered: ") for item in document.sections)
    assert files_of(document)["findings.md"].count("not answered") == len(document.sections)


def test_drift_cancels_where_runs_alternate():
    """Both take longer and longer; each round compares like with like."""
    first = {n: 1.0 + n for n in range(6)}
    second = {n: 1.2 * (1.0 + n) for n in range(6)}
    found = ratio_of(first, second)
    assert (found.spread.low, found.conclusion) == (pytest.approx(1.2), Conclusion.MORE)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.5, 2.0, 0.7, 1.5, 1.0, 1.1], Conclusion.NOISY),
        ([1.0, 1.01, 0.99, 1.0, 1.02], Conclusion.SAME),
        ([2.0, 2.0, 2.0, 2.0], Conclusion.FEW),
        ([0.5] * 5, Conclusion.LESS),
    ],
)
def test_noise_and_few_runs_conclude_nothing(values, expected):
    base = dict.fromkeys(range(len(values)), 1.0)
    assert ratio_of(base, dict(enumerate(values))).conclusion is expected


def test_the_cold_run_is_no_part_of_the_median():
    runs = [*rounds("precision=f32", 1.0), *rounds("precision=f64", 1.0)]
    slow = [kept_in("precision=f32", 100.0, repeat=1)]
    document = answer_questions([session_of(*runs[1:], *slow, platform=CPU)], Assumptions())
    assert document.values[0].value == pytest.approx(1.0)


def again(variant, work, *, count=1, repeat=1):
    """A cold run, and passes in the same kernels, of which the last kernel is slower by half."""
    members = []
    for number in range(1, count + 1):
        slower = 1.5 if number == count > 1 else 1.0
        passes = tuple(
            KernelPass(number=n, wall_seconds=2 * work * slower, reported_values=(step(work * slower),))
            for n in range(2, 8)
        )
        run = kept_in(variant, 9.0, repeat=repeat).run
        members.append(replace(run, passes=passes))
    run = (
        members[0]
        if count == 1
        else replace(members[0], members=tuple(members), passes=(), variant=f"{variant},c={count}")
    )
    return KeptRun(run=run, verdict=verdict(VerdictKind.WITHIN, ""))


def step(seconds):
    return ReportedValue(name="step_seconds", value=seconds, unit="s")


def test_passes_in_one_kernel_are_the_time_of_the_work():
    runs = [again("precision=f32", 1.0), again("precision=f64", 2.0), again("precision=f32", 1.2, count=2)]
    document = answer_questions([session_of(*runs, platform=CPU)], Assumptions())
    penalty = next(item for item in document.values if item.key.startswith("float64-penalty"))
    assert (penalty.value, penalty.low, penalty.high) == (2.0, 2.0, 2.0)
    # Passes of one kernel show nothing about the next one.
    answer = section(document, "1.").answer
    assert (
        "too few runs to conclude in 1. 5 or more warm runs of each are needed to conclude: --lecture-runs 6." in answer
    )
    assert section(document, "1.").basis == "2 runs and 12 passes in their kernels, of 1 session"
    compiling = section(document, "5.").tables[0]
    (first, _) = (dict(zip(compiling.columns, row, strict=True)) for row in compiling.rows)
    assert (first["cold"], first["warm, new kernels"], first["warm, one kernel"]) == ("9.5 s", "-", "2 s")
    rows = [
        dict(zip(section(document, "3.").tables[0].columns, row, strict=True))
        for row in section(document, "3.").tables[0].rows
    ]
    # Of several kernels the slowest counts.
    assert [(row["kernels"], row["work"]) for row in rows] == [("1", "1 s"), ("2", "1.8 s")]


def test_passes_of_two_kernels_in_turn_conclude():
    runs = [again(f"precision={p}", work, repeat=n) for n in (1, 2) for p, work in (("f32", 1.0), ("f64", 2.0))]
    document = answer_questions([session_of(*runs, platform=CPU)], Assumptions())
    assert "float64 takes longer in 1" in section(document, "1.").answer


def test_pictures_are_svg_without_colours_and_have_their_values(document):
    files = files_of(document)
    pictures = [name for name in files if name.endswith(".svg")]
    assert pictures == ["float64-penalty.svg", "break-even.svg"]
    for name in pictures:
        root = ET.fromstring(files[name])
        colours = {item.get("fill") for item in root.iter()} | {item.get("stroke") for item in root.iter()}
        assert colours <= {None, "none", "black", "white"}
        rows = list(csv.reader(io.StringIO(files[name.replace(".svg", "-picture.csv")])))
        assert rows[0][0] == "curve"
        assert len(rows) > 4


def test_names_of_lectures_are_escaped_everywhere():
    hostile = "<script>|`x`\n=1.md"
    runs = [run for value in ("f32", "f64") for run in rounds(f"precision={value}", 1.0, lecture=hostile)]
    files = files_of(answer_questions([session_of(*runs, platform=CPU)], Assumptions()))
    assert "<script>" not in files["findings.html"]
    assert "<script>" not in files["findings.md"].replace("\\<script\\>", "")
    assert not any(cell.startswith("=") for row in csv.reader(io.StringIO(files["float64.csv"])) for cell in row)
