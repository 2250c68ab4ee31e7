from __future__ import annotations

import math
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.config.options import DEFAULTS
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.settings import NO_LIMIT, RunSettings, timeout_from_number


def test_a_layer_keeps_what_it_says_and_takes_the_rest_from_below():
    own = RunSettings(timeout_seconds=30.0, origins={"timeout_seconds": "front matter"})
    book = RunSettings(
        timeout_seconds=600.0,
        allow_errors=True,
        origins={"timeout_seconds": "_config.yml", "allow_errors": "_config.yml"},
    )
    settings = own.over(book).over(DEFAULTS)
    assert (settings.timeout_seconds, settings.allow_errors, settings.run_in_temp) == (30.0, True, False)
    assert settings.origin("timeout_seconds") == "front matter"
    assert settings.origin("allow_errors") == "_config.yml"
    assert settings.origin("run_in_temp") == "default"


def test_false_zero_and_empty_are_said_and_win():
    own = RunSettings(allow_errors=False, skip_reason="", declared_memory_bytes=0)
    settings = own.over(RunSettings(allow_errors=True, skip_reason="excluded", declared_memory_bytes=5))
    assert (settings.allow_errors, settings.skip_reason, settings.declared_memory_bytes) == (False, "", 0)


def test_an_origin_without_a_value_hides_nothing():
    empty = RunSettings(origins={"timeout_seconds": "front matter"})
    book = RunSettings(timeout_seconds=9.0, origins={"timeout_seconds": "_config.yml"})
    assert empty.over(book).origin("timeout_seconds") == "_config.yml"


def test_a_value_without_an_origin_does_not_borrow_one():
    own = RunSettings(timeout_seconds=3.0)
    book = RunSettings(timeout_seconds=9.0, origins={"timeout_seconds": "_config.yml"})
    assert own.over(book).origin("timeout_seconds") == "default"


LAYERS = st.builds(
    RunSettings,
    timeout_seconds=st.none() | st.floats(0, 9),
    allow_errors=st.none() | st.booleans(),
    kernel_name=st.none() | st.sampled_from(["a", "b"]),
    skip_reason=st.none() | st.sampled_from(["", "x"]),
).map(
    lambda layer: RunSettings(
        **{item.name: getattr(layer, item.name) for item in fields(layer) if item.name != "origins"},
        origins={
            item.name: f"origin {getattr(layer, item.name)}"
            for item in fields(layer)
            if item.name != "origins" and getattr(layer, item.name) is not None
        },
    )
)


@given(LAYERS, LAYERS, LAYERS)
def test_layers_stack_in_any_grouping(top, middle, bottom):
    assert top.over(middle).over(bottom) == top.over(middle.over(bottom))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, NO_LIMIT), (0, NO_LIMIT), (-1, NO_LIMIT), (math.inf, NO_LIMIT), (600, 600.0), (0.5, 0.5)],
)
def test_timeouts_are_read_as_notebook_runners_do(value, seconds):
    assert timeout_from_number(value) == seconds


@pytest.mark.parametrize("value", [math.nan, True, False])
def test_what_is_no_timeout_is_refused(value):
    with pytest.raises(SettingsError) as caught:
        timeout_from_number(value)
    assert str(caught.value) == (
        f"timeout {value!r} is not a number of seconds; expected for example 600, or -1 for no limit"
    )
