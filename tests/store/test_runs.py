import datetime as dt
import json
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.budget_samples import entries
from support.examples import examples
from support.made_records import changed, made_evidence, made_run

from pytest_lecturecheck.diagnosis import Cause, CauseKind
from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.model.cell_run import CellError, CellRun, CellStatus
from pytest_lecturecheck.model.device import Device, DeviceUse, LiveBuffers
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.model.platform import Machine, Software
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.run_conditions import SchedulerFacts
from pytest_lecturecheck.model.timeline import MemorySample
from pytest_lecturecheck.store.record_layout import RECORD_LAYOUTS
from pytest_lecturecheck.store.runs import (
    budget_from_dict,
    budget_to_dict,
    entry_from_dict,
    entry_to_dict,
    parse_json,
    read_text,
    run_from_dict,
    run_to_dict,
    verdict_from_dict,
    verdict_to_dict,
)
from pytest_lecturecheck.verdict import Comparison, Verdict, VerdictKind
from pytest_lecturecheck.verdict.kept_session import KeptRun

FOOTPRINT = Metric.PEAK_FOOTPRINT
MEASURED = Measurement(metric=FOOTPRINT, value=432013312, method=Method.BRACKET, high=4.5e8, source="PSS")
CELL = CellRun(
    number=1,
    index=2,
    line=41,
    status=CellStatus.FAILED,
    readings={FOOTPRINT: MEASURED, Metric.PEAK_SWAP: Unavailable(metric=Metric.PEAK_SWAP, reason="no swap")},
    start_footprint_bytes=7,
    error=CellError(name="ValueError", value="no", traceback=("a", "b"), line_in_cell=2),
    started_seconds=0.5,
    ended_seconds=0.75,
)
RUN = made_run(
    lecture="intro/étude.md",
    platform="linux-x86_64-cpu",
    outcome=Outcome.DIED,
    variant="gpu-f32",
    cells=(CELL,),
    readings={FOOTPRINT: MEASURED},
    findings=(Finding(kind=FindingKind.SHELL, message="!wget failed", cell_number=1, fails_when_strict=True),),
    evidence=made_evidence(cell_number=1, signal=9, timeout_seconds=float("inf")),
    machine=Machine(system="Linux", architecture="arm64", cpu="M", core_count=8, ram_bytes=2**34, accelerators=("T4",)),
    software=Software(python="3.12", packages={"numpy": "2.1.0"}, blas=("openblas",)),
    startup_seconds=0.5,
    repeat=3,
    devices=(DeviceUse(device=Device(index=0, name="Tesla T4"), before_bytes=7),),
    environment={"OMP_NUM_THREADS": "1"},
    timeline=(
        MemorySample(seconds=0.0, footprint_bytes=2**26, rss_bytes=2**26, swap_bytes=0),
        MemorySample(seconds=0.025, rss_bytes=2**26),
    ),
    is_profiled=True,
    captured_cell=2,
    until_cell=3,
    company=("b.md",),
    launcher="slurm",
    queued_seconds=1.5,
    compile_cache="cold",
    scheduler=SchedulerFacts(name="Slurm", step="7.2", state="OUT_OF_MEMORY", memory_bytes=2**28, max_rss_bytes=2**25),
    members=(Run(lecture="a.md", platform="p", outcome=Outcome.COMPLETED),),
    first_cell_seconds=0.01,
)
VERDICT = Verdict(
    kind=VerdictKind.OVER,
    failed=True,
    headline="over",
    comparisons=(
        Comparison(metric=FOOTPRINT, kind=VerdictKind.OVER, limit=1.5, measured=MEASURED, message="m", cell=CELL),
        Comparison(metric=Metric.WALL, kind=VerdictKind.NOT_MEASURED, limit=2, measured=None, message="n"),
    ),
    notes=("note",),
)

# Text as kernels send it: anything, lone surrogates included.
_any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=6)


def _any_run(texts, numbers):
    """Build any run, its texts and floating point numbers drawn as given."""
    readings = st.dictionaries(
        st.sampled_from(Metric),
        st.one_of(
            st.builds(
                Measurement,
                metric=st.sampled_from(Metric),
                value=numbers,
                method=st.sampled_from(Method),
                high=st.none() | numbers,
                source=texts,
            ),
            st.builds(Unavailable, metric=st.sampled_from(Metric), reason=texts),
        ),
        max_size=2,
    )
    errors = st.builds(
        CellError, name=texts, value=texts, traceback=st.lists(texts, max_size=2).map(tuple), line_in_cell=st.none()
    )
    cells = st.builds(
        CellRun,
        number=st.integers(1, 9),
        index=st.integers(0, 9),
        line=st.none() | st.integers(1, 99),
        status=st.sampled_from(CellStatus),
        readings=readings,
        start_footprint_bytes=st.none() | st.integers(0),
        error=st.none() | errors,
        output_extract=texts,
    )
    findings = st.builds(Finding, kind=st.sampled_from(FindingKind), message=texts, line=st.none() | st.integers())
    evidence = st.builds(
        made_evidence,
        source=texts,
        error=st.none() | errors,
        signal=st.none() | st.integers(),
        stderr_tail=st.lists(texts, max_size=2).map(tuple),
        timeout_seconds=st.none() | numbers,
    )
    software = st.builds(Software, python=texts, packages=st.dictionaries(texts, texts, max_size=2))
    return st.builds(
        made_run,
        lecture=texts,
        platform=texts,
        outcome=st.sampled_from(Outcome),
        variant=texts,
        cells=st.lists(cells, max_size=2).map(tuple),
        readings=readings,
        findings=st.lists(findings, max_size=2).map(tuple),
        evidence=st.none() | evidence,
        software=st.none() | software,
        startup_seconds=st.none() | numbers,
    )


_plain_runs = _any_run(st.text(max_size=6).filter(lambda text: "\\u" not in text), st.floats(allow_nan=False))
_odd_runs = _any_run(_any_text, st.floats())


def _only_builtins(value):
    if type(value) is dict:
        return all(type(key) is str and _only_builtins(item) for key, item in value.items())
    if type(value) is list:
        return all(map(_only_builtins, value))
    return value is None or type(value) in {str, int, float, bool}


@settings(max_examples=examples(60), deadline=None)
@given(_plain_runs)
def test_runs_survive_as_builtin_types_and_as_json(run):
    plain = run_to_dict(run)
    assert _only_builtins(plain)
    assert run_from_dict(json.loads(json.dumps(plain))) == run


@settings(max_examples=examples(60), deadline=None)
@given(_odd_runs)
def test_whatever_a_lecture_prints_can_be_sent(run):
    plain = run_to_dict(run)
    assert _only_builtins(plain)
    json.dumps(plain, allow_nan=False, ensure_ascii=False).encode("utf-8")
    assert run_to_dict(run_from_dict(json.loads(json.dumps(plain)))) == plain


LATER = {
    "factorisations",
    "live_buffers",
    "is_program",
    "crash_stack",
    "children",
    "ram_bytes",
    "refuses_when_full",
    "commit_limit_bytes",
    "declared_memory_bytes",
    "watchdog_stop",
    "no_answer",
    "lost_supervisor",
    "wants_cpu",
}


def test_records_of_the_flat_model_are_read_and_written_byte_for_byte():
    """Written by the version before evidence and runs held nested values; every attribute is set in the first one."""
    text = (Path(__file__).parent / "stored" / "records-before-nesting.json").read_text("utf-8")
    stored = json.loads(text)
    # These came later.
    later = {"compile_cache", "manifest", "process_start", "captured_cell", "until_cell", "passes", "fault_line"}
    assert set(stored["runs"][0]) == {"schema", *RECORD_LAYOUTS[Run]} - later
    assert set(stored["runs"][0]["evidence"]) == set(RECORD_LAYOUTS[Evidence]) - LATER
    again = {
        "runs": [run_to_dict(run_from_dict(plain)) for plain in stored["runs"]],
        "verdict": verdict_to_dict(verdict_from_dict(stored["verdict"])),
        "budget": budget_to_dict(budget_from_dict(stored["budget"])),
    }
    assert json.dumps(again, indent=1) + "\n" == text


def test_a_run_with_everything_survives():
    assert run_from_dict(json.loads(json.dumps(run_to_dict(RUN)))) == RUN


@pytest.mark.parametrize("cls", [Run, Evidence])
def test_every_attribute_of_a_flat_record_has_a_row(cls):
    paths = {path[: index + 1] for path in RECORD_LAYOUTS[cls].values() for index in range(len(path))}
    hints = get_type_hints(cls)
    nested = {name: hints[name] for (name, *rest) in paths if rest}
    top = {(item.name,) for item in fields(cls)}
    assert paths == top | {(name, item.name) for name, kind in nested.items() for item in fields(kind)}


def test_arrays_that_were_alive_survive():
    alive = LiveBuffers(shape="(3,)", dtype="float32", count=2, size_bytes=24)
    run = changed(RUN, evidence=replace(RUN.evidence, live_buffers=(alive,)))
    assert run_from_dict(json.loads(json.dumps(run_to_dict(run)))) == run


def test_a_verdict_survives_with_its_comparisons_and_its_cause():
    cause = Cause(kind=CauseKind.CELL_ERROR, headline="h", evidence=("e",), advice=("a",))
    verdict = replace(VERDICT, cause=cause)
    plain = json.loads(json.dumps(verdict_to_dict(verdict)))
    assert verdict_from_dict(plain) == verdict


@given(entries("a.md", "gpu"))
def test_an_entry_survives_with_its_budget(budget):
    kept = KeptRun(run=RUN, verdict=VERDICT, seconds=1.5, budget=budget)
    plain = entry_to_dict(kept.run, kept.verdict, seconds=kept.seconds, budget=kept.budget)
    assert entry_from_dict(json.loads(json.dumps(plain))) == kept


def test_attributes_at_their_defaults_are_left_out():
    assert run_to_dict(Run(lecture="a.md", platform="p", outcome=Outcome.COMPLETED)) == {
        "schema": 1,
        "lecture": "a.md",
        "platform": "p",
        "outcome": "completed",
    }


def test_numbers_of_numpy_and_of_others_become_plain_ones():
    measured = replace(MEASURED, value=np.float64(1.5), high=Fraction(1, 2), tolerance=np.int64(3))
    plain = run_to_dict(replace(RUN, readings={FOOTPRINT: measured}))["readings"]["peak_footprint_bytes"]
    assert _only_builtins(plain)
    assert (plain["value"], plain["high"], plain["tolerance"]) == (1.5, 0.5, 3)


def test_what_no_record_holds_is_refused():
    with pytest.raises(TypeError) as caught:
        run_to_dict(changed(RUN, started=dt.time(12)))
    assert str(caught.value) == "time datetime.time(12, 0) cannot be kept in a record"


@given(entries("a.md", "gpu"))
def test_a_budget_is_read_back(budget):
    assert budget_from_dict(json.loads(json.dumps(budget_to_dict(budget)))) == budget


def test_a_lecture_whose_name_is_no_unicode_keeps_its_name():
    run = replace(RUN, lecture="caf\udce9.md", reason="caf\udce9")
    assert run_to_dict(run)["lecture"] == "caf\\udce9.md"
    read = run_from_dict(json.loads(json.dumps(run_to_dict(run))))
    assert (read.lecture, read.reason) == ("caf\udce9.md", "caf\\udce9")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema 2 is newer than 1, the newest this version reads; update pytest-lecturecheck"),
        ({"schema": "1"}, "schema '1' is not understood; expected an object with 'schema': 1"),
        ({"schema": True}, "schema True is not understood; expected an object with 'schema': 1"),
        ({"lecture": 3}, "run.lecture: found int 3; expected str"),
        ({"repeat": True}, "run.repeat: found bool True; expected int"),
        ({"startup_seconds": "1"}, "run.startup_seconds: found str '1'; expected a number"),
        (
            {"outcome": "great"},
            f"run.outcome: found 'great'; expected one of {', '.join(Outcome)}",
        ),
        ({"colour": "red"}, "run: unknown key 'colour'; a newer version wrote it, or the file is damaged"),
        ({"exit_code": 3}, "run: unknown key 'exit_code'; a newer version wrote it, or the file is damaged"),
        (
            {"evidence": {"exit": {}}},
            "run.evidence: unknown key 'exit'; a newer version wrote it, or the file is damaged",
        ),
        ({"evidence": {"exit_code": "3"}}, "run.evidence.exit_code: found str '3'; expected int"),
        ({"evidence": {"timeout_seconds": True}}, "run.evidence.timeout_seconds: found bool True; expected a number"),
        ({"members": [{}]}, "run.members[0]: lecture, platform, outcome missing"),
        ({"cells": {}}, "run.cells: found dict {}; expected list"),
        ({"cells": [{"number": 1}]}, "run.cells[0]: index, line, status missing"),
        ({"repeat": 10**400}, "run.repeat: found a number of 1329 bits; expected at most 256"),
        (
            {"readings": {"wall_seconds": {"metric": "wall_seconds", "value": -(10**400), "method": "exact"}}},
            "run.readings.wall_seconds.value: found a number of 1329 bits; expected at most 256",
        ),
        ({"readings": []}, "run.readings: found list []; expected dict"),
        (
            {"readings": {"wall_seconds": {"metric": "wall_seconds"}}},
            "run.readings.wall_seconds: value, method missing",
        ),
    ],
)
def test_a_run_that_cannot_be_read_says_where(change, message):
    with pytest.raises(RunFileError) as caught:
        run_from_dict({**run_to_dict(RUN), **change})
    assert str(caught.value) == message


def test_lone_surrogates_written_by_hand_can_be_written_again():
    run = run_from_dict({**run_to_dict(RUN), "variant": "\ud800"})
    assert run.variant == "\\ud800"


def test_what_is_missing_is_named():
    with pytest.raises(RunFileError) as caught:
        run_from_dict({"schema": 1})
    assert str(caught.value) == "run: lecture, platform, outcome missing"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ('{"seconds": NaN}', "not JSON: it has NaN, which is not a number"),
        ('{"runs": [-Infinity]}', "not JSON: it has -Infinity, which is not a number"),
    ],
)
def test_text_that_is_not_json_is_refused(text, message):
    with pytest.raises(RunFileError) as caught:
        parse_json(text)
    assert str(caught.value) == message


def test_deep_nesting_is_refused():
    with pytest.raises(RunFileError):
        parse_json("[" * 200_000)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (3, "run 2: found int; expected an object with 'run' and 'verdict'"),
        ({"run": {"schema": 1}, "verdict": {"schema": 1}}, "run: lecture, platform, outcome missing"),
        ({"run": {"schema": 1}}, "run 2: it has no verdict; expected a document of a session"),
        ({"run": {}, "verdict": {}, "seconds": "1"}, "run 2: seconds '1' is not a number of seconds"),
    ],
)
def test_an_entry_that_cannot_be_read_names_the_fault(plain, message):
    with pytest.raises(RunFileError) as caught:
        entry_from_dict(plain, "run 2")
    assert str(caught.value) == message


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "runs.json"
    path.write_bytes(b"\xff")
    with pytest.raises(RunFileError) as caught:
        read_text(path)
    assert str(caught.value) == f"{path}: not UTF-8 at byte 0; expected a file written by this tool"


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(RunFileError) as caught:
        read_text(tmp_path / "none.json")
    assert str(caught.value) == f"{tmp_path / 'none.json'}: cannot be read: No such file or directory"
