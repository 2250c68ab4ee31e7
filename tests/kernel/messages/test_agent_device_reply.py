"""The agent's payload about GPUs and the compiler, and its crash record."""

import json
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.agent.device_agent import SLOT_BYTES, CrashRecordWriter
from pytest_lecturecheck.kernel.messages.agent_device_reply import (
    clean_allocators,
    clean_compilation,
    clean_errors,
    clean_seconds,
)
from pytest_lecturecheck.kernel.messages.agent_reply import clean_payload
from pytest_lecturecheck.kernel.messages.crash_record import CrashRecord as Read
from pytest_lecturecheck.kernel.messages.crash_record import read_crash_record
from pytest_lecturecheck.model.device import AllocatorUsage, CompileTimes

SAID = {"library": "JAX", "device": "cuda:0", "live_bytes": 10, "peak_live_bytes": 20, "pool_bytes": None}
KEPT = AllocatorUsage(library="JAX", device="cuda:0", live_bytes=10, peak_live_bytes=20)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def test_allocators():
    assert clean_allocators([SAID, {**SAID, "library": "Other"}, 7, {**SAID, "live_bytes": -1}]) == (KEPT,)
    assert clean_allocators([{**SAID, "peak_live_bytes": True, "limit_bytes": 2**70}]) == (
        AllocatorUsage(library="JAX", device="cuda:0", live_bytes=10),
    )
    assert clean_allocators([{**SAID, "device": "\x1b[31mcuda\n" + "x" * 100}])[0].device == "[31mcuda " + "x" * 50
    assert clean_allocators([{**SAID, "device": 5}])[0].device == "a device without a name"
    assert len(clean_allocators([SAID] * 1000)) == 64


def test_compilation():
    assert clean_compilation({"seconds": 1.5, "count": 2, "cache_hits": -1}) == CompileTimes(seconds=1.5, count=2)
    assert clean_compilation({"error": "TypeError:\x1b no"}) == "TypeError: no"
    assert clean_compilation({"seconds": float("nan")}) is None
    assert clean_compilation("x") is None
    assert clean_compilation({"seconds": 1e7}) == CompileTimes(seconds=1e7)
    assert clean_compilation({"seconds": 1.1e7}) is None


def test_errors():
    assert clean_errors({"CuPy": "x\ny", "Other": "z", "JAX": 4}) == {"CuPy": "x y", "JAX": "no reason given"}
    assert clean_errors([]) == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1.0),
        (0.5, 0.5),
        (True, None),
        (-1, None),
        (float("inf"), None),
        (float("nan"), None),
        ("1", None),
        (10**400, None),
    ],
)
def test_seconds(value, expected):
    assert clean_seconds(value) == expected


@given(ANYTHING)
def test_anything_may_be_said(said):
    payload = clean_payload(dict.fromkeys(("allocators", "compile", "allocator_errors", "stack_offer"), said))
    assert all(isinstance(figures, AllocatorUsage) for figures in payload.get("allocators", ()))
    assert isinstance(payload.get("compilation", ""), str | CompileTimes)


# -- the file ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    return tmp_path / "crash-record"


def test_the_latest_of_two_states_is_read(file):
    writer = CrashRecordWriter(str(file))
    for request in range(1, 6):
        writer.write({"request": request, "allocators": [SAID], "compile": {"seconds": request, "count": 1}})
        assert read_crash_record(file) == Read(
            request=request, allocators=(KEPT,), compilation=CompileTimes(seconds=request, count=1)
        )
    assert file.stat().st_size <= 2 * SLOT_BYTES


def test_a_state_that_was_half_written_gives_the_one_before(file):
    writer = CrashRecordWriter(str(file))
    writer.write({"request": 1})
    writer.write({"request": 2})
    with file.open("r+b") as stream:
        stream.write(b'{"number": 2, "requ')
    assert read_crash_record(file).request == 2


def test_too_large_payloads_leave_the_last_ones(file):
    writer = CrashRecordWriter(str(file))
    writer.write({"request": 1})
    writer.write({"request": 2, "allocators": ["x" * SLOT_BYTES]})
    assert read_crash_record(file).request == 1


def test_a_descriptor_that_has_become_another_files_is_left_alone(file, tmp_path):
    writer = CrashRecordWriter(str(file))
    writer.write({"request": 1})
    other = os.open(tmp_path / "data", os.O_CREAT | os.O_RDWR)
    try:
        os.dup2(other, writer.fd)
        writer.write({"request": 2})
        assert (tmp_path / "data").read_bytes() == b""
    finally:
        os.close(other)
        os.close(writer.fd)
    assert read_crash_record(file).request == 1


def test_a_file_that_is_there_already_is_not_taken(file):
    file.write_bytes(b"")
    with pytest.raises(FileExistsError):
        CrashRecordWriter(str(file)).write({})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"x" * 100,
        b"[1]\n",
        b"{}\n",
        b'{"number": "1", "end": "1"}\n',
        b'{"number": 1, "end": 2}\n',
        b"[" * 10_000 + b"\n",
        b'{"number": 1}',
        b"\xff\n",
    ],
)
def test_a_malformed_record_gives_none(file, content):
    file.write_bytes(content)
    assert read_crash_record(file) is None


@given(payload=st.dictionaries(st.sampled_from(["request", "allocators", "compile", "open_since"]), ANYTHING))
def test_any_file_can_be_read(tmp_path_factory, payload):
    file = tmp_path_factory.getbasetemp() / "any-payload"
    file.write_text(json.dumps({"number": 0, **payload, "end": 0}) + "\n", encoding="utf-8")
    found = read_crash_record(file)
    if found is not None:
        assert isinstance(found.request, int)
        found.compilation_in(3, 5.0)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there, and pipes are no files")
def test_no_link_and_no_pipe_is_followed(file, tmp_path):
    assert read_crash_record(file) is None
    target = tmp_path / "target"
    CrashRecordWriter(str(target)).write({"request": 1})
    file.symlink_to(target)
    assert read_crash_record(file) is None
    file.unlink()
    os.mkfifo(file)
    assert read_crash_record(file) is None


OPEN = Read(request=4, compilation=CompileTimes(seconds=3.0, count=2), open_since=100.0, seconds_before=2.5)


@pytest.mark.parametrize(
    ("record", "request_number", "now", "expected"),
    [
        (OPEN, 4, 110.0, CompileTimes(seconds=12.5, count=2, unfinished_seconds=10.0)),
        # The open span has not begun by this clock.
        (OPEN, 4, 99.0, CompileTimes(seconds=3.0, count=2)),
        # What was compiled in an earlier cell is not this one's.
        (OPEN, 5, 110.0, CompileTimes(seconds=0.0)),
        (Read(request=4), 4, 110.0, None),
        (Read(request=4, compilation=CompileTimes(seconds=1.0)), 4, 110.0, CompileTimes(seconds=1.0)),
    ],
)
def test_compile_time_until_a_crash(record, request_number, now, expected):
    assert record.compilation_in(request_number, now) == expected
