"""Which items a lecture's file has."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pytest_lecturecheck.config.options import resolve
from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.model.cohort import CohortSpec
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.session.item_planning import ItemPlanner

MIX = CohortSpec(name="mix", lectures=("a.md", "b.md"))


@pytest.fixture
def plan(tmp_path):
    """Plan the items of a file; ``own`` is what the lecture sets itself, ``None`` if it cannot be read."""

    def plan(name, *, own=None, may_set=False, cohorts=(), command_line=None):
        def read(_path, name):
            if own is None:
                raise LectureReadError(name, None, "no lecture")
            return SimpleNamespace(settings=own)

        settings = replace(resolve({}, tmp_path, tmp_path), cohorts=cohorts, command_line=command_line or RunSettings())
        collection = SimpleNamespace(may_say_concurrency=lambda _path: may_set)
        planned = ItemPlanner(settings, collection, read).plan(tmp_path / name, name)
        return [spec.name if spec is not None else None for spec in planned]

    return plan


def test_a_plain_lecture_is_one_item_and_is_not_read(plan):
    assert plan("a.md") == [None]


def test_numbers_of_kernels_replace_the_plain_item(plan):
    assert plan("a.md", command_line=RunSettings(concurrency=(1, 3))) == ["c=1", "c=3"]


def test_the_lecture_decides_over_the_command_line(plan):
    own = RunSettings(concurrency=(2,))
    assert plan("a.md", own=own, may_set=True, command_line=RunSettings(concurrency=(1, 3))) == ["c=2"]


def test_an_unreadable_lecture_is_a_plain_item(plan):
    """Its setup then reports why it cannot be read."""
    assert plan("a.md", may_set=True) == [None]


def test_a_cohort_belongs_to_its_first_lecture(plan):
    assert plan("a.md", cohorts=(MIX,)) == [None, "mix"]
    assert plan("b.md", cohorts=(MIX,)) == [None]
