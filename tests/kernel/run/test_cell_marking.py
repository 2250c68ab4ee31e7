"""Marks of long cells, in a real kernel: which lines they name, and what they leave alone."""

import sys

import pytest

from pytest_lecturecheck.model.cell_run import CellStatus

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")

SET_UP = """
    import ctypes, sys, threading, time
    import drawing
    held = ctypes.PyDLL(None)
    kept = []
    threads = threading.active_count()
    """
LOOP = """
    count = 6
    for number in range(count):
        kept.append(drawing.draw(20))
    """
HOLDS = """
    time.sleep(0.4)
    held.usleep(800_000)
    time.sleep(0.4)
    """
TIMED = """
    %%time
    x = 1
    time.sleep(0.5)
    """
STATE = "print(threading.active_count() - threads, 'sysconfig' in sys.modules, len(In))"
DIES = """
    import os, signal
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
    """
MODULE = "import time\n\ndef draw(mebibytes):\n    time.sleep(0.1)\n    return bytes([1]) * (mebibytes << 20)\n"


@pytest.fixture(scope="module")
def marked(_bench, tmp_path_factory):
    folder = tmp_path_factory.mktemp("marked")
    (folder / "drawing.py").write_text(MODULE)
    _bench.folder = folder
    return _bench.measure(SET_UP, LOOP, HOLDS, TIMED, STATE, DIES, marks_after_seconds=0.2)


def test_a_line_of_a_module_is_named_with_its_source_and_the_loop(marked):
    marks = marked.cells[1].marks
    (sleeps,) = [use for use in marks.lines if use.place.place == "drawing.py:4 in draw"]
    assert (sleeps.place.source, sleeps.place.caller) == ("time.sleep(0.1)", "code cell 2, line 202")
    assert (sleeps.last_loop.name, sleeps.last_loop.stop) == ("number", 6)
    assert sum(use.rise_bytes for use in marks.lines) > 20 << 20


def test_a_call_that_holds_the_interpreter_is_named_when_it_returns(marked):
    marks = marked.cells[2].marks
    longest = max(marks.marks, key=lambda mark: mark.until_seconds - mark.seconds)
    assert longest.until_seconds - longest.seconds > 0.4
    # Another thread may be first to get the interpreter; then the next line is named.
    assert marks.line_of(longest).place.file_line in {301, 302}


def test_the_body_of_a_timed_cell_has_its_line(marked):
    assert marked.cells[3].marks.lines[0].place.source == "time.sleep(0.5)"


def test_short_cells_have_no_marks_and_the_lecture_sees_nothing(marked):
    assert marked.cells[0].marks is marked.cells[4].marks is None
    assert marked.cells[4].output_extract.split()[0] == "0"
    assert marked.cells[4].output_extract.split()[2] == "6"


def test_a_cell_that_is_killed_has_marks(marked):
    last = marked.cells[5]
    assert last.status is CellStatus.DIED
    assert last.marks.latest.place.source == "time.sleep(0.5)"
