"""Figures that a lecture reports, in every report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.hostile import HOSTILE, UNSAFE
from support.made_changes import change
from support.made_reported_values import BUDGETS, DISTANCE, SPEEDUP, entry

from pytest_lecturecheck.budget.limits import ReportedValueBudget
from pytest_lecturecheck.budget.reported_value_recording import ReportedValueChange
from pytest_lecturecheck.model.reported_value import Better, ReportedValue
from pytest_lecturecheck.report.html import render_html
from pytest_lecturecheck.report.junit_properties import properties
from pytest_lecturecheck.report.markdown_report import render_markdown
from pytest_lecturecheck.report.measurement_text import reported_text
from pytest_lecturecheck.report.terminal.budget_diff import render_changes
from pytest_lecturecheck.report.terminal.failure import render_failure
from pytest_lecturecheck.report.terminal.summary import render_summary
from pytest_lecturecheck.report.text import display_width
from pytest_lecturecheck.store.runs import entry_from_dict, entry_to_dict
from pytest_lecturecheck.verdict import Policy, judge


def test_failures_show_values_limits_and_remedies():
    text = render_failure(entry(DISTANCE, SPEEDUP), width=100)
    head, _, rest = text.partition("\n\n")
    assert head.split("\n") == [
        (
            "speedup 1.21 x, at least 1.5 x wanted: 0.29 x under (-19 %), in code cell 2, line 30; "
            "recorded: 1.66 to 1.7 x (2 runs)"
        ),
        "lectures/sweep.md:30: code cell 2 of 2",
    ]
    assert rest.split("\n\nChanged since")[0] == (
        "Compared with the budget of linux-x86_64-cpu, recorded 2025-11-02 from 2 runs\n"
        "  metric          measured           limit  verdict       recorded\n"
        "  peak footprint   188 MiB         220 MiB  within        180 to 188 MiB\n"
        "  distance         3.2e-15           1e-12  within        1e-15\n"
        "  efficiency             -        0.8 to 1  not measured  set by hand\n"
        "  speedup           1.21 x  at least 1.5 x  under         1.66 to 1.7 x\n"
        "\n"
        "Measurement methods\n"
        "  peak footprint: exact (VmHWM), within 256 KiB; recorded: sampled\n"
        "  efficiency not measured (the lecture did not report it), at least 0.8 wanted, limit 1\n"
        "  machine: Linux 6.18, x86_64, Example CPU 7763, 4 cores, 16 GiB RAM, no swap, limit 7 GiB by\n"
        "    container (cgroup v2 memory.max)\n"
        "\n"
        "What to do\n"
        "  If this is intended, edit the limit of speedup in the budget file linux-x86_64-cpu.toml; recording\n"
        "  keeps limits set by hand."
    )


@pytest.mark.parametrize("width", [60, 80, 200])
def test_failures_and_summaries_fit_the_width(width):
    made = entry(SPEEDUP, *(ReportedValue(name=f"f{number}", value=number / 7) for number in range(40)))
    rows = [
        *render_failure(made, width=width).split("\n")[2:],
        *render_summary([made], width=width, colour=False),
    ]
    assert max(display_width(row) for row in rows) <= width


def test_summary_lists_reported_values_once():
    entries = [entry(DISTANCE), entry(DISTANCE, lecture="lectures/other.md"), entry(lecture="lectures/silent.md")]
    rows = render_summary(entries, width=80, colour=False)
    start = rows.index("Reported by the lectures")
    assert rows[start : start + 5] == [
        "Reported by the lectures",
        "  distance 3.2e-15 (<= 1e-12)",
        "      lectures/sweep.md",
        "      lectures/other.md",
        "",
    ]


PEAK = ReportedValue(name="live_peak", value=10.8, unit="MiB")
WITH_UNIT = ReportedValueBudget(name="live_peak", at_least=1.0, limit=14.8, unit="MiB")


def held(figure, figure_budget, *, has_budget=True):
    made = entry(figure)
    budget = replace(made.budget, reported_values={figure.name: figure_budget})
    verdict = judge(made.run, budget, Policy())
    return replace(made, budget=budget if has_budget else None, verdict=verdict)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (held(PEAK, WITH_UNIT), "live_peak 10.8 MiB (>= 1 MiB, <= 14.8 MiB)"),
        # A kept session has no budget at hand; a limit without a unit has that of what was reported.
        (held(PEAK, WITH_UNIT, has_budget=False), "live_peak 10.8 MiB (>= 1 MiB, <= 14.8 MiB)"),
        (held(PEAK, replace(WITH_UNIT, unit="", at_least=None)), "live_peak 10.8 MiB (<= 14.8 MiB)"),
        # A limit in another unit keeps its own, and gets none that may be wrong.
        (held(PEAK, replace(WITH_UNIT, unit="MB", at_least=None)), "live_peak 10.8 MiB (<= 14.8 MB)"),
        (held(PEAK, replace(WITH_UNIT, unit="MB"), has_budget=False), "live_peak 10.8 MiB (>= 1, <= 14.8)"),
    ],
)
def test_limits_have_their_unit(made, text):
    assert reported_text(made) == text


def test_limits_have_their_unit_in_tables_of_failures_and_pages():
    made = held(PEAK, replace(WITH_UNIT, limit=9.0))
    rows = render_failure(made, width=100).split("\n")
    assert [row for row in rows if row.startswith("  live_peak")] == [
        "  live_peak       10.8 MiB    9 MiB  over     set by hand"
    ]
    within = render_failure(replace(made, verdict=held(PEAK, WITH_UNIT).verdict), width=100).split("\n")
    assert [row for row in within if row.startswith("  live_peak")] == [
        "  live_peak       10.8 MiB  1 to 14.8 MiB  within   set by hand"
    ]
    page = render_html([held(PEAK, WITH_UNIT)], platform="linux-x86_64-cpu", machine=None)
    assert "at least 1 MiB, at most 14.8 MiB" in page
    text = render_markdown([held(PEAK, WITH_UNIT)])
    assert "- live_peak 10.8 MiB (&gt;= 1 MiB, &lt;= 14.8 MiB): <code>lectures/sweep.md</code>" in text


def test_lectures_without_reported_values_have_no_section():
    assert "Reported by the lectures" not in render_summary([entry()], width=80, colour=False)


def test_markdown_lists_them():
    text = render_markdown([entry(DISTANCE)])
    rows = "### Reported by the lectures\n\n- distance 3.2e-15 (&lt;= 1e-12): <code>lectures/sweep.md</code>"
    assert rows in text


def test_properties_hold_every_digit():
    made = entry(ReportedValue(name="distance", value=1 / 3), SPEEDUP)
    assert [pair for pair in properties(made) if ".figure." in pair[0]] == [
        ("lecturecheck.figure.distance", "0.3333333333333333"),
        ("lecturecheck.figure.speedup", "1.21"),
        ("lecturecheck.figure.speedup.unit", "x"),
        ("lecturecheck.figure.distance.limit", "1e-12"),
        ("lecturecheck.figure.efficiency.at_least", "0.8"),
        ("lecturecheck.figure.efficiency.limit", "1.0"),
        ("lecturecheck.figure.efficiency.unavailable", "not reported"),
        ("lecturecheck.figure.speedup.at_least", "1.5"),
    ]


def test_reported_values_survive_the_store():
    made = entry(DISTANCE, SPEEDUP)
    stored = entry_from_dict(entry_to_dict(made.run, made.verdict, seconds=0.0))
    assert (stored.run, stored.verdict) == (made.run, made.verdict)
    assert stored.run.reported_values == {"distance": DISTANCE, "speedup": SPEEDUP}


def figure_change(old=None, new=None, **more):
    return ReportedValueChange(lecture="lectures/sweep.md", variant="", old=old, new=new, **more)


def test_changes_of_reported_values_follow_those_of_metrics():
    changes = [
        change(new_limit=5.0, new_seen=(4.0,)),
        figure_change(new=ReportedValueBudget(name="speedup", seen=(1.7,), unit="x"), better=Better.HIGHER),
        figure_change(BUDGETS[1], replace(BUDGETS[1], seen=(3e-9,))),
        figure_change(BUDGETS[0], BUDGETS[0], is_untouched=True),
    ]
    assert render_changes(changes, width=100)[3:] == [
        "",
        "  reported by the lectures",
        "lectures/sweep.md",
        "  speedup: seen 1.7 x; no limit: set at_least by hand",
        "  distance: seen 3e-09 (before: 1e-15); limit 1e-12 (set by hand, kept)",
        "    these runs are over the limit set by hand: distance 3e-09, limit 1e-12",
        "",
        "1 lecture recorded; limits: 1 new",
    ]
    assert render_changes(changes[1:2])[-1] == "no limit changed"


def test_hostile_names_are_harmless():
    made = ReportedValueChange(lecture=HOSTILE, variant=HOSTILE, old=None, new=BUDGETS[0])
    for width in (60, 200):
        rows = render_changes([made], width=width)
        assert max(len(row) for row in rows) <= width
        assert UNSAFE.search("".join(rows)) is None
