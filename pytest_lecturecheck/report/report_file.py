"""Render the text of one report file, in any format. Each format is loaded when a file of it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_lecturecheck.config.report_formats import ReportFormat
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.exports.series import SessionFacts

__all__ = ["SessionFacts", "render_report"]


def render_report(
    form: ReportFormat, entries: Sequence[Entry], facts: SessionFacts, *, document: Callable[[], str]
) -> str:
    """
    Render a report.

    Args:
        form: its format.
        entries: the session's entries.
        facts: what is known of the session.
        document: returns the session as JSON, which needs its stored records.
    """
    if form is ReportFormat.JSON:
        return document()
    if form is ReportFormat.HTML:
        from pytest_lecturecheck.report.html import render_html  # noqa: PLC0415 - a templating library

        return render_html(entries, platform=facts.platform, machine=facts.machine)
    if form is ReportFormat.MARKDOWN:
        from pytest_lecturecheck.report.markdown_report import render_markdown  # noqa: PLC0415 - only for Markdown

        return render_markdown(entries, platform=facts.platform, machine=facts.machine)
    return _render_export(form, entries, facts)


def _render_export(form: ReportFormat, entries: Sequence[Entry], facts: SessionFacts) -> str:
    from pytest_lecturecheck.report.exports import (  # noqa: PLC0415 - only for other tools
        bencher,
        csv_table,
        open_metrics,
        pytest_benchmark_layout,
        shields,
        smaller_is_better,
    )

    renderers: dict[ReportFormat, Callable[[], str]] = {
        ReportFormat.BENCHER: lambda: bencher.render_bencher(entries),
        ReportFormat.PYTEST_BENCHMARK: lambda: pytest_benchmark_layout.render_pytest_benchmark(entries, facts),
        ReportFormat.SMALLER_IS_BETTER: lambda: smaller_is_better.render_smaller_is_better(entries, facts),
        ReportFormat.OPEN_METRICS: lambda: open_metrics.render_open_metrics(entries, facts),
        ReportFormat.CSV: lambda: csv_table.render_csv(entries, facts),
        ReportFormat.SHIELDS: lambda: shields.render_shields(entries),
    }
    return renderers[form]()
