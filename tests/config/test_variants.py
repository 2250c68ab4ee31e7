"""Variants of the settings, and the axes that span them."""

import re

import pytest

from pytest_lecturecheck.config.variants import parse_variants, select_variants, span_variants
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.axis import parse_axes, value_text
from pytest_lecturecheck.model.settings import GpuNeed
from pytest_lecturecheck.model.variant import PLAIN, axis_values


def span(axes, **tables):
    return {item.name: item for item in span_variants(parse_axes(axes), parse_variants(tables))}


def test_known_axes_set_device_precision_and_cards():
    found = span("device=cpu,gpu precision=f64")
    assert found["device=cpu,precision=f64"].settings.gpu is GpuNeed.CPU
    assert found["device=gpu,precision=f64"].settings.gpu is GpuNeed.REQUIRED
    assert found["device=cpu,precision=f64"].environment == {"JAX_ENABLE_X64": "1"}
    assert found["device=cpu,precision=f64"].offered == {"device": "cpu", "precision": "f64"}
    cards = span("gpus=1,4")["gpus=4"].settings
    assert (cards.gpus, cards.gpu, cards.origin("gpus")) == (4, GpuNeed.REQUIRED, "axis gpus=4")


def test_other_axes_are_parameters():
    found = span({"size": [10, 2.5], "sampler": ["vectorized"]})
    assert found["size=10,sampler=vectorized"].parameters == {"size": 10, "sampler": "vectorized"}
    assert list(found) == ["size=10,sampler=vectorized", "size=2.5,sampler=vectorized"]
    assert axis_values("size=2.5,sampler=vectorized,c=2") == {"size": "2.5", "sampler": "vectorized", "c": "2"}


def test_a_value_that_names_a_variant_brings_it():
    table = {"env": {"XLA_FLAGS": "x"}, "parameters": {"draws": 5}, "gpu": "cpu", "timeout": 5, "platform": "here"}
    found = span("kind=small", small=table)["kind=small"]
    assert (found.environment, found.parameters, found.platform) == ({"XLA_FLAGS": "x"}, {"draws": 5}, "here")
    assert (found.settings.gpu, found.settings.timeout_seconds) == (GpuNeed.CPU, 5)
    assert found.settings.origin("gpu") == "[variant.small] gpu"


def test_no_axes_and_no_variants_span_nothing():
    assert span({}) == {}


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("device=tpu", "axis device: 'tpu' is not known; expected cpu, gpu, or the name of a variant "),
        ("gpus=0", "axis gpus: '0' is not a number of GPUs from 1 to 64"),
        ("size", "axes 'size': 'size' is not NAME=VALUE,VALUE with each name once"),
        ("size=1 size=2", "axes 'size=1 size=2': 'size=2' is not NAME=VALUE,VALUE with each name once"),
        ("c=1", "axis 'c' cannot be used"),
        ("size=1,1", "axis size: value 1 comes twice"),
        ({"size": ["a,b"]}, "axis size: value 'a,b' cannot be used"),
        ({"size": [float("nan")]}, "axis size: value nan cannot be used"),
        ({"size": list(range(10**5))}, "axis size: 100000 values; expected a list of 1 to 64"),
        ({"size": []}, "axis size: 0 values; expected a list of 1 to 64"),
        ({"a": list(range(40)), "b": list(range(40))}, "axes (a 40, b 40) span more than 1000 variants"),
        (5, "5 is not a table of axes"),
    ],
)
def test_axes_that_cannot_be_used(axes, message):
    with pytest.raises(SettingsError, match=f"^{re.escape(message)}"):
        span(axes)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"a": {"parameter": 1}}, "[variant.a]: unknown key 'parameter'; did you mean parameters?"),
        ({"a=b": {}}, "[variant.a=b]: the name 'a=b' cannot be used"),
        ({"a": {"timeout": "x"}}, "[variant.a] timeout: "),
        ({"a": {"parameters": {"x": float("nan")}}}, "[variant.a]: parameter 'x' = nan cannot be used"),
        ({"a": {"platform": "a/b"}}, "[variant.a]: platform label 'a/b' cannot be used"),
        ({"a": {"axes": {}}}, "[variant.a]: unknown key 'axes'"),
        ({"a": 1}, "[variant.a]: 1 is not a table"),
    ],
)
def test_variants_that_cannot_be_used(tables, message):
    with pytest.raises(SettingsError, match=f"^{re.escape(message)}"):
        parse_variants(tables)


def test_a_variant_asked_for_where_there_is_none():
    with pytest.raises(
        SettingsError,
        match=r"variant 'fast' is not known; the lecture has none: define \[variant.NAME\] or \[axes\] in",
    ):
        select_variants([PLAIN], ["fast"])


def test_an_empty_list_of_variants_means_the_lecture_as_it_is():
    named = parse_variants({"small": {}})
    assert select_variants(span_variants((), named), []) == ()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("0.5", 0.5),
        ("true", True),
        ("1e3", "1e3"),
        ("007", "007"),
        ("-3", -3),
        ("nan", "nan"),
        ("1_0", "1_0"),
    ],
)
def test_numbers_on_the_command_line_are_numbers(text, value):
    (axis,) = parse_axes(f"x={text}")
    assert axis.values == (value,)
    assert type(axis.values[0]) is type(value)
    assert value_text(axis.values[0]) == text


def test_variants_of_two_platforms_are_skipped_together():
    tables = {"t4": {"platform": "linux-t4"}, "arm": {"platform": "linux-arm"}, "f64": {}}
    found = span({"device": ["cpu", "t4"], "precision": ["f64"]}, **tables)
    assert found["arm,device=cpu,precision=f64"].settings.skip_reason is None
    assert found["arm,device=t4,precision=f64"].settings.skip_reason == (
        "no machine is both: arm is for the platform linux-arm, and device=t4 for linux-t4"
    )


@pytest.mark.parametrize("axes", ["device=cpu,gpu gpus=2", "gpus=2 device=cpu,gpu"])
def test_several_gpus_do_not_run_on_the_cpu(axes):
    reasons = {name: item.settings.skip_reason for name, item in span(axes).items()}
    skipped = {reason for name, reason in reasons.items() if "cpu" in name}
    assert skipped == {"gpus=2 needs a GPU, and device=cpu runs on the CPU"}
    assert {reason for name, reason in reasons.items() if "cpu" not in name} == {None}
