"""A strict failure about a finding that belongs to no cell has its line in every output."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.made_cohorts import cohort, kernel
from support.made_entries import verdict, within

from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.report.github_summary import render_annotations
from pytest_lecturecheck.report.html.detail import detail_of
from pytest_lecturecheck.report.junit_properties import properties
from pytest_lecturecheck.report.terminal.failure import render_failure
from pytest_lecturecheck.store.runs import entry_from_dict, entry_to_dict
from pytest_lecturecheck.verdict import VerdictKind

FILE = "\n".join(f"text {number}" for number in range(1, 21))
NOT_RUN = Finding(kind=FindingKind.NOT_RUN, message="code is not run", line=17, fails_when_strict=True)
GPU = Finding(kind=FindingKind.GPU, message="no GPU was used", fails_when_strict=True)


def strict(entry, *findings):
    headline = "strict: " + "; ".join(item.message for item in findings)
    said = verdict(VerdictKind.FAILED, headline, failed=True)
    return replace(entry, run=replace(entry.run, findings=findings), verdict=said).with_source(str, lambda: FILE)


def test_the_failure_shows_the_lines_around_the_finding():
    assert render_failure(strict(within(), NOT_RUN)) == "\n".join(
        [
            "strict: code is not run",
            "lectures/jax_intro.md:17",
            "",
            *(f"{'>' if number == 17 else ' '} {number:>4} | text {number}" for number in range(13, 20)),
        ]
    )


def test_reports_name_the_line():
    entry = strict(within(), NOT_RUN)
    assert ("lecturecheck.line", "17") in properties(entry)
    (annotation,) = render_annotations([entry])
    assert annotation.startswith("::error file=lectures/jax_intro.md,line=17,")
    assert [line.number for line in detail_of(entry).source if line.is_marked] == ["17"]


def test_of_several_findings_one_with_a_place_is_shown():
    assert strict(within(), GPU, NOT_RUN).location == "lectures/jax_intro.md:17"
    assert strict(within(), GPU).location == "lectures/jax_intro.md"


@pytest.mark.parametrize(("line", "first", "count"), [(1, 1, 3), (3, 1, 5), (20, 16, 5)])
def test_an_extract_ends_where_the_file_ends(line, first, count):
    said = strict(within(), replace(NOT_RUN, line=line)).verdict
    assert (said.source_first_line, said.source_line_count) == (first, count)


def test_a_file_that_is_gone_leaves_the_line():
    entry = strict(within(), NOT_RUN)
    gone = replace(entry, verdict=replace(entry.verdict, source_extract="", source_first_line=None))
    gone = gone.with_source(str, str)
    assert render_failure(gone) == "strict: code is not run\nlectures/jax_intro.md:17"


def test_records_keep_the_extract():
    entry = strict(within(), NOT_RUN)
    assert entry_from_dict(entry_to_dict(entry.run, entry.verdict, seconds=0.0)).verdict == entry.verdict


def test_a_finding_of_a_cohort_is_located_in_its_own_lecture():
    both = cohort(kernel("a.md"), kernel("b.md", findings=(NOT_RUN,)), name="pair")
    entry = strict(both, NOT_RUN)
    assert entry.location == "b.md:17"
    assert render_annotations([entry])[0].startswith("::error file=b.md,line=17,")
