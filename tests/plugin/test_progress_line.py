"""What is shown of a run's progress."""

import pytest

from pytest_lecturecheck.kernel.run.ports import RunProgress
from pytest_lecturecheck.model.device import DeviceMemory
from pytest_lecturecheck.model.probe import Snapshot
from pytest_lecturecheck.plugin.progress_line import LiveLine, LogLines, open_live, shown_progress
from pytest_lecturecheck.plugin.wait_lines import WaitLines


def progress(*devices, snapshot=None):
    return RunProgress(
        lecture="a.md", number=2, total=3, elapsed_seconds=4.0, snapshot=snapshot, devices=devices, waits_for="for b"
    )


def test_readings_of_the_kernel_are_shown():
    snapshot = Snapshot(footprint_bytes=10, peak_footprint_bytes=20, age_seconds=0.1)
    shown = shown_progress(progress(snapshot=snapshot))
    assert (shown.name, shown.cell, shown.total, shown.elapsed_seconds) == ("a.md", 2, 3, 4.0)
    assert (shown.now_bytes, shown.peak_bytes, shown.waits_for) == (10, 20, "for b")


@pytest.mark.parametrize(
    ("devices", "used", "free"),
    [
        ((), None, None),
        ((DeviceMemory(used_bytes=5, total_bytes=None),), 5, None),
        ((DeviceMemory(used_bytes=5, total_bytes=8), DeviceMemory(used_bytes=7, total_bytes=90)), 5, 3),
        ((DeviceMemory(used_bytes=9, total_bytes=8),), 9, 0),
    ],
)
def test_the_fullest_gpu_is_shown(devices, used, free):
    shown = shown_progress(progress(*devices))
    assert (shown.gpu_used_bytes, shown.gpu_free_bytes) == (used, free)


class Reporter:
    """A terminal reporter, on a terminal or in a log."""

    def __init__(self, *, isatty):
        self.isatty = isatty


class Config:
    """As much of pytest's configuration as the choice needs."""

    def __init__(self, reporter, verbosity):
        self.pluginmanager = self
        self.reporter = reporter
        self.verbosity = verbosity

    def getplugin(self, name):
        return self.reporter if name == "terminalreporter" else None

    def get_verbosity(self):
        return self.verbosity


@pytest.mark.parametrize(
    ("isatty", "verbosity", "interval", "kind"),
    [
        (True, 0, 60.0, LiveLine),
        (True, -1, 60.0, WaitLines),
        (False, 0, 60.0, LogLines),
        (False, 0, 0.0, WaitLines),
        (False, -1, 60.0, WaitLines),
        (None, 0, 60.0, LiveLine),
    ],
)
def test_what_shows_progress(isatty, verbosity, interval, kind):
    reporter = None if isatty is None else Reporter(isatty=isatty)
    live = open_live(Config(reporter, verbosity), interval_seconds=interval, guarded=str)
    assert type(live) is kind
