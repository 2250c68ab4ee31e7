"""Files of traces: as XLA writes them, and as nobody should."""

import gzip
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_traces import LAUNCH_BOUND_GPU, gpu_names, host_call, kernel, write

from pytest_lecturecheck.errors import TraceFileError
from pytest_lecturecheck.trace.profile_summary import summarise
from pytest_lecturecheck.trace.trace_reader import find_trace, read_cell, read_events, read_trace

NAME = "plugins/profile/2026_01_02_03_04_05/vm.trace.json.gz"
HEAD = b'{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":['


def packed(folder, data, name="x.trace.json.gz"):
    path = folder / name
    path.write_bytes(gzip.compress(data))
    return path


def fault(path, **more):
    with pytest.raises(TraceFileError) as caught:
        list(read_events(path, **more))
    return str(caught.value)


def test_a_file_gives_the_events_that_went_in(tmp_path):
    path = write(tmp_path / NAME, LAUNCH_BOUND_GPU)
    assert list(read_events(path)) == LAUNCH_BOUND_GPU
    assert read_trace(path) == summarise(LAUNCH_BOUND_GPU)


def test_events_over_many_pieces_of_the_file(tmp_path):
    events = [*gpu_names(), *(host_call(number, 1, "é]}," * 40) for number in range(20_000)), kernel(0, 5)]
    assert list(read_events(write(tmp_path / NAME, events))) == events


@given(st.lists(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(-9, 9), st.text()), max_size=3), max_size=5))
def test_any_objects_come_back(tmp_path_factory, events):
    path = write(tmp_path_factory.mktemp("trace") / NAME, events, head='{ "traceEvents" : ')
    assert list(read_events(path)) == events


def test_a_cell_gets_a_summary_and_a_perfetto_copy(tmp_path):
    write(tmp_path / NAME, LAUNCH_BOUND_GPU)
    figures = read_cell(tmp_path, 0.02)
    assert (figures.trace, figures.cell_seconds) == ("perfetto.json.gz", 0.02)
    document = json.loads(gzip.decompress((tmp_path / figures.trace).read_bytes()))
    # Perfetto's reader stops at keys it does not know.
    assert list(document) == ["displayTimeUnit", "traceEvents"]
    assert document["traceEvents"] == LAUNCH_BOUND_GPU


def test_of_several_traces_the_latest_counts(tmp_path):
    write(tmp_path / NAME, [])
    later = write(tmp_path / NAME.replace("_05/", "_06/"), [])
    assert find_trace(tmp_path) == later


def test_no_trace_at_all(tmp_path):
    with pytest.raises(TraceFileError) as caught:
        find_trace(tmp_path)
    assert str(caught.value) == "the profiler wrote no *.trace.json.gz"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_link_to_elsewhere_is_no_trace(tmp_path, linked):
    path = tmp_path / "cell-1" / NAME
    real = write(tmp_path / "elsewhere" / "vm.trace.json.gz", [])
    path.parent.parent.mkdir(parents=True)
    if linked == "file":
        path.parent.mkdir()
        path.symlink_to(real)
    else:
        path.parent.symlink_to(real.parent)
    with pytest.raises(TraceFileError):
        find_trace(tmp_path / "cell-1")


@pytest.mark.skipif(os.name == "nt", reason="there are no such pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.trace.json.gz")
    assert fault(tmp_path / "x.trace.json.gz").startswith("x.trace.json.gz: cannot be read: it is a named pipe")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no list 'traceEvents' was found; expected Chrome trace events"),
        (b"{}", "no list 'traceEvents' was found; expected Chrome trace events"),
        (b"[1, 2]", "no list 'traceEvents' was found; expected Chrome trace events"),
        (b'{"traceEvents":{}}', "no list 'traceEvents' was found; expected Chrome trace events"),
        (HEAD + b'{"ph":"X"},', "malformed or truncated list of events, near ','"),
        (HEAD + b'{"ph":"X"},{"ph":', "malformed or truncated list of events, near ',{\"ph\":'"),
        (HEAD + b'{"ph" "X"}]}', 'malformed or truncated list of events, near \'{"ph" "X"}]}\''),
        (HEAD + b"7]}", "found int among the events; expected objects"),
        (HEAD + b'"text"]}', "found str among the events; expected objects"),
    ],
)
def test_a_file_that_is_no_trace(tmp_path, data, message):
    assert fault(packed(tmp_path, data)) == f"x.trace.json.gz: {message}"


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 100_000 + "]" * 100_000])
def test_an_event_made_to_break_readers(tmp_path, value):
    path = packed(tmp_path, HEAD + f'{{"ts":{value}}}]}}'.encode())
    assert fault(path).startswith("x.trace.json.gz: found an event that no profiler writes: ")


@pytest.mark.parametrize(
    ("value", "shown"), [("1e999", "inf"), ("NaN", "nan"), ("1e305", "1e+305"), ("9" * 400, "9" * 40)]
)
def test_a_number_out_of_range(tmp_path, value, shown):
    path = write(tmp_path / NAME, [*gpu_names(), kernel(0, 5)])
    data = gzip.decompress(path.read_bytes()).replace(b'"dur":5.0', b'"dur":' + value.encode())
    with pytest.raises(TraceFileError) as caught:
        read_trace(packed(tmp_path, data))
    assert str(caught.value) == f"an event has dur '{shown}'; expected microseconds"


def test_one_event_without_an_end(tmp_path):
    path = packed(tmp_path, HEAD + b'{"name":"' + b"x" * (3 << 20) + b'"}]}')
    assert fault(path).startswith('x.trace.json.gz: malformed or truncated list of events, near \'{"name":"xxx')


def test_a_head_without_an_end(tmp_path):
    path = packed(tmp_path, b'{"metadata":"' + b"x" * (5 << 20) + b'","traceEvents":[]}')
    assert fault(path) == "x.trace.json.gz: no list 'traceEvents' was found; expected Chrome trace events"


def test_a_file_that_unpacks_to_more_than_a_trace(tmp_path):
    path = packed(tmp_path, HEAD + b"{}," * (1 << 20) + b"{}]}")
    assert fault(path, most_bytes=1 << 21) == (
        "x.trace.json.gz: larger than 2,097,152 bytes uncompressed; trace a cell that does less"
    )


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_off(tmp_path, keep):
    path = write(tmp_path / NAME, LAUNCH_BOUND_GPU)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    assert fault(path).startswith("vm.trace.json.gz: not a whole gzip file: ")


def test_damaged_and_unpacked_files(tmp_path):
    path = tmp_path / "x.trace.json.gz"
    path.write_bytes(b'{"traceEvents":[]}')
    assert fault(path).startswith("x.trace.json.gz: not a whole gzip file: Not a gzipped file")
    whole = bytearray(gzip.compress(HEAD + b"{}]}"))
    whole[12] ^= 0xFF
    path.write_bytes(bytes(whole))
    assert fault(path).startswith("x.trace.json.gz: not a whole gzip file: ")


def test_a_file_that_is_not_there(tmp_path):
    assert fault(tmp_path / "x.trace.json.gz") == "x.trace.json.gz: cannot be read: No such file or directory"
