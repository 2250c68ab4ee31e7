"""A limit of pytest-timeout holds for all runs of an item together."""

import pytest

from pytest_lecturecheck.model.settings import NO_LIMIT, ItemLimit, RunSettings
from pytest_lecturecheck.session.deadline import Deadline

LIMIT = ItemLimit(seconds=60.0, origin="pytest-timeout")
OWN = RunSettings(total_timeout_seconds=NO_LIMIT, origins={"total_timeout_seconds": "default"})


def test_the_first_run_has_the_whole_limit():
    settings = Deadline(LIMIT, clock=iter([10.0]).__next__).first(OWN)
    assert (settings.total_timeout_seconds, settings.origin("total_timeout_seconds")) == (60.0, "pytest-timeout")


@pytest.mark.parametrize(("now", "left"), [(30.0, 40.0), (69.5, 1.0), (500.0, 1.0)])
def test_a_later_run_has_what_is_left_and_at_least_a_second(now, left):
    assert Deadline(LIMIT, clock=iter([10.0, now]).__next__).later(OWN).total_timeout_seconds == left


def test_a_shorter_limit_of_the_lecture_stays():
    short = RunSettings(total_timeout_seconds=5.0, origins={"total_timeout_seconds": "front matter"})
    assert Deadline(LIMIT).first(short) is short


def test_without_a_limit_nothing_changes():
    deadline = Deadline(None)
    assert deadline.first(OWN) is OWN
    assert deadline.later(OWN) is OWN
