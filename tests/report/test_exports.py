"""Formats of other tools: each is read as its reader reads it, whatever lectures are called and print."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import jsonschema
import pytest
from support.hostile import HOSTILE, UNSAFE, hostile_entry
from support.made_entries import GIB, MACHINE, MIB, died, failed, over, quiet_ones, within
from support.made_sessions import kept

from pytest_lecturecheck.config.report_formats import ReportFormat, check_report_name, find_format
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.report_file import SessionFacts, render_report
from pytest_lecturecheck.verdict import VerdictKind

FACTS = SessionFacts(
    platform="linux-x86_64-cpu",
    session="20260105T060000Z-aaaaaa",
    ended="2026-01-05T06:00:00+00:00",
    version="1.0",
    commit="c" * 40,
    machine=MACHINE,
)
BENCHER_SCHEMA = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "number"},
                        "lower_value": {"type": "number"},
                        "upper_value": {"type": "number"},
                    },
                    "required": ["value"],
                }
            },
        }
    },
}
"""What https://bencher.dev/docs/reference/bencher-metric-format publishes."""
FORMATS = [ReportFormat.BENCHER, ReportFormat.PYTEST_BENCHMARK, ReportFormat.SMALLER_IS_BETTER, ReportFormat.SHIELDS]


def entries_of(*runs):
    return [Entry(run=item.run, verdict=item.verdict, seconds=item.seconds) for item in runs]


def render(form, *entries):
    return render_report(form, entries, FACTS, document=lambda: "{}")


def load(form, *entries):
    return json.loads(render(form, *entries), parse_constant=pytest.fail)


def families(*entries):
    # Not at the top: collecting the suite must not need it.
    from prometheus_client.openmetrics.parser import text_string_to_metric_families  # noqa: PLC0415

    parsed = text_string_to_metric_families(render(ReportFormat.OPEN_METRICS, *entries))
    return {family.name: family for family in parsed}


REPEATED = entries_of(kept("a.md", 50, 9.0), kept("a.md", 70, 4.0, repeat=2), kept("a.md", 60, 5.0, repeat=3))
EVERY = [within(), over(), failed(), died(), *quiet_ones()]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("x.json", ReportFormat.JSON),
        ("my.report.JSON", ReportFormat.JSON),
        ("x.bmf.json", ReportFormat.BENCHER),
        ("x.benchmark.json", ReportFormat.PYTEST_BENCHMARK),
        ("x.customsmallerisbetter.json", ReportFormat.SMALLER_IS_BETTER),
        ("x.shields.json", ReportFormat.SHIELDS),
        ("metrics.txt", ReportFormat.OPEN_METRICS),
        ("out/lectures.metrics.txt", ReportFormat.OPEN_METRICS),
        ("x.csv", ReportFormat.CSV),
        ("x.html", ReportFormat.HTML),
        ("x.md", ReportFormat.MARKDOWN),
        ("x.txt", None),
        ("json", None),
        ("x", None),
    ],
)
def test_the_longest_ending_selects_the_format(name, form):
    assert find_format(name) is form


def test_an_unknown_ending_names_all_formats():
    with pytest.raises(SettingsError) as caught:
        check_report_name("x.pdf")
    assert str(caught.value) == (
        "report 'x.pdf' has no known format; expected a name ending in .json, .md, .html, .csv, .metrics.txt, "
        ".shields.json, .customSmallerIsBetter.json, .benchmark.json or .bmf.json"
    )


@pytest.mark.parametrize("form", FORMATS)
def test_a_session_without_lectures_is_a_valid_file(form):
    load(form)
    assert render(ReportFormat.OPEN_METRICS) == "# EOF\n"
    assert len(render(ReportFormat.CSV).splitlines()) == 1


def test_bencher_has_the_range_of_the_runs():
    document = load(ReportFormat.BENCHER, *REPEATED)
    jsonschema.validate(document, BENCHER_SCHEMA)
    assert document == {
        "a.md": {
            "peak-footprint-bytes": {"value": 70 * MIB, "lower_value": 50 * MIB, "upper_value": 70 * MIB},
            "wall-seconds": {"value": 9, "lower_value": 4, "upper_value": 9},
        }
    }


def test_lectures_that_failed_have_no_values():
    names = load(ReportFormat.BENCHER, *EVERY)
    for entry in (failed(), died()):
        assert entry.run.lecture not in names
    assert within().run.lecture in names


def test_smaller_is_better_has_an_item_for_each_lecture_and_metric():
    items = load(ReportFormat.SMALLER_IS_BETTER, *REPEATED)
    assert items == [
        {
            "name": "a.md: peak footprint",
            "unit": "MiB",
            "value": 70,
            "range": "50.0 to 70.0",
            "extra": "verdict: within\nmeasured: exact, 3 runs\nplatform: linux-x86_64-cpu",
        },
        {
            "name": "a.md: wall time",
            "unit": "s",
            "value": 9,
            "range": "4.0 to 9.0",
            "extra": "verdict: within\nmeasured: exact, 3 runs\nplatform: linux-x86_64-cpu",
        },
    ]
    assert "limit: 1.39 GiB" in load(ReportFormat.SMALLER_IS_BETTER, within())[0]["extra"]


def test_pytest_benchmark_has_a_round_for_each_run():
    document = load(ReportFormat.PYTEST_BENCHMARK, *REPEATED)
    (benchmark,) = document["benchmarks"]
    stats = benchmark["stats"]
    assert (benchmark["name"], benchmark["fullname"]) == ("a.md", "a.md")
    assert stats["data"] == [9, 4, 5]
    assert (stats["min"], stats["max"], stats["mean"], stats["median"], stats["rounds"]) == (4, 9, 6, 5, 3)
    assert stats["ops"] == pytest.approx(1 / 6)
    assert benchmark["extra_info"]["peak_footprint_bytes"] == 70 * MIB
    assert (document["commit_info"]["id"], document["datetime"]) == ("c" * 40, FACTS.ended)
    assert document["machine_info"]["node"] == ""
    assert document["machine_info"]["cpu"]["count"] == MACHINE.core_count


def test_one_run_has_statistics_too():
    (benchmark,) = load(ReportFormat.PYTEST_BENCHMARK, REPEATED[0])["benchmarks"]
    assert (benchmark["stats"]["stddev"], benchmark["stats"]["q1"], benchmark["stats"]["outliers"]) == (0, 9, "0;0")


def test_open_metrics_are_read_by_the_parser_of_prometheus():
    found = families(*EVERY)
    peak = found["lecturecheck_peak_footprint_bytes"]
    assert (peak.type, peak.unit) == ("gauge", "bytes")
    (sample,) = [item for item in peak.samples if item.labels["lecture"] == within().run.lecture]
    assert sample.value == within().run.measured(Metric.PEAK_FOOTPRINT).value
    (limit,) = [
        item
        for item in found["lecturecheck_peak_footprint_limit_bytes"].samples
        if item.labels["lecture"] == within().run.lecture
    ]
    assert limit.value == 1420 * MIB
    failing = {item.labels["lecture"] for item in found["lecturecheck_failed"].samples if item.value == 1}
    assert failing == {entry.run.lecture for entry in EVERY if entry.verdict.failed}
    assert {item.labels["verdict"] for item in found["lecturecheck_verdict"].samples} >= {"within", "died"}


def test_open_metrics_name_the_metrics_of_a_gpu():
    more = {Metric.GPU_LIVE: 2 * GIB, Metric.COMPILE: 6.5, Metric.MAJOR_FAULTS: 3}
    found = families(*entries_of(kept("gpu.md", 900, 60.0, more=more)))
    assert found["lecturecheck_gpu_live_bytes"].samples[0].value == 2 * GIB
    assert found["lecturecheck_compile_seconds"].samples[0].value == 6.5
    assert found["lecturecheck_major_faults"].samples[0].value == 3


def test_csv_has_a_row_for_each_run():
    rows = list(csv.DictReader(io.StringIO(render(ReportFormat.CSV, *EVERY))))
    assert [row["lecture"] for row in rows] == [entry.run.lecture for entry in EVERY]
    assert rows[0]["peak_footprint_bytes"] == str(1240 * MIB)
    assert (rows[0]["peak_footprint_method"], rows[0]["peak_footprint_limit_bytes"]) == ("exact", str(1420 * MIB))
    assert (rows[0]["session"], rows[0]["commit"]) == (FACTS.session, FACTS.commit)
    assert rows[3]["cause"] == died().verdict.cause.kind.value
    assert all(None not in row.values() and None not in row for row in rows)


@pytest.mark.parametrize("name", ["=1+1.md", "@SUM(A1).md", "+x.md", "-x.md"])
def test_a_spreadsheet_finds_no_formula(name):
    (row,) = csv.DictReader(io.StringIO(render(ReportFormat.CSV, *entries_of(kept(name, 50)))))
    assert row["lecture"] == f"'{name}"


@pytest.mark.parametrize(
    ("entries", "message", "colour"),
    [
        ([], "none run", "lightgrey"),
        (REPEATED, "1 within budget", "brightgreen"),
        ([within(), over()], "1 of 2 failed", "red"),
        (
            [*REPEATED, *entries_of(kept("b.md", 5, kind=VerdictKind.NO_BUDGET))],
            "1 within budget, 1 unchecked",
            "yellow",
        ),
        (entries_of(kept("b.md", 5, kind=VerdictKind.RECORDED)), "1 recorded", "blue"),
        (entries_of(kept("b.md", 5, kind=VerdictKind.SKIPPED)), "none run", "lightgrey"),
    ],
)
def test_the_badge_says_the_worst(entries, message, colour):
    badge = load(ReportFormat.SHIELDS, *entries)
    is_error = {"isError": True} if colour == "red" else {}
    assert badge == {"schemaVersion": 1, "label": "lectures", "message": message, "color": colour, **is_error}


@pytest.mark.parametrize("form", [*FORMATS, ReportFormat.OPEN_METRICS, ReportFormat.CSV])
def test_hostile_names_break_no_format(form):
    text = f'{HOSTILE}"\\{{}}=,'
    entry = hostile_entry(text)
    entry = replace(entry, run=replace(within().run, lecture=text, variant=text))
    shown = render(form, entry)
    if form in FORMATS:
        json.loads(shown)
        return
    assert not UNSAFE.search(shown)
    if form is ReportFormat.CSV:
        assert len(list(csv.DictReader(io.StringIO(shown)))) == 1
    else:
        assert len(families(entry)["lecturecheck_failed"].samples) == 1
