"""What a controller of xdist does with the messages of its workers."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from pytest_lecturecheck.plugin.xdist import WorkerManager, WorkerStop


@pytest.mark.parametrize("hook", ["pytest_runtest_logstart", "pytest_runtest_logreport", "pytest_runtest_logfinish"])
def test_progress_of_workers_is_not_written_into_a_line_of_pytest(hook):
    taken = []
    manager = WorkerManager({}, taken.append, lambda _mark, _worker: None, None)
    writing = getattr(manager, hook)()
    next(writing)
    thread = threading.Thread(target=manager.take_progress, args=("progress",), daemon=True)
    thread.start()
    thread.join(0.5)
    assert (thread.is_alive(), taken) == (True, [])
    with pytest.raises(StopIteration):
        writing.send(None)
    thread.join()
    assert taken == ["progress"]


class Channel:
    """A channel of execnet, which calls back with its end marker when the controller has ended."""

    def setcallback(self, callback, endmarker):
        self.callback, self.endmarker = callback, endmarker

    def end(self):
        self.callback(self.endmarker)


def test_a_worker_is_interrupted_at_once_when_its_controller_has_ended():
    channel, interrupts = Channel(), []
    config = SimpleNamespace(workerinput={"lecturecheck_channel": channel})
    WorkerStop(config, lambda: interrupts.append("interrupt")).pytest_sessionstart()
    channel.callback("something else")
    assert interrupts == []
    channel.end()
    assert interrupts == ["interrupt"]
