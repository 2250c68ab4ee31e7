"""Answers about the line of a running cell, which a lecture can forge, and the loops of its source."""

import asyncio
import json
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.agent.line_sampling import ANSWER_PIPE, ASK_PIPE
from pytest_lecturecheck.kernel.messages.cell_files import CellFiles, murmur2
from pytest_lecturecheck.kernel.messages.line_asking import LineAsker, find_loops, loop_at, read_place
from pytest_lecturecheck.model.cell_marks import CodePlace, LoopState
from pytest_lecturecheck.model.lecture import Cell

RUNNING = Cell(index=3, number=2, source="for i in range(n):\n    step(i)", line=41)
STEP = Cell(index=1, number=1, source="def step(i):\n    time.sleep(60)\n", line=11)
CELLS = CellFiles(RUNNING, [STEP, RUNNING])


def file_of(cell):
    return f"/tmp/ipykernel_4711/{murmur2(cell.source)}.py"


def test_a_function_of_an_earlier_cell_has_its_line_and_its_caller():
    answer = {
        "own": {"file": file_of(STEP), "line": 2, "name": "step"},
        "cell": [file_of(RUNNING), 2],
        "called": "scipy/linalg/_basic.py in solve",
    }
    assert read_place(answer, CELLS, RUNNING) == (
        CodePlace(
            place="code cell 1, line 12",
            function="step",
            source="time.sleep(60)",
            called="scipy/linalg/_basic.py in solve",
            caller="code cell 2, line 42",
            cell_number=1,
            file_line=12,
        ),
        2,
    )


def test_a_module_of_the_lecture_brings_its_source():
    own = {"file": "paths.py", "line": 9, "name": "draw", "source": "x = [0] * n\x1b[2J"}
    place, line = read_place({"own": own, "cell": [file_of(RUNNING), 2]}, CELLS, RUNNING)
    assert (place.place, place.source, place.caller, place.cell_number, line) == (
        "paths.py:9 in draw",
        "x = [0] * n [2J",
        "code cell 2, line 42",
        None,
        2,
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["file", "line", "name"]), inner),
    max_leaves=6,
)


@given(own=json_values, cell=json_values, called=json_values, counters=json_values)
def test_forged_answers_are_harmless(own, cell, called, counters):
    place, _ = read_place({"own": own, "cell": cell, "called": called}, CELLS, RUNNING)
    assert all(text.isprintable() for text in (place.place, place.source, place.called, place.caller))
    (loop,) = find_loops(RUNNING.source)
    assert loop.state(counters) is None or isinstance(counters, dict)


@pytest.mark.parametrize(
    ("head", "name", "stop"),
    [
        ("for i in range(500):", "i", 500),
        ("for i in range(2, n):", "i", "n"),
        ("for i in range(0, n, 2):", "i", None),
        ("for i in tqdm(range(n)):", "i", "n"),
        ("for k, x in enumerate(items):", "k", None),
        ("for x in items:", "x", None),
        ("for (a, b), c in pairs:", "", None),
    ],
)
def test_loops_are_found_in_the_source(head, name, stop):
    found = [(loop.name, loop.stop, loop.first, loop.last) for loop in find_loops(f"%time x = 1\n{head}\n    f()\n")]
    assert found == ([(name, stop, 2, 3)] if name else [])


def test_counters_of_functions_are_no_variables_of_the_lecture():
    assert find_loops("def f():\n    for i in range(3):\n        pass\nx = [i for i in range(4)]") == []
    assert find_loops("for i in range(") == []


def test_the_innermost_loop_around_a_line_counts():
    loops = find_loops("for i in range(9):\n    for j in range(3):\n        f()\n    g()")
    assert [getattr(loop_at(loops, line), "name", None) for line in (3, 4, 5, None)] == ["j", "i", None, None]


def test_only_whole_numbers_are_counters():
    (loop,) = find_loops("for i in range(n): f()")
    assert loop.state({"i": 3, "n": 9}) == LoopState(name="i", value=3, stop=9)
    assert loop.state({"i": 3, "n": True}) == LoopState(name="i", value=3)
    assert loop.state({"i": "secret"}) is None


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")
def test_only_the_answer_to_the_last_question_counts(tmp_path):
    for name in (ASK_PIPE, ANSWER_PIPE):
        os.mkfifo(tmp_path / name)

    async def talk():
        kernel = os.open(tmp_path / ASK_PIPE, os.O_RDWR | os.O_NONBLOCK)
        asker = LineAsker(tmp_path)
        answers = os.open(tmp_path / ANSWER_PIPE, os.O_WRONLY)
        question = asyncio.ensure_future(asker.ask(["i"]))
        await asyncio.sleep(0)
        asked = json.loads(os.read(kernel, 1000))
        os.write(answers, b'{"number": 0}\nno json\n{"number": 1, "own"')
        await asyncio.sleep(0.01)
        was_done = question.done()
        os.write(answers, b": 7}\n")
        found = await question
        asker.close()
        os.close(kernel)
        os.close(answers)
        return asked, was_done, found

    assert asyncio.run(talk()) == ({"number": 1, "names": ["i"]}, False, {"number": 1, "own": 7})


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")
def test_a_file_in_place_of_a_pipe_is_refused(tmp_path):
    (tmp_path / ANSWER_PIPE).write_text("")
    with pytest.raises(OSError, match="is no named pipe"):
        LineAsker(tmp_path)
