"""Replay folders: their stamp, and the record that they hold."""

import json
import os

import pytest

from pytest_lecturecheck.errors import LectureCheckError
from pytest_lecturecheck.model.captured_state import CapturedState
from pytest_lecturecheck.model.cell_run import CellRun, CellStatus
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.store.replay.replay_folder import read_replay, write_replay
from pytest_lecturecheck.store.replay.stamp import secret_path, stamp_folder, why_foreign

STATE = CapturedState(cell_number=2, saved={"A": "numpy"}, missing={"gen": "cannot pickle"})
CELL = Cell(index=1, number=2, source="A @ A", line=41)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "cell-2"
    (made / "data").mkdir(parents=True)
    (made / "data" / "state.json").write_text("{}")
    cells = (CellRun(number=2, index=1, line=41, status=CellStatus.DIED, start_footprint_bytes=5),)
    run = Run(lecture="a.md", platform="here", outcome=Outcome.DIED, cells=cells)
    write_replay(made, run, CELL, STATE)
    return made


@pytest.fixture
def secret(tmp_path):
    return secret_path({"XDG_STATE_HOME": str(tmp_path / "state"), "LOCALAPPDATA": str(tmp_path / "state")}, tmp_path)


def test_the_record_is_read_as_it_was_written(folder):
    record = read_replay(folder)
    assert record.title == "code cell 2 of a.md, line 41"
    assert (record.original.status, record.original.start_bytes, record.original.peak_bytes) == ("died", 5, None)
    assert (dict(record.saved), dict(record.missing)) == (STATE.saved, STATE.missing)
    cells = json.loads((folder / "replay.ipynb").read_text())["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code", "code"]
    assert cells[2]["source"] == "A @ A"


@pytest.mark.parametrize(
    "change", [{"schema": 9}, {"files": ["../out"]}, {"files": ["/etc/passwd"]}, {"original": 3}, {"more": 1}]
)
def test_records_that_cannot_be_used_are_refused(folder, change):
    document = json.loads((folder / "replay.json").read_text())
    (folder / "replay.json").write_text(json.dumps({**document, **change}))
    with pytest.raises(LectureCheckError, match=r"replay.json cannot be used: .*; expected a folder that"):
        read_replay(folder)


def test_a_folder_that_was_stamped_here_is_known(folder, secret):
    stamp_folder(folder, secret)
    assert why_foreign(folder, secret) == ""
    if os.name == "posix":
        assert secret.stat().st_mode & 0o777 == 0o600


def test_changed_added_and_removed_files_are_noticed(folder, secret):
    stamp_folder(folder, secret)
    (folder / "data" / "numpy.py").write_text("")
    assert why_foreign(folder, secret) == "'data/numpy.py' was changed, added or removed since it was made"
    (folder / "data" / "numpy.py").unlink()
    (folder / "load_state.py").write_text("evil()")
    assert "'load_state.py' was changed" in why_foreign(folder, secret)
    (folder / "load_state.py").unlink()
    assert "'load_state.py' was changed" in why_foreign(folder, secret)


def test_stamps_of_others_and_missing_ones_are_foreign(folder, secret, tmp_path):
    assert why_foreign(folder, secret) == "it has no stamp that can be read"
    stamp_folder(folder, tmp_path / "other")
    assert why_foreign(folder, secret) == "this user has stamped no folder here"
    stamp_folder(tmp_path / "cell-2" / "data", secret)
    assert why_foreign(folder, secret) == "its stamp is not this user's"


def test_a_stamp_whose_list_was_changed_is_foreign(folder, secret):
    stamp_folder(folder, secret)
    document = json.loads((folder / "stamp.json").read_text())
    document["files"]["load_state.py"] = "0" * 64
    (folder / "stamp.json").write_text(json.dumps(document))
    assert why_foreign(folder, secret) == "its stamp is not this user's"


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_in_a_folder_are_not_followed(folder, secret):
    (folder / "data" / "link").symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="symbolic link"):
        stamp_folder(folder, secret)


def test_a_secret_that_was_cut_short_is_refused(folder, secret):
    stamp_folder(folder, secret)
    secret.write_bytes(b"")
    with pytest.raises(OSError, match=r"has 0 bytes; expected 32\. Remove it"):
        why_foreign(folder, secret)
