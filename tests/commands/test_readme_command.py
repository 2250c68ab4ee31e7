"""``lecturecheck readme --to``: the files for an editor."""

import json
from dataclasses import replace

import pytest
from support.hostile import HOSTILE, UNSAFE
from support.kept_documents import call, keep
from support.made_entries import MIB, died, failed, within
from support.made_records import changed, made_evidence
from support.made_sessions import kept, session_of

from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.manifest import Fact, Manifest
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.run import PROGRAM_LAUNCHER, LaunchFacts
from pytest_lecturecheck.report.author_letter import render_author_letter
from pytest_lecturecheck.report.exports.run_crate import CrateFolder, render_run_crate
from pytest_lecturecheck.report.replication_sections import render_environment
from pytest_lecturecheck.report.required_changes import render_required_changes
from pytest_lecturecheck.report.runtime_info import render_runtime_info
from pytest_lecturecheck.verdict.kept_session import KeptRun

NAMES = {"readme-section.md", "replication-report.md", "letter-to-authors.txt", "runtime-info.txt"}
BUILT = Manifest(
    facts={Fact.NUMPY_BLAS.value: "blas 3.11.0"}, distributions={"numpy": "2.1.0 (pip)", "own": "1 (local)"}
)


def recorded(entry):
    """An entry with its software and its start."""
    software = Software(python="3.12.1", packages={"numpy": "2.1.0", "own": "1"}, variables={"OMP_NUM_THREADS": "1"})
    launch = LaunchFacts(started="2026-01-05T06:00:00+00:00")
    return replace(entry, run=replace(entry.run, software=software, manifest=BUILT, launch=launch))


def entities(text):
    return {item["@id"]: item for item in json.loads(text)["@graph"]}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder with a notebook that passed and one that died, in a kept session."""
    monkeypatch.chdir(tmp_path)
    entries = [recorded(within()), recorded(died())]
    for entry in entries:
        path = tmp_path / entry.run.lecture
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")
    runs = [KeptRun(run=entry.run, verdict=entry.verdict, seconds=90.0) for entry in entries]
    keep(tmp_path, session_of(*runs))
    return tmp_path


def test_files_for_an_editor_are_written(package, capsys):
    assert call(capsys, "readme", "--to", "out")[0] == 0

    assert {path.name for path in (package / "out").iterdir()} == {*NAMES, "ro-crate-metadata.json"}
    assert (package / "out" / "readme-section.md").read_text("utf-8").startswith("### Memory, Runtime, Storage")
    assert (package / "out" / "replication-report.md").read_text("utf-8").startswith("### For a replication report")


@pytest.mark.parametrize(("declared", "result"), [(None, "completed"), (400 * MIB, "died")])
def test_a_run_under_a_cap_below_its_need_is_no_measurement(tmp_path, monkeypatch, capsys, declared, result):
    monkeypatch.chdir(tmp_path)
    evidence = made_evidence(signal=9, cap_bytes=400 * MIB, declared_memory_bytes=declared)
    ended = replace(died().run, lecture="a.ipynb", variant="", evidence=evidence)
    ended = changed(ended, cap_bytes=400 * MIB)
    first = kept("a.ipynb", 500)
    keep(tmp_path, session_of(first, name="20260105T060000Z-aaaaaa"))
    last = KeptRun(run=ended, verdict=died().verdict, seconds=9.0)
    keep(tmp_path, session_of(last, name="20260105T070000Z-bbbbbb", days=0.1))
    (tmp_path / "a.ipynb").write_text("", encoding="utf-8")
    row = next(line for line in call(capsys, "readme")[1].splitlines() if line.startswith("| `a.ipynb`"))
    assert row.endswith(f"| {result} |")


@pytest.mark.parametrize(("folder", "identity"), [(".", "{}"), ("out", "#{}")])
def test_notebooks_in_the_folder_are_files_of_the_crate(package, capsys, folder, identity):
    call(capsys, "readme", "--to", folder)
    found = entities((package / folder / "ro-crate-metadata.json").read_text("utf-8"))

    name = identity.format(within().run.lecture)
    parts = {item["@id"] for item in found["./"]["hasPart"]}
    assert found["#run-1"]["instrument"] == {"@id": name}
    assert parts >= NAMES
    assert (name in parts) is (folder == ".")


def test_the_crate_follows_the_process_run_profile():
    entries = [recorded(within()), recorded(died())]
    text = render_run_crate(entries, CrateFolder(), ended=None, version="0.1.0")
    found = entities(text)

    profile = "https://w3id.org/ro/wfrun/process/0.5"
    assert found["ro-crate-metadata.json"]["about"] == {"@id": "./"}
    assert (found["./"]["conformsTo"], found[profile]["version"]) == ({"@id": profile}, "0.5")
    good, bad = (found[item["@id"]] for item in found["./"]["mentions"])
    assert (good["startTime"], good["actionStatus"]) == (
        "2026-01-05T06:00:00+00:00",
        "http://schema.org/CompletedActionStatus",
    )
    assert (bad["actionStatus"], bad["error"]) == ("http://schema.org/FailedActionStatus", died().headline)
    assert "error" not in good
    assert {item["@id"] for item in found[good["instrument"]["@id"]]["softwareRequirements"]} == {
        "#Python-3.12.1",
        "https://pypi.org/project/numpy/2.1.0/",
        "#own-1",
    }
    references = [
        item["@id"]
        for entity in found.values()
        for value in entity.values()
        for item in (value if isinstance(value, list) else [value])
        if isinstance(item, dict)
    ]
    assert set(references) - set(found) == {"https://w3id.org/ro/crate/1.1"}


def test_runtime_information_names_what_was_not_recorded():
    lines = render_runtime_info([recorded(within())], version="0.1.0").splitlines()

    assert f"notebook: {within().run.lecture}" in lines
    assert "  started: 2026-01-05 06:00:00 UTC" in lines
    assert "  BLAS that NumPy was built with: blas 3.11.0" in lines
    assert "  BLAS that SciPy was built with: not recorded" in lines
    assert lines[-2:] == ["    numpy==2.1.0  (pip)", "    own==1  (local)"]


def test_authors_are_asked_how_it_ran_where_it_ended():
    bad = render_author_letter([within(), died()])
    good = render_author_letter([within()])

    assert "\n1 notebook did not run to the end.\n" in bad
    assert f"  {died().headline}" in bad
    assert "1. Please provide debugged code, addressing the issues identified in this report." in bad
    assert f"    pytest --lecture-budget --lecture-report notebooks.json {died().run.lecture}" in bad
    assert good.endswith("All of them ran to the end.\n")


def test_a_missing_r_package_asks_for_a_setup_program():
    entry = failed()
    error = CellError(name="Error", value="there is no package called 'sf'")
    run = replace(entry.run, evidence=replace(entry.run.evidence, error=error))
    text = render_required_changes([replace(entry, run=run)])

    assert text.startswith("> [REQUIRED] Please add a setup program that installs all R packages.")
    assert "> [REQUIRED] Please amend README to contain complete computational requirements." in text
    assert "- [x] Software Requirements\n  - [x] R\n    - there is no package called 'sf'" in text
    assert "debugged code" not in text
    assert "To find out why" not in render_author_letter([replace(entry, run=run)])


def test_programs_are_counted_and_asked_for_as_programs():
    launch = LaunchFacts(launcher=PROGRAM_LAUNCHER)
    entry = replace(died(), run=replace(died().run, lecture="main.R", launch=launch))
    facts = {Fact.PROGRAM.value: "Rscript (R) version 4.2.2"}
    entry = replace(entry, run=replace(entry.run, manifest=Manifest(facts=facts)))
    letter = render_author_letter([within(), entry])

    assert letter.startswith("We ran 1 notebook and 1 program of your package\n")
    assert "    lecturecheck run --report program-1.json -- " in letter
    assert "show_config" not in letter
    assert "- Interpreter: Rscript (R) version 4.2.2" in render_environment([entry])
    assert "  interpreter of the program: Rscript (R) version 4.2.2" in render_runtime_info([entry], version="")


def test_named_programs_that_are_no_files_stay_in_a_readme(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lecturecheck.toml").write_text('[programs]\ntables = "Rscript tables.R"\n', encoding="utf-8")
    launch = LaunchFacts(launcher=PROGRAM_LAUNCHER)
    for number, name in enumerate(("tables", "gone", "last")):
        run = kept(name, 500)
        run = replace(run, run=replace(run.run, launch=launch))
        keep(tmp_path, session_of(run, name=f"20260105T06000{number}Z-aaaaaa", days=number))
    out = call(capsys, "readme")[1]
    assert [line.split("`")[1] for line in out.splitlines() if line.startswith("| `")] == ["tables", "last"]
    assert "kernel" not in out.partition("### For a replication report")[0]


def test_hostile_names_are_safe_in_all_files():
    entries = [recorded(failed(lecture=HOSTILE)), recorded(within(lecture=HOSTILE))]
    texts = [
        render_author_letter(entries),
        render_runtime_info(entries, version=""),
        render_run_crate(entries, CrateFolder(), ended=None, version=""),
    ]
    for text in texts:
        assert not UNSAFE.search(text.replace("\n", ""))
