"""Flushes of ipykernel's output streams: in vain they cost nothing, and no output is late for its cell."""

import os
import threading
from types import SimpleNamespace

import pytest

from pytest_lecturecheck.kernel.agent import output_flushing
from pytest_lecturecheck.kernel.agent.output_flushing import spare_idle_flushes
from pytest_lecturecheck.model.run import Outcome


class Stream:
    """Has what the agent uses of ``ipykernel.iostream.OutStream``."""

    __module__ = "ipykernel.iostream"

    def __init__(self):
        self._buffers, self.echo, self.flushed, self.sent = {}, None, 0, []
        self.may_send = threading.Event()

    def flush(self):
        self.flushed += 1

    def _flush(self):
        taken, self._buffers = self._buffers, {}
        self.may_send.wait(10)
        self.sent.append(taken)


@pytest.fixture
def clock(monkeypatch):
    """Stop the clock of the streams; what is added to it are later moments."""
    moments = [0.0]
    monkeypatch.setattr(output_flushing, "time", SimpleNamespace(monotonic=lambda: moments[-1]))
    return moments


@pytest.fixture
def stream(clock):
    assert clock == [0.0]
    made = Stream()
    spare_idle_flushes(made)
    return made


def test_an_idle_stream_is_not_flushed_again_at_once(stream, clock):
    stream.flush()
    stream.flush()
    assert stream.flushed == 1
    stream._buffers["cell"] = "text"
    stream.flush()
    assert stream.flushed == 2
    stream._buffers.clear()
    clock.append(1.0)
    stream.flush()
    assert stream.flushed == 3


def test_a_stream_with_an_echo_is_flushed(stream):
    stream.echo = object()
    stream.flush()
    stream.flush()
    assert stream.flushed == 2


def test_a_stream_whose_text_is_on_its_way_is_flushed(stream):
    stream.flush()
    stream._buffers["cell"] = "text"
    sender = threading.Thread(target=stream._flush)
    sender.start()
    while stream._buffers:
        pass
    stream.flush()
    stream.may_send.set()
    sender.join()
    assert (stream.flushed, stream.sent) == (2, [{"cell": "text"}])
    stream.flush()
    assert stream.flushed == 2


@pytest.mark.usefixtures("clock")
def test_a_stream_is_flushed_after_a_fork(monkeypatch):
    hooks = {}
    monkeypatch.setattr(os, "register_at_fork", lambda **given: hooks.update(given), raising=False)
    stream = Stream()
    spare_idle_flushes(stream)
    stream.flush()
    stream.flush()
    assert stream.flushed == 1
    hooks["after_in_parent"]()
    stream.flush()
    assert stream.flushed == 2


def test_other_streams_are_left_alone():
    class Other(Stream):
        __module__ = "elsewhere"

    class Older:
        __module__ = "ipykernel.iostream"

    for stream in (Other(), Older(), None):
        before = dict(getattr(stream, "__dict__", {}))
        spare_idle_flushes(stream)
        assert dict(getattr(stream, "__dict__", {})) == before


def test_output_belongs_to_its_cell(bench):
    sources = [f"import sys; print({number}); print({-number}, file=sys.stderr)" for number in range(120)]
    run = bench.run(*sources)
    assert run.outcome is Outcome.COMPLETED
    # A timer sends the two streams, too: the text of one may come between a line and its end of the other.
    assert [sorted("".join(cell.output_extract.split())) for cell in run.cells] == [
        sorted(f"{number}{-number}") for number in range(120)
    ]
    assert run.findings == ()
