"""Stacks and crash dumps of faulthandler."""

import asyncio
import os
import signal
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.messages.cell_files import CellFiles, murmur2
from pytest_lecturecheck.kernel.messages.stack import (
    Stack,
    StackOffer,
    _read_answer,
    ask_stack,
    clean_offer,
    parse_crash,
    parse_stack,
)
from pytest_lecturecheck.model.lecture import Cell

HOME = "/home/ann/.venv/lib/python3.11"
CELL = "/tmp/ipykernel_4711/1234567890.py"
KERNEL_FRAMES = (
    f'  File "{HOME}/site-packages/IPython/core/interactiveshell.py", line 3747 in run_code\n'
    '  File "<frozen runpy>", line 88 in _run_code\n'
)


RUNNING = Cell(index=3, number=2, source="a\nb\nc\nd\ne\nf\nstep()", line=41)
STEP = Cell(index=1, number=1, source="def step():\n    time.sleep(60)\n", line=11)
CELLS = CellFiles(RUNNING, [STEP, RUNNING])


def dump(*frames):
    lines = "".join(f'  File "{path}", line {line} in {name}\n' for path, line, name in frames)
    return f"Stack (most recent call first):\n{lines}{KERNEL_FRAMES}"


def test_a_cell_that_compiles():
    text = dump(
        (f"{HOME}/site-packages/jax/_src/compiler.py", 353, "backend_compile_and_load"),
        (f"{HOME}/threading.py", 12, "run"),
        ("/home/ann/secret/model.py", 9, "fit"),
        (CELL, 3, "step"),
        (CELL, 7, "<module>"),
    )
    assert parse_stack(text, CELLS) == Stack(
        frames=(
            "jax/_src/compiler.py:353 in backend_compile_and_load",
            "threading.py:12 in run",
            "model.py:9 in fit",
            "code cell 2, line 43, in step",
            "code cell 2, line 47",
        ),
        cell_line=3,
    )


def test_a_function_of_another_cell():
    text = dump(("/tmp/ipykernel_4711/99.py", 3, "step"), (CELL, 7, "<module>"))
    assert parse_stack(text, CELLS).frames == ("another code cell, line 3 of the cell, in step", "code cell 2, line 47")


@pytest.mark.parametrize("source", ["", "x", "ab", "abc", STEP.source, "é = '\u2028'\n", "x = 1\n" * 50])
def test_cells_have_the_names_that_ipykernel_gives_them(source):
    from ipykernel.compiler import murmur2_x86  # noqa: PLC0415 - imports IPython

    assert murmur2(source) == murmur2_x86(source, 0xC70F6907)


def test_a_function_of_an_earlier_cell_has_its_line_in_the_file():
    text = dump((f"/tmp/ipykernel_4711/{murmur2(STEP.source)}.py", 2, "step"), (CELL, 7, "<module>"))
    assert parse_stack(text, CELLS).frames == ("code cell 1, line 12, in step", "code cell 2, line 47")


MAGIC = (f"{HOME}/site-packages/IPython/core/interactiveshell.py", 2644, "run_cell_magic")


def test_the_body_of_a_timed_cell_has_its_lines():
    text = dump(("<timed exec>", 2, "f"), ("<timed exec>", 4, "<module>"), MAGIC, (CELL, 1, "<module>"))
    stack = parse_stack(text, CELLS)
    assert stack.cell_line == 3
    assert stack.frames == (
        "code cell 2, line 43, in f",
        "code cell 2, line 45",
        "IPython/core/interactiveshell.py:2644 in run_cell_magic",
        "code cell 2, line 41",
    )


def test_the_body_of_a_captured_cell_has_its_lines():
    captured = replace(RUNNING, source="\n%%capture\n\nstep()")
    body = f"/tmp/ipykernel_4711/{murmur2(chr(10) + 'step()' + chr(10))}.py"
    text = dump((body, 2, "<module>"), MAGIC, (CELL, 2, "<module>"))
    stack = parse_stack(text, CellFiles(captured))
    assert (stack.frames[0], stack.frames[-1], stack.cell_line) == ("code cell 2, line 44", "code cell 2, line 42", 4)


def test_a_thread_with_a_function_of_another_cell_says_nothing_of_the_running_one():
    text = dump((f"/tmp/ipykernel_4711/{murmur2(STEP.source)}.py", 2, "step"), (f"{HOME}/threading.py", 12, "run"))
    assert parse_stack(text, CELLS) == Stack(frames=("code cell 1, line 12, in step",))


def test_a_cell_without_a_line_in_the_file_counts_its_own_lines():
    loaded = replace(RUNNING, line=None)
    assert parse_stack(dump((CELL, 7, "<module>")), CellFiles(loaded)).frames == ("code cell 2, line 7 of the cell",)


def test_only_the_last_crash_counts():
    frames = [f'  File "{CELL}", line {line} in <module>\n' for line in (3, 5)]
    text = "".join(f"Fatal Python error: Aborted\n\nCurrent thread 0x1:\n{frame}\n" for frame in frames)
    assert parse_crash(text, CELLS) == Stack(frames=("code cell 2, line 45",), cell_line=5)
    assert parse_crash(frames[0], CELLS) == Stack()


def test_paths_of_windows_tell_nothing_of_the_machine():
    text = dump((r"C:\Users\Ann\Lib\site-packages\numba\core\compiler.py", 4, "run"), (r"C:\Users\Ann\a.py", 5, "f"))
    assert parse_stack(text, CELLS).frames[:2] == ("numba/core/compiler.py:4 in run", "a.py:5 in f")


LOOP = (("/usr/lib/python3.11/selectors.py", 468, "select"), (f"{HOME}/asyncio/base_events.py", 607, "run_forever"))
WAITING = "the kernel's event loop, waiting: the cell awaits something that has not ended"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import asyncio\n!echo hi\nawait asyncio.sleep(60)", 3),
        ("async def f():\n    await g()\n\nx = [await f()]", 4),
        ("async for x in y:\n    print(x)", 1),
        ("z = [x async for x in y]", 1),
        ("await f()\nawait g()", None),
    ],
)
def test_a_cell_that_awaits_is_at_its_only_await(source, line):
    stack = parse_stack(dump(*LOOP), CellFiles(replace(RUNNING, source=source)))
    assert stack.cell_line == line
    assert stack.frames == ((WAITING,) if line is None else (WAITING, f"code cell 2, line {40 + line}"))


@pytest.mark.parametrize("source", ["x = 1", "await f(", "async def f():\n    await g()"])
def test_a_cell_that_awaits_nothing_shows_the_frames_of_the_loop(source):
    stack = parse_stack(dump(*LOOP), CellFiles(replace(RUNNING, source=source)))
    assert (stack.frames[0], stack.cell_line) == ("selectors.py:468 in select", None)


def test_a_kernel_between_cells_has_only_its_own_frames():
    assert parse_stack(dump(), CELLS) == Stack(
        frames=("IPython/core/interactiveshell.py:3747 in run_code", "<frozen runpy>:88 in _run_code")
    )
    assert parse_stack("", CELLS) == Stack()


def test_a_deep_stack_keeps_both_ends():
    text = dump(*((f"{HOME}/deep.py", line, "f") for line in range(1, 100)), (CELL, 7, "<module>"))
    frames = parse_stack(text, CELLS).frames
    assert (len(frames), frames[0], frames[30], frames[-1]) == (
        61,
        "deep.py:1 in f",
        "... 40 more ...",
        "code cell 2, line 47",
    )


@given(st.text())
def test_any_text_is_printable(text):
    stack = parse_stack(f'  File "{text}", line 1 in {text}\n{text}', CELLS)
    assert all(frame.isprintable() for frame in stack.frames)


@pytest.mark.parametrize(
    "payload",
    [None, {}, {"signal": 12, "fd": 5}, {"signal": 0, "fd": 5, "pid": 7}, {"signal": "12", "fd": 5, "pid": 7}],
)
def test_no_offer(payload):
    assert clean_offer(payload) is None


def test_an_offer():
    assert clean_offer({"signal": 12, "fd": 5, "pid": 7}) == StackOffer(signal=12, fd=5, pid=7)


def test_an_answer_that_comes_late_is_waited_for(tmp_path):
    path, frame = tmp_path / "stack", b'  File "<frozen runpy>", line 198 in _run_module_as_main\n'
    path.write_bytes(b"known")

    async def scene():
        reading = asyncio.ensure_future(_read_answer(path, len(b"known")))
        await asyncio.sleep(0.6)
        path.write_bytes(b"known" + frame)
        return await reading

    assert asyncio.run(scene()) == frame


def ask(path, **changed):
    facts = {"signal": int(getattr(signal, "SIGUSR2", 12)), "fd": 0, "pid": os.getpid(), **changed}
    return asyncio.run(ask_stack(os.getpid(), StackOffer(**facts), path))


def test_a_kernel_behind_a_wrapper_is_not_signalled(tmp_path):
    assert ask(tmp_path / "stack", pid=1) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what a signal would do to another process")
def test_a_signal_that_would_kill_is_not_sent(tmp_path):
    path = tmp_path / "stack"
    with path.open("wb") as stream:
        assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
        assert ask(path, fd=stream.fileno()) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the descriptors of another process")
def test_a_descriptor_that_is_another_file_is_not_written_to(tmp_path):
    path, other = tmp_path / "stack", tmp_path / "other"
    path.touch()
    asked = []
    previous = signal.signal(signal.SIGUSR2, lambda *_: asked.append(1))
    try:
        with other.open("wb") as stream:
            assert ask(path, fd=stream.fileno()) == ""
    finally:
        signal.signal(signal.SIGUSR2, previous)
    assert asked == []
