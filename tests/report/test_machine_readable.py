from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.hostile import HOSTILE, hostile_entry
from support.made_entries import MIB, died, failed, not_started, over, quiet_ones, replication, session, within

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.report.json_report import render_json
from pytest_lecturecheck.report.junit_properties import properties
from pytest_lecturecheck.verdict import VerdictKind
from pytest_lecturecheck.verdict.values import RelationComparison


def test_json_holds_the_records_and_totals():
    assert json.loads(render_json([{"lecture": "ü\ud800"}], session(), platform="linux-x86_64-cpu")) == {
        "schema": 1,
        "platform": "linux-x86_64-cpu",
        "totals": {
            "lectures": 18,
            "runs": 18,
            "run_again": 0,
            "failed": 5,
            "verdicts": {
                "died": 1,
                "failed": 1,
                "improved": 1,
                "no budget": 2,
                "not measured": 1,
                "not started": 1,
                "nothing to run": 1,
                "over": 1,
                "skipped": 1,
                "timed out": 1,
                "within": 7,
            },
            "cells_run": 36,
            "seconds": pytest.approx(139.7),
            "highest_peak_footprint_bytes": 8129 * MIB,
            "highest_peak_footprint_lecture": "lectures/programming/kesten_processes_in_depth.md",
        },
        "runs": [{"lecture": "ü\ud800"}],
    }


def test_json_is_ascii_and_unmeasured_is_null():
    text = render_json([{"lecture": HOSTILE}], [not_started()])
    assert text.isascii()
    assert json.loads(text)["totals"]["highest_peak_footprint_bytes"] is None
    assert json.loads(text)["totals"]["highest_peak_footprint_lecture"] is None


def test_json_rejects_nan_and_infinity():
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        render_json([{"seconds": float("nan")}], [])


def test_properties_of_a_lecture_over_its_budget():
    assert properties(over()) == [
        ("lecturecheck.verdict", "over"),
        (
            "lecturecheck.headline",
            "peak footprint 7.94 GiB, limit 1.39 GiB: 6.55 GiB over (+472 %), in code cell 3, line 88",
        ),
        ("lecturecheck.platform", "linux-x86_64-cpu"),
        ("lecturecheck.lecture", "lectures/programming/kesten_processes_in_depth.md"),
        ("lecturecheck.cells_run", "4"),
        ("lecturecheck.cell", "3"),
        ("lecturecheck.line", "88"),
        ("lecturecheck.heaviest_cell", "3"),
        ("lecturecheck.peak_footprint_bytes", "8523874304"),
        ("lecturecheck.peak_footprint_bytes.method", "exact"),
        ("lecturecheck.peak_footprint_bytes.limit", "1488977920"),
        ("lecturecheck.wall_seconds", "36.24"),
        ("lecturecheck.wall_seconds.method", "exact"),
        ("lecturecheck.wall_seconds.limit", "30"),
    ]


def test_properties_of_relations():
    text = "gpu_live <= 1.1 * reported.planned"
    found = RelationComparison(
        text=text, kind=VerdictKind.OVER, message=f"{text}: GPU memory live 5 GiB, planned 4 GiB"
    )
    entry = over()
    entry = replace(entry, verdict=replace(entry.verdict, relations=(found,)))
    assert [pair for pair in properties(entry) if ".relation." in pair[0]] == [
        ("lecturecheck.relation.1", text),
        ("lecturecheck.relation.1.verdict", "over"),
        ("lecturecheck.relation.1.compared", f"{text}: GPU memory live 5 GiB, planned 4 GiB"),
    ]


def test_properties_explain_missing_values_and_brackets():
    unread = next(item for item in quiet_ones() if item.run.lecture == "lectures/unread.md")
    readings = {
        Metric.PEAK_FOOTPRINT: Measurement(
            metric=Metric.PEAK_FOOTPRINT, value=100, high=120, method=Method.BRACKET, interval_seconds=0.02
        ),
        Metric.PEAK_SWAP: Unavailable(metric=Metric.PEAK_SWAP, reason="no swap"),
    }
    entry = replace(unread, run=replace(unread.run, readings=readings, variant="cpu-x64"))
    assert properties(entry)[2:] == [
        ("lecturecheck.platform", "linux-x86_64-cpu"),
        ("lecturecheck.lecture", "lectures/unread.md"),
        ("lecturecheck.variant", "cpu-x64"),
        ("lecturecheck.cells_run", "1"),
        ("lecturecheck.peak_footprint_bytes", "100"),
        ("lecturecheck.peak_footprint_bytes.method", "bracket"),
        ("lecturecheck.peak_footprint_bytes.high", "120"),
        ("lecturecheck.peak_swap_bytes.unavailable", "no swap"),
    ]


@settings(max_examples=examples(50), deadline=None)
@given(st.text(st.one_of(st.sampled_from("\x00\x1b\x9b]>&<\"'\n"), st.characters(exclude_categories=())), max_size=40))
def test_properties_are_xml_text_whatever_the_lecture_holds(text):
    check_properties(text)


def test_properties_of_hostile_samples_are_xml_text():
    check_properties(HOSTILE)
    check_properties("]]>\ufffe\U0001ffff" * 1000)


def check_properties(text):
    for name, value in properties(hostile_entry(text)):
        assert re.fullmatch(r"lecturecheck(\.[a-z_]+){1,2}", name)
        assert len(value) <= 1000
        assert ET.fromstring(f"<property value={quoteattr(value)}/>").get("value") == value


def test_property_names_are_unique():
    for entry in (over(), failed(), died(), not_started(), within()):
        names = [name for name, _ in properties(entry)]
        assert len(names) == len(set(names))


def test_json_totals_have_the_verdict_on_the_package():
    document = json.loads(render_json([], replication()))
    assert document["totals"]["package"] == [
        {
            "metric": "peak_footprint_bytes",
            "verdict": "not fitting",
            "value": 571 * MIB,
            "limit": 256_000_000,
        },
        {"metric": "wall_seconds", "verdict": "fits", "value": 2.6, "limit": 120.0},
    ]
    assert "package" not in json.loads(render_json([], session()))["totals"]
