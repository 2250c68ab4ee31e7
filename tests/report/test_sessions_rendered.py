"""Comparisons, histories and READMEs over kept sessions: whole texts, and what must hold whatever lectures hold."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support.examples import examples
from support.hostile import HOSTILE, UNSAFE, hostile_entry
from support.made_entries import MACHINE, MIB, cell, run_of
from support.made_records import made_evidence
from support.made_sessions import (
    GOLDEN,
    LARGER,
    NOW,
    SESSION_RENDERINGS,
    after,
    before,
    drifting,
    kept,
    package,
    session_of,
)

from pytest_lecturecheck.budget.drift import Drift
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.run import Outcome
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.readme_paragraph import render_readme
from pytest_lecturecheck.report.replication_sections import PlatformResult
from pytest_lecturecheck.report.required_changes import render_required_changes
from pytest_lecturecheck.report.terminal.lecture_history import drift_of, moments_of, render_history
from pytest_lecturecheck.report.terminal.session_diff_table import exceeding, render_comparison
from pytest_lecturecheck.verdict import Policy, VerdictKind, judge
from pytest_lecturecheck.verdict.kept_session import KeptRun, KeptSession
from pytest_lecturecheck.verdict.session_diff import (
    Difference,
    Ratio,
    SideValue,
    compare_sides,
    differences,
    side_of_session,
)

EXACT = Method.EXACT
PEAK, WALL = Metric.PEAK_FOOTPRINT, Metric.WALL


@pytest.mark.parametrize("name", SESSION_RENDERINGS)
def test_texts_are_as_expected(name):
    assert SESSION_RENDERINGS[name]() + "\n" == (GOLDEN / name).read_text(encoding="utf-8")


def sides(first=None, second=None):
    return side_of_session(first or before(), "A"), side_of_session(second or after(), "B")


def ratio(first, second, metric=PEAK, **rest):
    return Ratio(
        metric=metric,
        before=SideValue(value=first, method=EXACT),
        after=SideValue(value=second, method=EXACT),
        **rest,
    )


@pytest.mark.parametrize(
    ("found", "exceeds"),
    [
        (ratio(100 * MIB, 120 * MIB), False),
        (ratio(100 * MIB, 120 * MIB + 1), True),
        (ratio(10 * MIB, 26 * MIB), False),
        (ratio(10 * MIB, 26 * MIB + 1), True),
        (ratio(2.0, 3.0, WALL), False),
        (ratio(2.0, 3.1, WALL), True),
        (ratio(2.0, 30.0, WALL, counts=False), False),
        (ratio(2.0, 30.0, WALL, reason="exact and sampled"), False),
        (ratio(0.0, 30.0, WALL), False),
        (Ratio(metric=WALL, before=None, after=SideValue(value=3.0)), False),
    ],
)
def test_growth_beyond_a_factor_is_found(found, exceeds):
    assert found.exceeds(1.2) is exceeds


def test_only_lectures_beyond_the_factor_are_named():
    assert exceeding(*sides(), 1.25) == [
        "lectures/gpu.md (compile time 2.08 x)",
        "lectures/growth.md (peak footprint 1.31 x, wall time 1.91 x)",
    ]
    assert exceeding(*sides(), 2.1) == []
    assert exceeding(*sides(after(), before()), 1.2) == ["lectures/gpu.md (GPU memory live 2.00 x)"]


def test_times_of_other_machines_or_shared_runs_do_not_count():
    assert exceeding(*sides(None, after(LARGER)), 1.2) == ["lectures/growth.md (peak footprint 1.31 x)"]
    crowded = session_of(kept("lectures/growth.md", 748, 40.0, company=("lectures/other.md",)))
    assert exceeding(*sides(None, crowded), 1.2) == []


def test_repeated_runs_count_highest_values_and_show_failures():
    session = session_of(kept("a.md", 100, 9.0), kept("a.md", 120, 8.0, kind=VerdictKind.OVER), kept("a.md", 110, 7.0))
    failing = replace(session.runs[1], verdict=replace(session.runs[1].verdict, failed=True))
    (lecture,) = side_of_session(replace(session, runs=(session.runs[0], failing)), "").lectures.values()
    assert lecture.values[PEAK].value == 120 * MIB
    assert lecture.values[WALL].value == 9.0
    assert lecture.verdict == "over"


@pytest.mark.parametrize(
    "run",
    [
        kept("a.md", 100, outcome=Outcome.FAILED),
        kept("a.md", 100, kind=VerdictKind.FAILED_BEFORE),
        kept("a.md", 100, is_profiled=True, kind=VerdictKind.PROFILED),
    ],
)
def test_incomplete_runs_have_no_values(run):
    (lecture,) = side_of_session(session_of(run), "").lectures.values()
    assert lecture.values == {}


def test_environment_changes_come_from_common_lectures_only():
    first = session_of(kept("a.md", 1), kept("only.md", 1, software=NOW))
    second = session_of(kept("a.md", 1, machine=replace(MACHINE, ram_bytes=MACHINE.ram_bytes + 1)))
    assert differences(*sides(first, second)) == ()
    unknown = session_of(kept("a.md", 1, machine=None, software=None))
    assert differences(*sides(first, unknown)) == ()
    more = replace(NOW, packages={**NOW.packages, "numpy": "2.1.0", "scipy": "1.15.0"}, python="3.13", blas=())
    assert differences(*sides(first, session_of(kept("a.md", 1, software=more), platform="x"))) == (
        Difference(name="platform", before="linux-x86_64-cpu", after="x"),
        Difference(name="Python", before="3.12.1", after="3.13"),
        Difference(name="scipy", before="absent", after="1.15.0"),
    )


@given(st.permutations(before().runs), st.permutations(after().runs))
def test_the_order_of_runs_does_not_matter(first, second):
    one = compare_sides(*sides(session_of(*first), session_of(*second)))
    assert one == compare_sides(*sides())


@given(st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**40)), min_size=1, max_size=6))
def test_swapped_sides_invert_the_ratios(figures):
    first = session_of(*(kept(f"{i}.md", a / MIB) for i, (a, _) in enumerate(figures)))
    second = session_of(*(kept(f"{i}.md", b / MIB) for i, (_, b) in enumerate(figures)))
    there, back = compare_sides(*sides(first, second)), compare_sides(*sides(second, first))
    assert [pair.size for pair in there] == pytest.approx([pair.size for pair in back])
    by_subject = {pair.subject: pair for pair in back}
    for pair in there:
        assert pair.ratios[0].value * by_subject[pair.subject].ratios[0].value == pytest.approx(1)


def test_long_tables_keep_the_largest_changes():
    first = session_of(*(kept(f"{i:03}.md", 1000) for i in range(60)))
    second = session_of(*(kept(f"{i:03}.md", 1000 + 20 * i) for i in range(60)))
    lines = render_comparison(*sides(first, second), width=80)
    assert lines[4].startswith("059.md")
    assert "and 20 more that changed less" in lines
    assert "020.md" in "\n".join(lines)
    assert "019.md" not in "\n".join(lines)


def test_sessions_without_common_lectures_say_so():
    lines = render_comparison(*sides(session_of(kept("a.md", 1)), session_of(kept("b.md", 1))), width=80, most=1.2)
    assert lines == [
        "before: A, linux-x86_64-cpu",
        "after:  B, linux-x86_64-cpu",
        "",
        "no lecture is in both",
        "",
        "Only before",
        "  a.md",
        "",
        "Only after",
        "  b.md",
        "",
        "0 lectures compared; none grew to more than 1.2 times",
    ]


def test_drift_uses_the_last_machine_and_method():
    moments = moments_of(drifting(), ("lectures/nuts.md", ""))
    drift, count, days = drift_of(moments, PEAK)
    assert isinstance(drift, Drift)
    assert (drift.monthly_fraction, count, days) == (pytest.approx(0.04, abs=0.001), 12, 77)
    elsewhere = moments_of(
        [*drifting(), session_of(kept("lectures/nuts.md", 9, machine=LARGER), days=99)], ("lectures/nuts.md", "")
    )
    assert drift_of(elsewhere, PEAK) == (None, 1, 0)
    sampled = moments_of(
        [*drifting(), session_of(kept("lectures/nuts.md", 9, method=Method.SAMPLED), days=99)], ("lectures/nuts.md", "")
    )
    assert drift_of(sampled, PEAK) == (None, 1, 0)
    assert drift_of([], PEAK) == (None, 0, 0)


def test_shared_times_are_excluded_from_trends():
    sessions = [
        session_of(kept("a.md", 100, 10.0 * 1.1**week, company=("b.md",) if week % 2 else ()), days=7 * week)
        for week in range(12)
    ]
    assert drift_of(moments_of(sessions, ("a.md", "")), WALL)[1] == 6


def test_variants_have_separate_histories():
    sessions = [session_of(kept("a.md", 100), kept("a.md", 50, variant="gpu"), days=day) for day in range(5)]
    lines = render_history(sessions, "a.md", width=80, most=3)
    assert [line for line in lines if line.startswith("a.md")] == ["a.md: 5 sessions", "a.md [gpu]: 5 sessions"]
    assert lines.count("2 older sessions left out") == 2
    assert not [line for line in lines if line.startswith("2026-01-06")]


class Page(HTMLParser):
    def __init__(self, markdown):
        super().__init__()
        self.tags = set()
        self.feed(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown))

    def handle_starttag(self, tag, _attrs):
        self.tags.add(tag)


README_TAGS = {"blockquote", "h3", "h4", "p", "strong", "code", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}


def check_hostile(text):
    entry = hostile_entry(text)
    session = KeptSession(
        name=text, platform=text, runs=(KeptRun(run=entry.run, verdict=entry.verdict),), version=text, mode=text
    )
    completed = replace(
        entry.run, outcome=Outcome.COMPLETED, software=replace(NOW, python=text, packages={text: text}, blas=(text,))
    )
    other = replace(session, runs=(KeptRun(run=completed, verdict=entry.verdict),))
    shown = [
        *render_comparison(side_of_session(session, text), side_of_session(other, text), width=80, most=1.2),
        *render_history([session, other], entry.run.lecture, width=80),
    ]
    assert UNSAFE.search("".join(shown)) is None
    runs = [replace(entry, run=completed), entry]
    others = [PlatformResult(platform=text, entries=runs), PlatformResult(platform="b", entries=runs)]
    page = render_readme(runs, platform=text, ended=None, version=text, platforms=others)
    assert Page(page).tags <= README_TAGS


@pytest.mark.parametrize("text", [HOSTILE, "</code><img src=x>", "| a |\n|---|\n", "{}{}", "# x\n\n```"])
def test_hostile_samples_are_harmless(text):
    check_hostile(text)


@settings(max_examples=examples(30))
@given(
    st.text(
        st.one_of(
            st.sampled_from("`|<>[]()!*_~#&@:/\\\n-+=1. \t\"'$\x1b\x9b\x00{}"), st.characters(exclude_categories=())
        ),
        max_size=40,
    )
)
def test_any_text_is_harmless(text):
    check_hostile(text)


@pytest.mark.parametrize(
    ("seconds", "answer"),
    [
        (599.0, "**less than 10 minutes** (measured: up to 9 min 59 s"),
        (600.0, "**10-60 minutes** (measured: up to 10 min 00 s"),
        (3601.0, "**1-2 hours** (measured: up to 1 h 01 min"),
        (15 * 86400.0 + 60, "**more than 14 days** (measured: up to 15 days 1 h"),
    ],
)
def test_answer_on_time_follows_from_the_bound(seconds, answer):
    (entry, *_) = package()
    text = render_readme([replace(entry, seconds=seconds)], platform="here", ended=None)
    assert TIME_ANSWER + answer + " including kernel starts, one notebook).\n" in text


TIME_ANSWER = "Approximate time needed to reproduce the analyses on the machine below: "
REST = "The size of the package and its data is not included."


def sentences(entries):
    """The paragraphs on what was run, on time and on storage, and the rows of the table."""
    lines = render_readme(entries, platform="here", ended=None).split("\n")
    return lines[2], lines[6], lines[10], [line for line in lines if line.startswith(("| `", "| <code>"))]


def made(name="a.md", *, outcome=Outcome.COMPLETED, peak=None, written=None, seconds=5.0, **rest):
    readings = {item.metric: item for item in (peak, written) if item is not None}
    run = replace(run_of(name, [cell(1, 1, 10)], outcome, **rest), readings=readings)
    return Entry(run=run, verdict=package()[0].verdict, seconds=seconds)


def peak_of(mib, method=EXACT, **rest):
    return Measurement(metric=PEAK, value=mib * MIB, method=method, **rest)


def written_of(size, method=EXACT):
    return Measurement(metric=Metric.DISK_WRITTEN, value=size, method=method)


@pytest.mark.parametrize(
    ("seconds", "answer"),
    [
        (0.04, "unknown, because not all notebooks ran to the end (measured: less than 0.1 s"),
        (9.99, "unknown, because not all notebooks ran to the end (measured: at least 9.9 s including kernel starts"),
        (659.0, "**10 minutes or more** (measured: at least 10 min 00 s including kernel starts"),
        (15 * 86400.0 + 7199, "**more than 14 days** (measured: at least 15 days 1 h including kernel starts"),
    ],
)
def test_times_of_incomplete_runs_are_lower_bounds(seconds, answer):
    assert sentences([made(outcome=Outcome.FAILED, seconds=seconds)])[1] == f"{TIME_ANSWER}{answer}, one notebook)."


def test_only_affected_notebooks_have_lower_bounds():
    whole = made("whole.md", peak=peak_of(506.05))
    bad = made("bad.md", peak=peak_of(71.12), outcome=Outcome.FAILED)
    sampled = made("sampled.md", peak=peak_of(71.96, Method.SAMPLED))
    said, _, _, rows = sentences([whole, bad, sampled])
    assert said == (
        "3 notebooks were run and measured with pytest-lecturecheck. Peak memory: up to 510 MiB (in `whole.md`). 1 did "
        "not run to the end, so its values are lower bounds: bad.md. For 1 other, peak memory is a lower bound (≥ in "
        "the table)."
    )
    assert rows == [
        "| `whole.md` | ≤ 510 MiB | ≤ 5 s | - | completed |",
        "| `bad.md` | ≥ 71.1 MiB | ≥ 5 s | - | failed |",
        "| `sampled.md` | ≥ 71.9 MiB | ≤ 5 s | - | completed |",
    ]


def test_skipped_notebooks_are_named():
    said, *_ = sentences(
        [made(), made("gpu.md", outcome=Outcome.SKIPPED), made("text.md", outcome=Outcome.NOTHING_TO_RUN)]
    )
    assert said == (
        "1 notebook was run and measured with pytest-lecturecheck. Memory was not measured. 1 was not run: gpu.md."
    )


def test_concurrent_notebooks_are_mentioned_once():
    alone, beside = made("alone.md"), made("beside.md", company=("other.md",))
    said, time, _, _ = sentences([alone, beside])
    assert said == ("2 notebooks were run and measured with pytest-lecturecheck. Memory was not measured.")
    assert time == (
        f"{TIME_ANSWER}**less than 10 minutes** (measured: up to 10 s including kernel starts, the sum over all "
        "notebooks; 1 ran at the same time as others, which takes longer)."
    )
    assert sentences([alone, made("second.md")])[1].endswith("all notebooks one after the other).")


EXPLAINED = "all data written, including files that were removed or overwritten."


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([made(written=written_of(0))], "The notebooks wrote nothing to the disk (**less than 25 MB**)."),
        (
            [made(written=written_of(26_000_000))],
            f"The notebooks wrote up to 25 MiB to the disk (**25 MB - 250 MB**): {EXPLAINED}",
        ),
        (
            [made(written=written_of(1_000_000), outcome=Outcome.FAILED)],
            (
                "The notebooks wrote at least 976 KiB to the disk (this does not decide between the template's "
                f"answers): {EXPLAINED}"
            ),
        ),
        (
            [made(written=written_of(26_000_000, Method.SAMPLED))],
            f"The notebooks wrote at least 24.7 MiB to the disk (**25 MB or more**): {EXPLAINED}",
        ),
        (
            [made(written=written_of(2_000_000_000)), made("b.md")],
            f"The notebooks wrote at least 1.86 GiB to the disk (**more than 2 GB**): {EXPLAINED}",
        ),
        (
            [made(written=written_of(0)), made("b.md")],
            "Disk writes were not measured for all notebooks; no writes were recorded for the others.",
        ),
    ],
)
def test_answer_on_storage_follows_from_the_bound(entries, text):
    assert sentences(entries)[2] == f"{text} {REST}"


def test_table_omits_empty_bounds():
    nothing, unseen = made("a.md", written=written_of(0)), made("b.md", written=written_of(0, Method.SAMPLED))
    assert sentences([nothing, unseen])[3] == [
        "| `a.md` | - | ≤ 5 s | nothing | completed |",
        "| `b.md` | - | ≤ 5 s | - | completed |",
    ]


@pytest.mark.parametrize(("python", "shown"), [("CPython 3.11.7", "CPython 3.11.7"), ("3.11.7", "Python 3.11.7")])
def test_the_interpreter_is_named_once(python, shown):
    text = render_readme([made(software=Software(python=python))], platform="here", ended=None)
    assert f" No GPU was used. Software: {shown}.\n" in text


@given(st.integers(1, 2**45))
def test_lower_bounds_are_rounded_down_and_not_by_much(size):
    said, *_ = sentences([made(peak=peak_of(size / MIB), outcome=Outcome.FAILED)])
    number, unit = re.search(r": at least ([\d.]+) (\w+) \(in ", said).groups()
    shown = float(number) * {"B": 1, "KiB": 1024, "MiB": MIB, "GiB": 1024 * MIB, "TiB": MIB * MIB}[unit]
    assert size * 0.989 <= shown <= size * (1 + 1e-12)


@given(st.integers(1, 2**45))
def test_sizes_are_rounded_up_and_not_by_much(size):
    run = run_of("a.md", [cell(1, 1, size / MIB)])
    run = replace(run, readings={PEAK: replace(run.readings[PEAK], value=size, tolerance=0)})
    (entry, *_) = package()
    text = render_readme([replace(entry, run=run)], platform="here", ended=None)
    number, unit = re.search(r": up to ([\d.]+) (\w+) \(in ", text).groups()
    shown = float(number) * {"MiB": MIB, "GiB": 1024 * MIB, "TiB": MIB * MIB, "B": 1, "KiB": 1024}[unit]
    assert shown >= size * 0.9995
    assert shown <= max(size * 1.11, size + MIB)


def test_notebooks_without_measurements_are_described():
    (entry, *_) = package()
    run = replace(entry.run, readings={}, software=None, machine=None, findings=())
    text = render_readme(
        [replace(entry, run=run, verdict=replace(entry.verdict, failed=False))], platform="here", ended=None
    )
    assert "Memory was not measured." in text
    assert "Disk writes were not measured. The size " in text
    assert "The code was last run on a machine of the class here. No GPU was used.\n" in text
    assert "machine unknown\n\nThere were no other findings.\n" in text
    assert "- The machine was not recorded.\n" in text


def test_changes_to_ask_for_follow_from_what_was_declared_and_lacking():
    entry = package()[0]
    fitting = replace(entry, verdict=judge(entry.run, None, Policy(declared_memory_bytes=10**12)))
    fitting = replace(fitting, run=replace(entry.run, findings=()))
    assert render_required_changes([fitting]) == "None follow from these runs."
    small = replace(entry, verdict=judge(entry.run, None, Policy(declared_memory_bytes=10**6)))
    assert render_required_changes([small]).startswith("> [REQUIRED] Please amend README to contain complete comp")
    evidence = made_evidence(cell_number=1, error=CellError(name="ModuleNotFoundError", value="No module named 'x'"))
    run = replace(entry.run, outcome=Outcome.FAILED, evidence=evidence, findings=())
    lacking = replace(entry, run=run, verdict=judge(run, None, Policy()))
    assert render_required_changes([lacking]).startswith("> [REQUIRED] Please provide a `requirements.txt`")


def test_packages_are_named_as_they_are_installed():
    software = Software(python="3.12.1", packages={"PIL": "13.0.0", "numpy": "2.1.0"}, distributions={"PIL": "pillow"})
    text = render_readme([made(software=software)], platform="here", ended=None)
    assert "; packages that the notebooks imported, directly or through others: numpy 2.1.0, pillow 13.0.0.\n" in text


def test_pasted_text_is_readable_markdown():
    entry = made("lectures/[a]*_b_.md")
    text = render_readme([entry], platform="<x> & y", ended=None)
    assert "| `lectures/[a]*_b_.md` |" in text
    assert "(&lt;x> &amp; y)." in text
    assert "| <code>a&#124;b.md</code> |" in render_readme([made("a|b.md")], platform="x", ended=None)
