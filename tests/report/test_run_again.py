"""A lecture that another plugin ran again is said to be so in every report."""

from dataclasses import replace

import pytest
from support.made_entries import failed, over, within

from pytest_lecturecheck.model.metric import Method, Metric
from pytest_lecturecheck.report.html import render_html
from pytest_lecturecheck.report.json_report import totals
from pytest_lecturecheck.report.markdown_report import render_markdown
from pytest_lecturecheck.report.terminal.replication import count_text


def again(entry, *ends):
    return replace(entry, verdict=replace(entry.verdict, earlier_ends=ends))


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (within(), ""),
        (again(within(), "died: x"), "passed on the 2nd run, which another plugin asked for; 1st run died: x"),
        (
            again(within(), "failed: x", "over: y"),
            "passed on the 3rd run, which another plugin asked for; 1st run failed: x; 2nd run over: y",
        ),
        (
            again(failed(), "failed: x"),
            "failed again on the 2nd run, which another plugin asked for; 1st run failed: x",
        ),
    ],
)
def test_the_run_that_counts_and_the_earlier_ends_are_named(entry, text):
    assert entry.rerun_text == text


def test_numbers_have_their_endings():
    text = again(within(), *("failed: x",) * 11).rerun_text
    assert "on the 12th run" in text
    assert "; 11th run failed" in text


def test_every_report_says_it():
    entry = again(within(), "failed: x", "failed: y")
    assert count_text([entry]).startswith("1 lecture in 3 runs: 1 within; 2 run again; ")
    assert totals([entry])["run_again"] == 2
    for text in (render_markdown([entry]), render_html([entry])):
        assert "passed on the 3rd run" in text
        assert "1 lecture in 3 runs" in text


@pytest.mark.parametrize(("method", "shown"), [(Method.EXACT, "7.94 GiB"), (Method.SAMPLED, ">= 7.94 GiB")])
def test_a_sampled_highest_peak_is_a_lower_bound(method, shown):
    entry = over()
    peak = replace(entry.run.measured(Metric.PEAK_FOOTPRINT), method=method)
    readings = {**entry.run.readings, Metric.PEAK_FOOTPRINT: peak}
    assert f"; highest peak {shown}; " in count_text([replace(entry, run=replace(entry.run, readings=readings))])
