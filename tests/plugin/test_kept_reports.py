"""What stays on the reports that pytest keeps of a session with workers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_lecturecheck.plugin.result_transport import LocalEntries, ReportedEntries

PAIRS = [("lecturecheck.verdict", "within"), ("owner", "somebody")]


def report_of(when, worker):
    report = pytest.TestReport("a.md::lecture", ("a.md", 0, ""), {}, "passed", None, when, user_properties=list(PAIRS))
    if worker:
        report.node = SimpleNamespace(gateway=SimpleNamespace(id=worker))
    return report


@pytest.mark.parametrize(("worker", "left"), [("gw0", PAIRS[1:]), ("", PAIRS)])
def test_reports_of_workers_keep_properties_until_everybody_has_read_them(worker, left):
    session = SimpleNamespace(context=None)
    hooks = ReportedEntries(None, session, LocalEntries(), display=None, saver=None, filler=None)
    for when in ("call", "teardown"):
        report = report_of(when, worker)
        logging = hooks.pytest_runtest_logreport(report)
        next(logging)
        assert report.user_properties == PAIRS
        with pytest.raises(StopIteration):
            logging.send(None)
        assert report.user_properties == left
