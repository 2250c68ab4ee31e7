"""Stamps: what is written is read back, and what differs is named."""

import json
from dataclasses import replace

import pytest
from support.book_fixtures import RealFiles

from pytest_lecturecheck.book_cache.port import BookCacheError
from pytest_lecturecheck.book_cache.stamp import (
    Stamp,
    StampedEnvironment,
    describe_differences,
    read_stamp,
    write_stamp,
)

HERE = StampedEnvironment(
    platform="linux-x86_64-cpu",
    system="Linux x86_64",
    python="CPython 3.13.1",
    packages={"numpy": "2.4.6", "scipy": "1.17.1"},
    variables={"OMP_NUM_THREADS": "2"},
)
STAMP = Stamp(
    digest="ab12",
    lecture="lectures/a.md",
    made="2026-12-01T05:00:00+00:00",
    version="0.1.0",
    environment=HERE,
    values={"peak_footprint_bytes": 1e8, "speedup": 3.5},
)


def differences(there, **versions):
    return describe_differences(there, HERE, (dict(HERE.packages) | versions).get)


def test_a_stamp_is_read_back(tmp_path):
    write_stamp(tmp_path, "0a", STAMP, RealFiles())
    assert (tmp_path / "lecturecheck" / "0a.json").is_file()
    assert read_stamp(tmp_path, "0a") == STAMP


def test_there_may_be_no_stamp(tmp_path):
    assert read_stamp(tmp_path, "0a") is None


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda data: data.update(schema=2), "its schema is 2; expected 1"),
        (lambda data: data.pop("digest"), "'digest'"),
        (lambda data: data.update(environment=[]), ""),
        (lambda data: data["environment"].update(other=1), "unexpected keyword argument 'other'"),
    ],
)
def test_a_damaged_stamp_is_named(change, fault, tmp_path):
    data = STAMP.to_plain()
    change(data)
    (tmp_path / "lecturecheck").mkdir()
    (tmp_path / "lecturecheck" / "0a.json").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(BookCacheError, match=rf"0a\.json cannot be read: .*{fault}.*; remove it"):
        read_stamp(tmp_path, "0a")


def test_an_equal_environment_does_not_differ():
    assert differences(HERE) == ""


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"platform": "g4dn"}, "platform g4dn there and linux-x86_64-cpu here"),
        ({"system": "Darwin arm64"}, "system Darwin arm64 there and Linux x86_64 here"),
        ({"accelerators": ("Tesla T4",)}, "GPUs Tesla T4 there and none here"),
        ({"python": "CPython 3.12.8"}, "CPython 3.12.8 there and CPython 3.13.1 here"),
        ({"packages": {"numpy": "2.3.1"}}, "numpy 2.3.1 there and 2.4.6 here"),
        ({"packages": {"jax": "0.10.2"}}, "jax 0.10.2 there and none here"),
        ({"variables": {}}, "OMP_NUM_THREADS=unset there and 2 here"),
    ],
)
def test_what_differs_is_named(changes, text):
    assert differences(replace(HERE, **changes)) == text


def test_of_many_differences_the_first_are_named():
    there = replace(HERE, packages={"a": "1", "b": "1", "c": "1"}, platform="x")
    assert differences(there).endswith("a 1 there and none here, b 1 there and none here and 1 more")


def test_of_another_interpreter_the_first_two_parts_are_compared():
    here = replace(HERE, python="CPython 3.13")
    assert describe_differences(HERE, here, HERE.packages.get) == ""
