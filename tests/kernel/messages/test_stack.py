"""Stacks and crash dumps of faulthandler."""

import asyncio
import os
import signal
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.messages.stack import (
    Stack,
    StackOffer,
    _read_answer,
    ask_stack,
    clean_offer,
    parse_stack,
)

HOME = "/home/ann/.venv/lib/python3.11"
CELL = "/tmp/ipykernel_4711/1234567890.py"
KERNEL_FRAMES = (
    f'  File "{HOME}/site-packages/IPython/core/interactiveshell.py", line 3747 in run_code\n'
    '  File "<frozen runpy>", line 88 in _run_code\n'
)


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
    assert parse_stack(text, 2) == Stack(
        frames=(
            "jax/_src/compiler.py:353 in backend_compile_and_load",
            "threading.py:12 in run",
            "model.py:9 in fit",
            "code cell 2 line 3 in step",
            "code cell 2 line 7",
        ),
        cell_line=7,
    )


def test_a_function_of_another_cell():
    text = dump(("/tmp/ipykernel_4711/99.py", 3, "step"), (CELL, 7, "<module>"))
    assert parse_stack(text, 2).frames == ("another code cell line 3 in step", "code cell 2 line 7")


def test_paths_of_windows_tell_nothing_of_the_machine():
    text = dump((r"C:\Users\Ann\Lib\site-packages\numba\core\compiler.py", 4, "run"), (r"C:\Users\Ann\a.py", 5, "f"))
    assert parse_stack(text, 1).frames[:2] == ("numba/core/compiler.py:4 in run", "a.py:5 in f")


def test_a_kernel_between_cells_has_only_its_own_frames():
    assert parse_stack(dump(), 1) == Stack(
        frames=("IPython/core/interactiveshell.py:3747 in run_code", "<frozen runpy>:88 in _run_code")
    )
    assert parse_stack("", 1) == Stack()


def test_a_deep_stack_keeps_both_ends():
    text = dump(*((f"{HOME}/deep.py", line, "f") for line in range(1, 100)), (CELL, 7, "<module>"))
    frames = parse_stack(text, 1).frames
    assert (len(frames), frames[0], frames[30], frames[-1]) == (
        61,
        "deep.py:1 in f",
        "... 40 more ...",
        "code cell 1 line 7",
    )


@given(st.text())
def test_any_text_is_printable(text):
    stack = parse_stack(f'  File "{text}", line 1 in {text}\n{text}', 1)
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
