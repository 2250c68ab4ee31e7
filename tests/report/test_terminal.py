from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.hostile import HOSTILE, UNSAFE, hostile_entry, hostile_outputs
from support.made_entries import (
    MACHINE,
    MIB,
    RENDERINGS,
    cell,
    comparison,
    died,
    failed,
    golden_path,
    not_started,
    over,
    over_by_time,
    replication,
    run_of,
    session,
    timed_out,
    verdict,
    within,
    without_budget,
)

from pytest_lecturecheck.diagnosis import Cause, CauseKind
from pytest_lecturecheck.model.cell_run import CellError, CellStatus
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.run import PROGRAM_LAUNCHER, LaunchFacts, Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.terminal.exceeded import remedies
from pytest_lecturecheck.report.terminal.failure import render_failure
from pytest_lecturecheck.report.terminal.progress import ShownProgress, render_header, render_live
from pytest_lecturecheck.report.terminal.remarks import remark_groups
from pytest_lecturecheck.report.terminal.replication import replication_line
from pytest_lecturecheck.report.terminal.summary import render_summary
from pytest_lecturecheck.report.text import display_width
from pytest_lecturecheck.store.runs import entry_from_dict, entry_to_dict
from pytest_lecturecheck.verdict import VerdictKind


@pytest.mark.parametrize("name", RENDERINGS)
def test_texts_are_as_expected(name):
    assert RENDERINGS[name]() + "\n" == golden_path(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("make", [over, failed, timed_out, died, not_started, lambda: replication()[1]])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_failures_fit_the_width_except_headline_and_location(make, width):
    rows = render_failure(make(), width=width).split("\n")
    assert rows[0] == make().verdict.headline
    assert rows[1].startswith(make().location)
    assert max(display_width(row) for row in rows[2:] or [""]) <= width


@pytest.mark.parametrize("width", [60, 80, 200])
def test_summaries_fit_the_width(width):
    assert max(display_width(row) for row in render_summary(session(), width=width, colour=False)) <= width


@pytest.mark.parametrize("make", [over, failed, timed_out, died, not_started])
def test_colour_changes_nothing_but_colour(make):
    coloured, bare = render_failure(make(), colour=True), render_failure(make(), colour=False)
    assert "\x1b" not in bare
    assert coloured.startswith(f"\x1b[1;31m{make().verdict.headline}\x1b[0m\n")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == bare


def test_colour_keeps_the_alignment():
    coloured, bare = (render_summary(session(), width=80, colour=colour) for colour in (True, False))
    assert [re.sub(r"\x1b\[[0-9;]*m", "", row).rstrip() for row in coloured] == bare
    assert not any("\x1b" in row for row in bare)
    assert any("\x1b[31mdied" in row for row in coloured)


@pytest.mark.parametrize("verbosity", [-2, -1, 0])
def test_a_quiet_session_gets_the_condensed_traceback(verbosity):
    assert render_failure(failed(), verbosity=verbosity) == RENDERINGS["failed-80"]()


@pytest.mark.parametrize("width", [0, 1, 10, 39])
def test_absurd_widths_still_render(width):
    assert render_failure(failed(), width=width).startswith(failed().verdict.headline)
    assert render_summary(session(), width=width, colour=False)[-1].endswith("s")


def test_the_failing_line_stands_out():
    rows = render_failure(failed(), colour=True).split("\n")
    assert "\x1b[1;31m>   43 | so.minimize(f, [1.0])\x1b[0m" in rows


def test_hostile_text_is_harmless_everywhere():
    for output in hostile_outputs(HOSTILE):
        assert UNSAFE.search(output) is None
        assert output.encode("utf-8")


@settings(max_examples=examples(25), deadline=None)
@given(st.text(st.one_of(st.sampled_from("\x1b\x9b\x00\r\n\t]0;m"), st.characters(exclude_categories=())), max_size=40))
def test_any_text_is_harmless_everywhere(text):
    for output in hostile_outputs(text):
        assert UNSAFE.search(output) is None


def test_a_warning_in_one_long_line_stays_whole():
    warning = (
        "/opt/hostedtoolcache/Python/3.12/x64/lib/python3.12/subprocess.py:1885: RuntimeWarning: os.fork() was called. "
        "os.fork() is incompatible with multithreaded code, and JAX is multithreaded, so this will likely lead to a "
        "deadlock."
    )
    entry = failed()
    cells = [replace(item, output_extract=f"{warning}\n") if item.number == 3 else item for item in entry.run.cells]
    shown = render_failure(replace(entry, run=replace(entry.run, cells=tuple(cells))), width=80)
    assert warning in " ".join(shown.split())


@pytest.mark.parametrize(("name", "is_whole"), [("ExceptionGroup", True), ("ValueError", False)])
def test_the_printed_traceback_of_an_exception_group_is_shown(name, is_whole):
    entry, rows = failed(), "\n".join(f"  | row {number}" for number in range(20))
    error = CellError(name=name, value="two (2 sub-exceptions)")
    evidence = replace(entry.run.evidence, error=error)
    cells = [replace(item, output_extract=rows) if item.number == 3 else item for item in entry.run.cells]
    shown = render_failure(replace(entry, run=replace(entry.run, cells=tuple(cells), evidence=evidence)), width=80)
    assert ("| row 0\n" in shown) is is_whole


def test_what_ipython_says_to_people_at_a_prompt_is_left_out():
    printed = "first\n/env/interactiveshell.py:3831: UserWarning: To exit: use 'exit', 'quit', or Ctrl-D.\n"
    printed += "  warn(\"To exit: use 'exit', 'quit', or Ctrl-D.\", stacklevel=1)\n"
    hint = "An exception has occurred, use %tb to see the full traceback."
    entry = failed()
    error = CellError(name="SystemExit", value="2", traceback=(hint, "SystemExit: 2"))
    evidence = replace(entry.run.evidence, error=error)
    cells = [replace(item, output_extract=printed) if item.number == 3 else item for item in entry.run.cells]
    shown = render_failure(replace(entry, run=replace(entry.run, cells=tuple(cells), evidence=evidence)), width=200)
    assert "first" in shown
    assert "To exit" not in shown
    assert hint not in shown


def test_very_long_lines_are_bounded():
    text = render_failure(hostile_entry("x" * 200_000 + "\n" * 10_000), width=80)
    assert len(text) < 20_000
    assert len(text.split("\n")[0]) <= 500


def test_equal_remarks_are_joined():
    text = "\n".join(render_summary(session(), width=200, colour=False))
    assert text.count("time not compared") == 1
    assert text.count("no kernelspec is named") == 1
    assert "      and 2 more\n" in text


def test_peaks_over_their_limit_never_look_equal():
    run = run_of("lectures/a.md", [cell(1, 5, 1000.0001)])
    items = (comparison(run, Metric.PEAK_FOOTPRINT, VerdictKind.OVER, 1000 * MIB),)
    entry = Entry(run=run, verdict=verdict(VerdictKind.OVER, "over", failed=True, comparisons=items))
    row = render_summary([entry], width=80, colour=False)[1]
    assert row == "lectures/a.md  over     1000.0001 MiB  1000 MiB  0.1 s  1 (line 5)"


def test_shortened_names_keep_their_ends():
    long = within("lectures/dynamic_programming_in_continuous_time/the_income_fluctuation_problem_two.md")
    row = render_summary([long], width=80, colour=False)[1]
    assert row == "lectures/...ion_problem_two.md  within   1.21 GiB  1.39 GiB  10 s  3 (line 41)"


def test_many_cells_show_the_heaviest_and_the_last():
    cells = [cell(number, number * 10, 60 + number % 7, number % 7) for number in range(1, 41)]
    cells[4] = cell(5, 50, 900, 840)
    cells[39] = cell(40, 400, 61, 1, status=CellStatus.FAILED)
    entry = failed()
    run = replace(entry.run, cells=tuple(cells), evidence=replace(entry.run.evidence, cell_number=40, line=402))
    text = render_failure(replace(entry, run=run), width=80)
    table = text[text.index("Cells so far") :].split("\n")
    assert table == [
        "Cells so far",
        "     cell  line  status     peak    added   wall",
        "        5    50  ok      900 MiB  840 MiB  0.1 s",
        "        6    60  ok       66 MiB    6 MiB  0.1 s",
        "       12   120  ok       65 MiB    5 MiB  0.1 s",
        "       13   130  ok       66 MiB    6 MiB  0.1 s",
        "       19   190  ok       65 MiB    5 MiB  0.1 s",
        "       20   200  ok       66 MiB    6 MiB  0.1 s",
        "       27   270  ok       66 MiB    6 MiB  0.1 s",
        "       34   340  ok       66 MiB    6 MiB  0.1 s",
        "       37   370  ok       62 MiB    2 MiB  0.1 s",
        "       38   380  ok       63 MiB    3 MiB  0.1 s",
        "       39   390  ok       64 MiB    4 MiB  0.1 s",
        "  >    40   400  failed   61 MiB    1 MiB  0.1 s",
        "  28 lighter cells left out",
    ]


def test_strict_findings_are_shown_if_no_cell_failed():
    finding = Finding(
        kind=FindingKind.SHELL,
        message="shell line '!ls' ended with code 2",
        cell_number=2,
        line=30,
        fails_when_strict=True,
    )
    base = within(findings=(finding,))
    said = verdict(VerdictKind.FAILED, "strict: shell line '!ls' ended with code 2", failed=True)
    assert render_failure(replace(base, verdict=said)) == (
        "strict: shell line '!ls' ended with code 2\nlectures/jax_intro.md:30: code cell 2 of 3"
    )


@pytest.mark.parametrize(("line", "marked"), [(31, 2), (30, None), (None, None)])
def test_the_line_of_a_strict_finding_is_marked(line, marked):
    finding = Finding(kind=FindingKind.SHELL, message="it failed", cell_number=2, line=line, fails_when_strict=True)
    base = within(findings=(finding,))
    entry = replace(base, verdict=verdict(VerdictKind.FAILED, "strict: it failed", failed=True))
    assert entry.failing_line_in_cell == marked
    assert entry.location == f"lectures/jax_intro.md:{line or 30}"


def install(message, **more):
    return Finding(kind=FindingKind.INSTALL, message=message, cell_number=1, line=12, **more)


@pytest.mark.parametrize(("kind", "is_shown"), [(CauseKind.CELL_ERROR, True), (CauseKind.NETWORK, False)])
@pytest.mark.parametrize("may_explain", [True, False])
def test_only_installations_that_may_explain_an_error_are_related(kind, is_shown, may_explain):
    base = failed()
    entry = replace(
        base,
        run=replace(base.run, findings=(install("install line 'x'", may_explain=may_explain),)),
        verdict=replace(base.verdict, cause=Cause(kind=kind, headline="h")),
    )
    assert ("install line 'x'" in render_failure(entry)) is (is_shown and may_explain)


def test_findings_of_all_runs_are_listed_once():
    finding = install("install line '!pip install a' changed nothing, all was there")
    once = install("only in the second run")
    runs = [within(repeat=1, findings=(finding,)), within(repeat=2, findings=(finding, once))]
    assert dict(remark_groups(runs))["Findings"] == [
        (finding.message, ["lectures/jax_intro.md: code cell 1, line 12"]),
        (once.message, ["lectures/jax_intro.md (run 2): code cell 1, line 12"]),
    ]


def test_locations_of_one_lecture_share_a_line():
    found = [
        Finding(kind=FindingKind.NESTED_CELL, message="the cell is nested", cell_number=number, line=10 * number)
        for number in range(1, 7)
    ]
    assert dict(remark_groups([within(findings=tuple(found))]))["Findings"] == [
        (
            "the cell is nested",
            [
                (
                    "lectures/jax_intro.md: code cell 1, line 10; code cell 2, line 20; code cell 3, line 30; "
                    "code cell 4, line 40; and 2 more"
                )
            ],
        )
    ]


def test_a_finding_that_the_verdict_reports_is_not_repeated():
    empty = within(findings=(Finding(kind=FindingKind.NO_CODE, message="no code cells"),))
    empty = replace(empty, verdict=verdict(VerdictKind.NOTHING_TO_RUN, "no code cells"))
    assert dict(remark_groups([empty])) == {"Verdicts": [("nothing to run: no code cells", ["lectures/jax_intro.md"])]}


def test_the_line_of_a_fence_and_of_its_code_are_told_apart():
    entry = failed()
    cells = tuple(replace(item, opening_line=item.line - 1) for item in entry.run.cells)
    rows = render_failure(replace(entry, run=replace(entry.run, cells=cells)), width=100).split("\n")
    assert rows[1] == "lectures/bang.md:43: code cell 3 of 12, which starts at line 40 (its code at line 41)"


def test_repeated_runs_count_once_in_the_replication_line():
    runs = [within(repeat=1), within(repeat=2)]
    assert "wall time 10 s (cells; 11 s with kernel starts) for 1 lecture;" in replication_line(runs)


def test_replication_line_has_memory_time_and_machine():
    first, second = replication()
    swap = Measurement(metric=Metric.PEAK_SWAP, value=3 * MIB, method=Method.SAMPLED)
    second = replace(second, run=replace(second.run, readings={**second.run.readings, Metric.PEAK_SWAP: swap}))
    third = replace(died(), run=replace(died().run, outcome=Outcome.DIED))
    assert replication_line([first, second, third]) == (
        "peak footprint 900 MiB in lectures/gpu/abort.ipynb [gpu-f32], exact (VmHWM), within 256 KiB; "
        "peak swap >= 3 MiB; wall time 5.2 s (cells; 9 s with kernel starts) for 3 lectures; "
        "declared 256 MB (244 MiB) and 2 min; "
        f"incomplete: 1 lecture did not run to the end; {MACHINE.text}"
    )


def test_declared_limits_differ_from_budgets():
    base = over()
    items = (comparison(base.run, Metric.PEAK_FOOTPRINT, VerdictKind.FITS, 9000 * MIB), *base.verdict.comparisons)
    rows = render_failure(replace(base, verdict=replace(base.verdict, comparisons=items)), width=120).split("\n")
    assert rows[6:11] == [
        "Compared with the declared limits and the budget of linux-x86_64-cpu, recorded 2025-11-02 from 3 runs",
        "  metric                    measured     limit  verdict                 recorded",
        "  peak footprint, declared  7.94 GiB  8.79 GiB  fits                    -",
        "  peak footprint            7.94 GiB  1.39 GiB  6.55 GiB over (+472 %)  1.21 to 1.26 GiB",
        "  wall time                   36.2 s      30 s  6.24 s over (+21 %)     9.1 to 10.2 s",
    ]


def test_empty_sessions_have_no_summary():
    assert render_summary([], width=80, colour=False) == []


def test_header_names_budget_file_and_platform():
    assert render_header("linux-x86_64-cpu", MACHINE, "check", "lecture-budgets/linux-x86_64-cpu.toml") == [
        "lecturecheck: comparing with lecture-budgets/linux-x86_64-cpu.toml",
        f"platform: linux-x86_64-cpu; {MACHINE.text}",
    ]
    assert render_header("g4dn", None, "check", None) == [
        "lecturecheck: no budget file for g4dn",
        "platform: g4dn; machine unknown",
    ]
    assert render_header("g4dn", None, "record", "b/g4dn.toml")[0] == "lecturecheck: recording to b/g4dn.toml"


@pytest.mark.parametrize(
    ("mode", "budget_file", "line"),
    [
        ("check", None, "lecturecheck: comparing with the declared 24 GB of memory, 2 h"),
        (
            "check",
            "b/g4dn.toml",
            "lecturecheck: comparing with b/g4dn.toml and the declared 24 GB of memory, 2 h",
        ),
        ("record", "b/g4dn.toml", "lecturecheck: recording to b/g4dn.toml"),
    ],
)
def test_header_names_the_declared_limits(mode, budget_file, line):
    assert render_header("g4dn", None, mode, budget_file, "24 GB of memory, 2 h")[0] == line


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (20, "l....md  cell  3/14"),
        (40, "lectu...ng/kesten.md  cell  3/14   1:15"),
        (60, "lecture...amming/kesten.md  cell  3/14   1:15  now  812 MiB"),
        (100, "lectures/programming/kesten.md  cell  3/14   1:15  now  812 MiB  peak  1.3 GiB"),
    ],
)
def test_live_line_shows_cell_time_and_memory(width, expected):
    progress = ShownProgress(
        name="lectures/programming/kesten.md",
        cell=3,
        total=14,
        elapsed_seconds=75.9,
        now_bytes=812 * MIB,
        peak_bytes=1.3 * 1024 * MIB,
    )
    assert render_live(progress, width=width) == expected


def test_live_line_before_first_cell_and_after_an_hour():
    start = ShownProgress(name="a.md", cell=0, total=14, elapsed_seconds=0.2)
    assert render_live(start, width=80) == "a.md  kernel starts   0:00"
    assert render_live(replace(start, cell=9, elapsed_seconds=3725), width=80) == "a.md  cell  9/14  1:02:05"


@given(st.text(max_size=60), st.integers(0, 200), st.integers(0, 999), st.floats(0, 1e6))
def test_the_live_line_leaves_the_last_column_free(name, width, number, elapsed):
    progress = ShownProgress(name=name, cell=number, total=999, elapsed_seconds=elapsed, now_bytes=1e9, peak_bytes=2e9)
    assert display_width(render_live(progress, width=width)) <= max(0, width - 1)


def test_optional_columns_go_before_names_are_shortened():
    lecture = f"lectures/{'x' * 18}.md"
    rows = render_summary([within(lecture)], width=76, colour=False)
    assert rows[:2] == [
        "lecture                         verdict      peak     limit  time",
        f"{lecture}  within   1.21 GiB  1.39 GiB  10 s",
    ]
    rows = render_summary([within(lecture)], width=56, colour=False)
    assert rows[:2] == [
        "lecture                      verdict      peak     limit",
        "lectures...xxxxxxxxxxxxx.md  within   1.21 GiB  1.39 GiB",
    ]


def test_only_exceeded_values_are_marked():
    row = render_summary([over_by_time()], width=100, colour=True)[1]
    marked, dim = "\x1b[31m{}\x1b[0m".format, "\x1b[2m{}\x1b[0m".format
    texts = ("lectures/slow.md", marked("over   "), "1.21 GiB", "1.39 GiB", marked("10.04 s"), dim("3 (line 41)"))
    assert row == "  ".join(texts)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (
            over,
            [
                "Run it again with --lecture-profile memory (and memray) to see which lines hold the peak.",
                (
                    "If this is intended, run pytest --lecture-record "
                    "lectures/programming/kesten_processes_in_depth.md and commit the budget file."
                ),
            ],
        ),
        (
            over_by_time,
            [
                (
                    "If this is intended, edit the limit of wall time in the budget file "
                    "linux-x86_64-cpu.toml; recording keeps limits set by hand."
                )
            ],
        ),
        (
            lambda: replace(over(), run=replace(over().run, launch=LaunchFacts(launcher=PROGRAM_LAUNCHER))),
            ["If this is intended, run lecturecheck record and commit the budget file."],
        ),
        (lambda: replace(over_by_time(), budget=None), []),
        (within, []),
    ],
)
def test_hand_set_limits_are_edited_by_hand(make, advice):
    assert remedies(make()) == advice


def test_verdicts_record_the_source_of_the_exceeding_cell():
    entry = replace(over(), verdict=replace(over().verdict, source_extract="", source_line_count=0))
    asked = []

    def source_of(number):
        asked.append(number)
        return "\x1b[31mx = 1\x0c\n" * 99 + "y" * 5000 + "\n"

    made = entry.with_source(source_of)
    assert asked == [3]
    assert made.verdict.source_extract == "\n".join(["\x1b[31mx = 1\x0c"] * 60)
    assert made.verdict.source_line_count == 100
    assert render_failure(made, width=80).split("\n")[3:15] == [
        *(f"  {number:>4} | x = 1\\x0c" for number in range(88, 98)),
        "       | [... 90 more lines of the cell ...]",
        "",
    ]
    (long,) = entry.with_source(lambda _: "y" * 5000).verdict.source_extract.split("\n")
    assert len(long) == 400
    stored = entry_from_dict(entry_to_dict(made.run, made.verdict, seconds=0.0))
    assert stored.verdict == made.verdict


@pytest.mark.parametrize("make", [within, failed])
def test_other_verdicts_record_no_source(make):
    assert make().with_source(lambda number: f"cell {number}") == make()


@pytest.mark.parametrize(
    ("variant", "how"),
    [("", "pytest --lecture-record lectures/a.md"), ("c=2", "the same command with --lecture-record")],
)
def test_missing_budgets_explain_how_to_record(variant, how):
    entry = without_budget("lectures/a.md")
    advice = f"  Run {how} on this platform (linux-x86_64-cpu) and commit the budget file."
    strict = replace(entry, run=replace(entry.run, variant=variant), verdict=replace(entry.verdict, failed=True))
    rows = render_failure(strict, width=200).splitlines()
    assert rows[rows.index("What to do") + 1] == advice
    assert "What to do" not in render_failure(entry, width=200).splitlines()


@pytest.mark.parametrize(
    ("variant", "former", "name", "how"),
    [
        ("", "lectures/A.md", "lectures/a.md", "pytest --lecture-record lectures/a.md"),
        ("c=2", "lectures/A.md [c=2]", "lectures/a.md [c=2]", "the same command with --lecture-record"),
    ],
)
def test_a_renamed_lecture_is_told_to_rename_its_table(variant, former, name, how):
    entry = without_budget("lectures/a.md")
    verdict = replace(entry.verdict, failed=True, former_name=former)
    (advice,) = remedies(replace(entry, run=replace(entry.run, variant=variant), verdict=verdict))
    assert advice == (
        f"In the budget file linux-x86_64-cpu.toml, rename the table of {former!r} to {name!r}, which keeps its "
        f"limits. If it is a new one, run {how} on this platform (linux-x86_64-cpu) and commit the budget file."
    )
