"""What workers send about machine and software is held once, not once for each lecture."""

from __future__ import annotations

from pytest_lecturecheck.config.options import resolve
from pytest_lecturecheck.model.platform import Software
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.session.results import Results
from pytest_lecturecheck.verdict import Policy


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
