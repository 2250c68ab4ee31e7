"""Which items a lecture's file has."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from pytest_lecturecheck.config.options import resolve
from pytest_lecturecheck.errors import LectureReadError, SettingsError
from pytest_lecturecheck.model.axis import parse_axes
from pytest_lecturecheck.model.cohort import CohortSpec
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.model.variant import Variant
from pytest_lecturecheck.session.item_planning import ItemPlanner

MIX = CohortSpec(name="mix", lectures=("a.md", "b.md"))


@pytest.fixture
def plan(tmp_path):
    """Plan the items of a file; ``own`` is what the lecture sets itself, ``None`` if it cannot be read."""

    def plan(  # noqa: PLR0913 - what decides about items, and what of them is compared
        name, *, own=None, may_set=False, cohorts=(), variants=(), command_line=None, shows=lambda item: item.name
    ):
        def read(_path, name):
            if own is None:
                raise LectureReadError(name, None, "no lecture")
            return SimpleNamespace(settings=own)

        settings = replace(
            resolve({}, tmp_path, tmp_path),
            cohorts=cohorts,
            variants=variants,
            command_line=command_line or RunSettings(),
        )
        collection = SimpleNamespace(may_say_concurrency=lambda _path: may_set)
        planned = ItemPlanner(settings, collection, read).plan(tmp_path / name, name)
        return [shows(item) for item in planned]

    return plan


def test_a_plain_lecture_is_one_item_and_is_not_read(plan):
    assert plan("a.md") == [""]


def test_numbers_of_kernels_replace_the_plain_item(plan):
    assert plan("a.md", command_line=RunSettings(concurrency=(1, 3))) == ["c=1", "c=3"]


def test_the_lecture_decides_over_the_command_line(plan):
    own = RunSettings(concurrency=(2,))
    assert plan("a.md", own=own, may_set=True, command_line=RunSettings(concurrency=(1, 3))) == ["c=2"]


def test_an_unreadable_lecture_is_a_plain_item(plan):
    """Its setup then reports why it cannot be read."""
    assert plan("a.md", may_set=True) == [""]


def test_a_cohort_belongs_to_its_first_lecture(plan):
    assert plan("a.md", cohorts=(MIX,)) == ["", "mix"]
    assert plan("b.md", cohorts=(MIX,)) == [""]


def axes(text):
    return RunSettings(axes=parse_axes(text))


def test_axes_span_an_item_for_each_combination(plan):
    assert plan("a.md", command_line=axes("device=cpu,gpu size=10,20")) == [
        "device=cpu,size=10",
        "device=cpu,size=20",
        "device=gpu,size=10",
        "device=gpu,size=20",
    ]


def test_kernels_at_once_are_the_last_part_of_a_name(plan):
    assert plan("a.md", command_line=axes("concurrency=1,2 size=10")) == ["size=10,c=1", "size=10,c=2"]
    assert plan("a.md", command_line=axes("concurrency=2")) == ["c=2"]


def test_variants_that_no_axis_names_are_items_of_their_own(plan):
    variants = (Variant(name="small"), Variant(name="large"))
    assert plan("a.md", variants=variants) == ["small", "large"]
    assert plan("a.md", variants=variants, command_line=axes("kind=small")) == ["large,kind=small"]


def test_only_the_variants_asked_for_are_items(plan):
    wanted = replace(axes("device=cpu,gpu size=10,20"), variants=("size=10", "device=cpu"))
    assert plan("a.md", command_line=wanted) == ["device=cpu,size=10"]


def test_a_lecture_replaces_the_axes_of_the_settings(plan):
    assert plan("a.md", own=axes({}), may_set=True, command_line=axes("size=1,2")) == [""]


def test_an_unknown_variant_is_refused_with_those_there_are(plan):
    wanted = replace(axes("size=10,20"), variants=("size=30",))
    message = "a.md: variant 'size=30' is not known; did you mean size=20? expected one of size=10, size=20"
    with pytest.raises(SettingsError, match=f"^{re.escape(message)}$"):
        plan("a.md", command_line=wanted)


def test_a_lecture_without_variants_is_one_plain_item(plan):
    own = RunSettings(variants=())
    assert plan("a.md", own=own, may_set=True, variants=(Variant(name="small"),)) == [""]


def test_a_lecture_that_lacks_the_variants_asked_for_is_skipped(plan):
    wanted = replace(axes("size=10,20 precision=f64"), variants=("size=20",))
    for own in (RunSettings(axes=()), axes("size=10")):
        (reason,) = plan(
            "a.md", own=own, may_set=True, command_line=wanted, shows=lambda item: item.variant.settings.skip_reason
        )
        assert reason == "it has no variant size=20, which was asked for"
    unknown = replace(wanted, variants=("size=30",))
    with pytest.raises(SettingsError, match="variant 'size=30' is not known; did you mean size=20"):
        plan("a.md", own=RunSettings(axes=()), may_set=True, command_line=unknown)
