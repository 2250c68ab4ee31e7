"""Profiles in pprof's format, as JAX writes them, damaged ones, and those of a lecture that wants to do harm."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.messages.cell_files import CellFiles, murmur2
from pytest_lecturecheck.kernel.messages.device_profile_reading import read_device_profile
from pytest_lecturecheck.kernel.messages.pprof_reader import PprofSample, read_pprof
from pytest_lecturecheck.model.lecture import Cell
from pytest_lecturecheck.model.memory_profile import DeviceProfile, PeakLine

HOME = "/home/ann/.venv/lib/python3.13"
RUNNING = Cell(index=3, number=2, source="import grids\na = jnp.ones(9)\nb = grids.make(9)", line=41)
CELL = f"/tmp/ipykernel_4711/{murmur2(RUNNING.source)}.py"
ONES = (f"{HOME}/site-packages/jax/_src/numpy/array_creation.py", "ones", 144)
CALL = (f"{HOME}/site-packages/jax/_src/pjit.py", "cache_miss", 259)


def varint(number):
    data = b""
    while number > 127:
        data, number = data + bytes([number & 127 | 128]), number >> 7
    return data + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def packed(*numbers):
    return b"".join(varint(number) for number in numbers)


def profile(*samples):
    """A profile as JAX writes it: each sample is its frames, count, size and labels."""
    texts, places, data = [""], {}, b""

    def text(word):
        if word not in texts:
            texts.append(word)
        return texts.index(word)

    for frames, count, size, labels in samples:
        for frame in frames:
            places.setdefault(frame, len(places) + 1)
        sample = field(1, packed(*(places[frame] for frame in frames))) + field(2, packed(count, size))
        for key, word in labels.items():
            sample += field(3, field(1, text(key)) + field(2, text(word)))
        data += field(2, sample)
    for (file, name, line), number in places.items():
        data += field(4, field(1, number) + field(4, field(1, number) + field(2, line)))
        data += field(5, field(1, number) + field(2, text(name)) + field(4, text(file)))
    return gzip.compress(data + b"".join(field(6, word.encode()) for word in texts))


def buffer(size, *frames, count=1, device="cuda:0"):
    return frames, count, size, {"kind": "buffer", "device": device}


def read(data):
    return read_device_profile(data, CellFiles(RUNNING).line_at)


def test_samples_have_frames_sizes_and_labels():
    (found,) = read_pprof(profile(buffer(300, CALL, (CELL, "<module>", 2), count=2)))
    assert found == PprofSample(
        frames=(CALL, (CELL, "<module>", 2)), count=2, size_bytes=300, labels={"kind": "buffer", "device": "cuda:0"}
    )


def test_buffers_are_summed_by_line_of_the_lecture():
    data = profile(
        buffer(700, CALL, ONES, (CELL, "<module>", 2)),
        buffer(100, CALL, ONES, (CELL, "<module>", 2), device="cuda:1"),
        buffer(200, CALL, ONES, ("/home/ann/lectures/grids.py", "make", 7), (CELL, "<module>", 3)),
        ((CALL,), 1, 5000, {"kind": "executable"}),
    )
    assert read(data) == DeviceProfile(
        peak_bytes=1000,
        lines=(
            PeakLine(
                place="code cell 2, line 42",
                size_bytes=800,
                allocation_count=2,
                source="a = jnp.ones(9)",
                inner="jax/_src/numpy/array_creation.py:144 in ones",
                cell_line=2,
            ),
            PeakLine(
                place="grids.py:7 in make",
                size_bytes=200,
                allocation_count=1,
                inner="jax/_src/numpy/array_creation.py:144 in ones",
                caller="code cell 2, line 43",
            ),
        ),
        devices=("cuda:0", "cuda:1"),
    )


def test_arrays_of_threads_without_python_are_counted():
    profile_of_it = read(profile(buffer(10)))
    assert (profile_of_it.peak_bytes, profile_of_it.lines[0].place) == (10, "? (native code)")


def test_a_profile_without_buffers_is_none():
    assert read(profile()) is None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"no gzip", "it is no gzip file", id="no gzip"),
        pytest.param(gzip.compress(b"\x12\x05ab"), "a field is longer than the file", id="a long field"),
        pytest.param(gzip.compress(b"\xff" * 20), "a number is cut or too long", id="a long number"),
        pytest.param(gzip.compress(b"\x0b"), "unknown kind 3", id="an unknown kind"),
        pytest.param(gzip.compress(field(2, 7)), "a number where a message was expected", id="no message"),
        pytest.param(profile(buffer(10, CALL))[:-9], "it is cut", id="a cut file"),
        pytest.param(gzip.compress(bytes((1 << 26) + 1)), "it has more than 64 MiB", id="a large file"),
    ],
)
def test_damaged_profiles_are_refused(data, expected):
    with pytest.raises(ValueError, match=expected):
        read_pprof(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data):
    try:
        found = read(gzip.compress(data))
    except ValueError:
        return
    assert found is None or found.peak_bytes > 0
