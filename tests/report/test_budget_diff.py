from __future__ import annotations

from pathlib import Path

from support.hostile import HOSTILE, UNSAFE
from support.made_changes import change
from support.made_entries import MIB

from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.report.terminal.budget_diff import render_changes, render_unrecorded

GOLDEN = Path(__file__).parent / "golden" / "changes-100.txt"
CHANGES = [
    change(
        old_limit=1400 * MIB, new_limit=1600 * MIB, old_seen=(1250 * MIB, 1270 * MIB), new_seen=(1440 * MIB, 1454 * MIB)
    ),
    change(metric=Metric.WALL, old_limit=34.0, new_limit=30.0, old_seen=(12.0,), new_seen=(10.0,)),
    change(metric=Metric.CPU, old_seen=(20.0,), new_seen=(20.0,)),
    change(lecture="lectures/new.md", new_limit=200 * MIB, new_seen=(100 * MIB, 136 * MIB), disagreement=True),
    change(
        lecture="lectures/hand.md",
        variant="gpu-f32",
        old_limit=500 * MIB,
        new_limit=500 * MIB,
        old_seen=(450 * MIB,),
        new_seen=(500.001 * MIB,),
        kept_by_hand=True,
    ),
    change(
        lecture="lectures/hand.md",
        metric=Metric.WALL,
        old_limit=60.0,
        new_limit=60.0,
        old_seen=(20.0,),
        is_unmeasured=True,
    ),
    change(lecture="lectures/quiet.md", old_limit=90.0, new_limit=90.0, old_seen=(5.0,), is_untouched=True),
]


def test_changes_are_listed_as_expected():
    assert render_changes(CHANGES, width=100) == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_sessions_without_changes_say_so():
    assert render_changes([]) == ["no budget changes"]
    assert render_changes([CHANGES[-1]]) == ["1 lecture unchanged: differences within the noise"]
    assert render_changes([CHANGES[2]])[-1] == "1 lecture recorded; limits: no change"


def test_hostile_names_are_safe_at_every_width():
    for width in (60, 80, 200):
        rows = render_changes([*CHANGES, change(lecture=HOSTILE, variant=HOSTILE, new_limit=5.0)], width=width)
        assert max(len(row) for row in rows) <= width
        assert UNSAFE.search("\n".join(rows).replace("\n", "")) is None


def test_colour_is_off_by_default():
    coloured = render_changes(CHANGES, width=100, colour=True)
    assert not any("\x1b" in row for row in render_changes(CHANGES, width=100))
    assert coloured[1] == "\x1b[1mlectures/intro.md\x1b[0m"


def test_values_are_never_cut_on_narrow_terminals():
    near = change(old_limit=417.7 * MIB, new_limit=417.6 * MIB, old_seen=(353.7 * MIB,), new_seen=(353.6 * MIB,))
    far = change(old_limit=1536 * MIB, new_limit=417.6 * MIB, old_seen=(1353.7 * MIB,), new_seen=(353.6 * MIB,))
    assert render_changes([near, far], width=80)[:4] == [
        "  metric          limit                 change  highest measured       change",
        "lectures/intro.md",
        "  peak footprint  417.7 -> 417.6 MiB  -0.024 %  353.7 -> 353.6 MiB   -0.028 %",
        "  peak footprint  1.5 GiB -> 418 MiB     -73 %  1.32 GiB -> 354 MiB     -74 %",
    ]
    assert render_changes([near, far], width=60)[:4] == [
        "  metric          limit                 change",
        "lectures/intro.md",
        "  peak footprint  417.7 -> 417.6 MiB  -0.024 %",
        "  peak footprint  1.5 GiB -> 418 MiB     -73 %",
    ]


def run_of(lecture, outcome=Outcome.COMPLETED, variant=""):
    return Run(lecture=lecture, platform="here", outcome=outcome, variant=variant)


def test_unrecorded_lectures_are_named_once():
    runs = [
        run_of("good.md"),
        run_of("gpu.md", Outcome.SKIPPED),
        run_of("bad.md"),
        run_of("bad.md", Outcome.FAILED),
        run_of("bad.md", Outcome.DIED),
        run_of("two.md", Outcome.DIED, "c=2"),
    ]
    assert render_unrecorded(runs) == ["not recorded, because a run did not finish: bad.md, two.md [c=2]"]
    assert render_unrecorded(runs[:3]) == []
    assert render_unrecorded(runs[:1], strictly_failed=[run_of("loose.md")] * 3) == [
        "not recorded, because a finding failed it under --lecture-strict: loose.md"
    ]


def test_many_unrecorded_lectures_are_counted():
    (line,) = render_unrecorded([run_of(f"{number}.md", Outcome.FAILED) for number in range(7)], width=100)
    assert line.endswith(": 0.md, 1.md, 2.md, 3.md, 4.md and 2 more")
    rows = render_unrecorded([run_of(HOSTILE, Outcome.FAILED)])
    assert UNSAFE.search("".join(rows)) is None


def test_a_warning_about_fewer_runs_is_shown_once_for_a_lecture():
    numbers = {"old_limit": 400 * MIB, "new_limit": 300 * MIB, "old_seen": (300 * MIB,), "new_seen": (200 * MIB,)}
    changes = [
        change(warnings=("recorded from 1 run, 3 before",), **numbers),
        change(metric=Metric.PEAK_RSS, **numbers),
    ]
    text = "\n".join(render_changes(changes, width=100))
    assert text.count("recorded from 1 run, 3 before") == 1
