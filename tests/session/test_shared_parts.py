"""What the runs of a session have in common is held once, not once for each lecture."""

from __future__ import annotations

from pytest_lecturecheck.config.options import resolve
from pytest_lecturecheck.model.metric import Metric, Unavailable
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.results import Results
from pytest_lecturecheck.verdict import Policy


def test_equal_texts_of_runs_are_one_object(tmp_path):
    results = Results(tmp_path, resolve({"budget": True}, tmp_path, tmp_path), "here")

    def reason_of(lecture, reason):
        readings = {Metric.PEAK_SWAP: Unavailable(metric=Metric.PEAK_SWAP, reason=reason)}
        run = Run(lecture=lecture, platform="here", outcome=Outcome.COMPLETED, readings=readings)
        packed = results.dump([Entry(run=run, verdict=results.judge(run, Policy()))])
        return results.unpack(packed)[0].run.readings[Metric.PEAK_SWAP].reason

    first = reason_of("a.md", "no such counter")
    assert first == "no such counter"
    assert reason_of("b.md", "no such counter") is first
    assert reason_of("c.md", "r" * 1000) == "r" * 1000


def test_equal_descriptions_of_runs_are_one_object(tmp_path):
    results = Results(tmp_path, resolve({"budget": True}, tmp_path, tmp_path), "here")

    def sent(software):
        run = Run(lecture="a.md", platform="here", outcome=Outcome.COMPLETED, software=software)
        return results.unpack(results.dump([Entry(run=run, verdict=results.judge(run, Policy()))]))[0].run

    first = sent(Software(python="3.12", packages={"numpy": "2.0"}))
    assert sent(None).software is None
    again = sent(Software(python="3.12", packages={"numpy": "2.0"}))
    assert again.software == first.software
    assert again.software is first.software
    other = sent(Software(python="3.12", packages={"numpy": "2.1"}))
    assert other.software.packages == {"numpy": "2.1"}
    assert sent(Software(python="3.12", packages={"numpy": "2.0"})).software is first.software
