import json
import unicodedata
from dataclasses import replace

import pytest
from support.made_records import changed, made_evidence, made_run

from pytest_lecturecheck.diagnosis import Cause, CauseKind
from pytest_lecturecheck.errors import RunFileError
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.store import failures
from pytest_lecturecheck.store.failures import (
    MOST_KEPT,
    NewerFailuresError,
    RememberedFailure,
    change_failures,
    read_failures,
    set_aside,
)
from pytest_lecturecheck.store.runs import StoredRun
from pytest_lecturecheck.verdict import Verdict, VerdictKind

PLATFORM = "linux-x86_64-cpu"
RUN = made_run(
    lecture="intro.md",
    platform=PLATFORM,
    outcome=Outcome.TIMED_OUT,
    cells=(
        CellRun(number=1, index=0, line=3, status=CellStatus.OK, output_extract="a page of text"),
        CellRun(number=2, index=1, line=9, status=CellStatus.TIMED_OUT, output_extract="step 1"),
    ),
    evidence=made_evidence(cell_number=2, line=9, source="while True: pass", timeout_seconds=3.0, timeout_kind="cell"),
    started="2026-11-29T18:30:05+00:00",
)
VERDICT = Verdict(
    kind=VerdictKind.TIMED_OUT,
    failed=True,
    headline="code cell 2 timed out after 3 s (line 9)",
    cause=Cause(kind=CauseKind.TIMED_OUT, headline="code cell 2 timed out after 3 s (line 9)"),
)


def failure(lecture="intro.md", key="k1", **run):
    return RememberedFailure(key=key, stored=StoredRun(run=changed(RUN, lecture=lecture, **run), verdict=VERDICT))


@pytest.fixture
def path(tmp_path):
    (tmp_path / "intro.md").touch()
    (tmp_path / ".lecturecheck").mkdir()
    return tmp_path / ".lecturecheck" / "failures.json"


def change(path, add=(), clear=()):
    change_failures(path, rootdir=path.parent.parent, add=add, clear=clear)


def test_a_file_that_is_not_there_remembers_nothing(path):
    assert read_failures(path) == {}


def test_a_failure_is_kept_with_all_that_its_text_shows(path):
    change(path, add=[failure()])
    cells = (replace(RUN.cells[0], output_extract=""), RUN.cells[1])
    assert read_failures(path) == {("intro.md", "", PLATFORM): failure(cells=cells)}


def test_a_later_failure_takes_the_place_of_an_earlier_one(path):
    change(path, add=[failure(key="k1")])
    change(path, add=[failure(key="k2", started="2026-11-30T08:00:00+00:00")])
    (only,) = read_failures(path).values()
    assert (only.key, only.stored.run.launch.started) == ("k2", "2026-11-30T08:00:00+00:00")


def test_platforms_and_variants_do_not_share_a_failure(path):
    change(path, add=[failure(), failure(platform="darwin-arm64-cpu"), failure(variant="gpu-f32")])
    assert len(read_failures(path)) == 3
    change(path, clear=[("intro.md", "gpu-f32", PLATFORM)])
    assert set(read_failures(path)) == {("intro.md", "", PLATFORM), ("intro.md", "", "darwin-arm64-cpu")}


def test_what_another_session_wrote_in_the_meantime_stays(path):
    (path.parent.parent / "other.md").touch()
    change(path, add=[failure()])
    change(path, add=[failure("other.md")])
    assert {lecture for lecture, _, _ in read_failures(path)} == {"intro.md", "other.md"}


def test_lectures_that_are_gone_are_forgotten(path):
    gone = path.parent.parent / "gone.md"
    gone.touch()
    change(path, add=[failure("gone.md"), failure()])
    gone.unlink()
    change(path, clear=[("unknown.md", "", PLATFORM)])
    assert [lecture for lecture, _, _ in read_failures(path)] == ["intro.md"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_is_found_however_the_disk_spells_it(path, form):
    name = unicodedata.normalize("NFC", "Einführung.md")
    (path.parent.parent / unicodedata.normalize(form, name)).touch()
    change(path, add=[failure(name)])
    assert [lecture for lecture, _, _ in read_failures(path)] == [name]


def test_the_latest_failures_are_kept(path):
    many = []
    for number in range(MOST_KEPT + 3):
        name = f"lecture{number}.md"
        (path.parent.parent / name).touch()
        many.append(failure(name, started=f"2026-11-29T{number // 60:02d}:{number % 60:02d}:00+00:00"))
    change(path, add=many)
    kept = [lecture for lecture, _, _ in read_failures(path)]
    assert kept == [f"lecture{number}.md" for number in range(3, MOST_KEPT + 3)]


def test_nothing_is_written_where_nothing_changes(path):
    change(path, clear=[("intro.md", "", PLATFORM)])
    assert not path.exists()


def test_a_newer_file_is_refused_and_left_alone(path):
    path.write_text('{"schema": 2, "failures": "in another way"}')
    message = (
        f"{path}: schema 2 is newer than 1, the newest this version reads; update pytest-lecturecheck, or remove the "
        "file: every lecture is then run again"
    )
    with pytest.raises(NewerFailuresError) as caught:
        read_failures(path)
    assert str(caught.value) == message
    with pytest.raises(NewerFailuresError):
        change(path, add=[failure()])
    assert json.loads(path.read_text())["schema"] == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"[" * 100_000, None),
        (b"\xff", "cannot be read: not UTF-8 at byte 0"),
        (b"[]", "schema None is not understood; expected an object with 'schema': 1"),
        (b'{"schema": true}', "schema True is not understood; expected an object with 'schema': 1"),
        (b'{"schema": 1}', "found NoneType; expected a list under the key 'failures'"),
        (
            b'{"schema": 1, "failures": [3]}',
            "found int; expected an object with 'key', 'run' and 'verdict'",
        ),
        (
            b'{"schema": 1, "failures": [{"key": "k", "run": {}, "verdict": null}]}',
            "found dict; expected an object with 'key', 'run' and 'verdict'",
        ),
        (
            b'{"schema": 1, "failures": [{"key": "k", "run": {}, "verdict": {}}]}',
            "schema None is not understood; expected an object with 'schema': 1",
        ),
    ],
)
def test_a_damaged_file_says_what_is_wrong_with_it(path, content, reason):
    path.write_bytes(content)
    with pytest.raises(RunFileError) as caught:
        read_failures(path)
    assert not isinstance(caught.value, NewerFailuresError)
    assert str(caught.value).startswith(f"{path}: ")
    if reason is not None:
        assert str(caught.value) == f"{path}: {reason}"


def test_a_damaged_file_is_set_aside_over_the_one_before(path):
    target = path.with_name("failures.json.damaged")
    target.write_text("older")
    path.write_text("newer")
    assert set_aside(path) == target
    assert target.read_text() == "newer"
    assert not path.exists()


def test_a_damaged_file_is_replaced(path):
    path.write_text("{")
    change(path, add=[failure()])
    assert len(read_failures(path)) == 1


def test_the_file_names_its_schema(path):
    change(path, add=[failure()])
    assert json.loads(path.read_text())["schema"] == failures.SCHEMA
