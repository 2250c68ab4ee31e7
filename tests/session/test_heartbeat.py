"""Progress in a log: lines of start, progress and end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile import HOSTILE, UNSAFE
from support.made_entries import died, failed, over, quiet_ones, within

from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.probe.memory_state import MemoryRoom, MemoryState
from pytest_lecturecheck.report.terminal.progress import ShownProgress
from pytest_lecturecheck.session.heartbeat import Heartbeat, render_beat, render_end, render_start
from pytest_lecturecheck.session.machine_watch import MachineReading

GIB = 1024**3


def at(elapsed, cell=1, name="lectures/nuts.md", **rest):
    return ShownProgress(name=name, cell=cell, total=12, elapsed_seconds=elapsed, **rest)


NO_MACHINE = MachineReading(memory=MemoryState())


def machine(free_bytes):
    """A machine of 16 GiB."""
    room = MemoryRoom(free_bytes=round(free_bytes), total_bytes=16 * GIB)
    return MachineReading(memory=MemoryState(machine=room), load=1.94)


class Log:
    """A heartbeat with a clock that is set by hand."""

    def __init__(self, interval=60.0, machine=NO_MACHINE):
        self.lines, self.now, self.machine = [], 0.0, machine
        self.heart = Heartbeat(
            self.lines.append, interval_seconds=interval, clock=lambda: self.now, read_machine=lambda: self.machine
        )

    def pass_time(self, seconds, *progress):
        self.now += seconds
        for item in progress:
            self.heart.note(item)
        self.heart.beat()


def test_start_progress_and_end_have_a_line_each():
    log = Log()
    log.pass_time(0, at(0, 0))
    for second in range(1, 186):
        log.pass_time(1, at(second, 1 + second // 30, now_bytes=1.2 * GIB, peak_bytes=1.2 * GIB))
    entry = within("lectures/nuts.md")
    log.heart.end(replace(entry, seconds=185.0))
    assert log.lines == [
        "lectures/nuts.md: starts, 12 code cells",
        "lectures/nuts.md: cell 3 of 12, 1 min 00 s, 1.2 GiB",
        "lectures/nuts.md: cell 5 of 12, 2 min 00 s, 1.2 GiB",
        "lectures/nuts.md: cell 7 of 12, 3 min 00 s, 1.2 GiB",
        "lectures/nuts.md: within after 3 min 05 s, peak 1.21 GiB",
    ]


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (at(5, 0), "lectures/nuts.md: kernel starts, 5 s"),
        (at(5, 0, is_ending=True), "lectures/nuts.md: kernel stops, 5 s"),
        (
            at(185, 7, now_bytes=GIB, peak_bytes=2 * GIB),
            "lectures/nuts.md: cell 7 of 12, 3 min 05 s, 1 GiB, peak 2 GiB",
        ),
        (at(5, 0, waits_for="waits for 4 GiB, 2 running"), "lectures/nuts.md: waits for 4 GiB, 2 running, for 5 s"),
        (at(12, 0, waits_for="queued in Slurm"), "lectures/nuts.md: queued in Slurm for 12 s"),
    ],
)
def test_a_line_of_progress(progress, text):
    assert render_beat(progress) == text


def test_a_line_has_gpu_memory_and_the_machine():
    progress = at(185, 7, now_bytes=GIB, gpu_used_bytes=3 * GIB, gpu_free_bytes=12 * GIB)
    assert render_beat(progress, machine(9.5 * GIB)) == (
        "lectures/nuts.md: cell 7 of 12, 3 min 05 s, 1 GiB, GPU 3 GiB used, 12 GiB free; "
        "machine 9.5 GiB free of 16 GiB; load 1.9"
    )
    assert render_beat(replace(progress, gpu_free_bytes=None)).endswith(", GPU 3 GiB used")


def test_a_jump_of_memory_is_written_with_the_reading_before():
    log = Log(machine=machine(12 * GIB))
    log.pass_time(0, at(0, 0))
    log.pass_time(10, at(10, 3, now_bytes=GIB))
    log.pass_time(0.5, at(10.5, 3, now_bytes=1.5 * GIB))
    log.pass_time(0.5, at(11, 3, now_bytes=7 * GIB))
    log.pass_time(0.5, at(11.5, 3, now_bytes=9 * GIB))
    log.pass_time(5, at(16.5, 3, now_bytes=9.5 * GIB))
    around = "machine 12 GiB free of 16 GiB; load 1.9"
    assert log.lines == [
        "lectures/nuts.md: starts, 12 code cells",
        f"lectures/nuts.md: cell 3 of 12, 11 s, 7 GiB; {around}, up from 1.5 GiB 0.5 s before",
        f"lectures/nuts.md: cell 3 of 12, 16.5 s, 9.5 GiB; {around}, up from 9 GiB 5 s before",
    ]


def test_low_memory_names_the_largest_lecture():
    log = Log(machine=machine(12 * GIB))
    log.pass_time(0, at(0, 0, name="a.md"), at(0, 0, name="b.md"))
    log.pass_time(1, at(1, 1, name="a.md", now_bytes=100), at(1, 2, name="b.md", now_bytes=200))
    log.machine = machine(1.5 * GIB)
    for _ in range(3):
        log.pass_time(1)
    assert log.lines[2:] == ["memory is low: 1.5 GiB of 16 GiB free (9 %), machine; b.md: cell 2 of 12, 1 s, 200 B"]


def test_waiting_is_written_before_the_start():
    log = Log()
    log.pass_time(0, at(0, 0, waits_for="waits for 4 GiB, 1 running"))
    log.pass_time(30, at(30, 0, waits_for="waits for 4 GiB, 1 running"))
    log.pass_time(30, at(0, 0))
    assert log.lines == [
        "lectures/nuts.md: waits for 4 GiB, 1 running",
        "lectures/nuts.md: starts, 12 code cells",
    ]


def test_the_line_of_an_end():
    assert render_end(over()).startswith(
        "lectures/programming/kesten_processes_in_depth.md: over after 37 s: peak footprint 7.94 GiB, limit 1.39 GiB: "
    )
    assert render_end(died()) == (
        "lectures/gpu/abort.ipynb [gpu-f32]: died after 5 s: kernel aborted (SIGABRT) in code cell 2"
    )


def test_lectures_that_were_not_run_have_no_line():
    log = Log()
    for entry in quiet_ones():
        if entry.run.outcome in {Outcome.SKIPPED, Outcome.NOTHING_TO_RUN}:
            log.heart.end(entry)
    assert log.lines == []


def test_a_short_lecture_has_a_start_and_an_end():
    log = Log()
    log.heart.note(at(0, name="lectures/bang.md"))
    assert log.lines == []
    log.heart.end(failed())
    assert log.lines == [
        "lectures/bang.md: starts, 12 code cells",
        "lectures/bang.md: failed after 12.2 s: ZeroDivisionError: division by zero, in code cell 3, line 43",
    ]
    log.pass_time(1000)
    assert len(log.lines) == 2


def test_a_repeated_run_starts_again():
    log = Log()
    log.pass_time(0, at(0))
    log.pass_time(50, at(50))
    log.pass_time(1, at(0))
    log.pass_time(50, at(50))
    assert log.lines == ["lectures/nuts.md: starts, 12 code cells"] * 2


@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from(["a.md", "b.md", "c.md"])), max_size=60), st.floats(1, 100))
def test_lines_keep_the_interval(steps, interval):
    log = Log(interval)
    elapsed = dict.fromkeys(("a.md", "b.md", "c.md"), 0.0)
    for seconds, name in steps:
        elapsed = {key: value + seconds for key, value in elapsed.items()}
        log.pass_time(seconds, at(elapsed[name], name=name))
    for name in elapsed:
        reported = [line for line in log.lines if line.startswith(f"{name}: cell")]
        assert len(reported) <= log.now / interval
        assert sum(line == f"{name}: starts, 12 code cells" for line in log.lines) == any(
            name == item for _, item in steps
        )


@pytest.mark.parametrize("text", [HOSTILE, "a\nb\x1b[31m"])
def test_hostile_names_stay_on_their_line(text):
    entry = failed(lecture=text)
    for line in (render_start(at(0, name=text)), render_beat(at(0, name=text, waits_for=text)), render_end(entry)):
        assert UNSAFE.search(line) is None
        assert "\n" not in line
