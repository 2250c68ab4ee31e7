"""Flags that a lecture's own value replaces are reported; anything else is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_lecturecheck.config.option_reading import command_line_texts, read_command_line
from pytest_lecturecheck.config.options import resolve
from pytest_lecturecheck.config.replaced_flags import replaced_flags
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, NO_LIMIT, RunSettings


def _messages(folder, own: RunSettings, **given: object) -> list[str]:
    options = {f"lecture_{key}": value for key, value in given.items()}
    texts = command_line_texts(options.get)
    session = resolve(read_command_line(options.get), folder, folder, texts=texts)
    found = list(replaced_flags("lectures/nuts.md", own, session))
    assert all(item.kind is FindingKind.SETTING and not item.fails_when_strict for item in found)
    return [item.message for item in found]


def test_a_replaced_flag_names_both_values_and_the_line(tmp_path):
    own = RunSettings(timeout_seconds=2400.0, lines={"timeout_seconds": 7})
    assert _messages(tmp_path, own, timeout="60") == [
        "timeout 40 min from lectures/nuts.md, line 7, instead of --lecture-timeout 60"
    ]
    written = replace(own, texts={"timeout_seconds": "2400"})
    assert _messages(tmp_path, written, timeout="1h") == [
        "timeout 2400 from lectures/nuts.md, line 7, instead of --lecture-timeout 1h"
    ]


@pytest.mark.parametrize(
    ("own", "given", "message"),
    [
        (
            RunSettings(timeout_seconds=NO_LIMIT),
            {"timeout": "60"},
            "timeout none from lectures/nuts.md, instead of --lecture-timeout 60",
        ),
        (
            RunSettings(memory_cap_bytes=AUTOMATIC_CAP),
            {"memory_cap": "1 GiB"},
            "memory-cap auto from lectures/nuts.md, instead of --lecture-memory-cap 1 GiB",
        ),
        (
            RunSettings(concurrency=(1, 2)),
            {"concurrency": "3"},
            "concurrency 1,2 from lectures/nuts.md, instead of --lecture-concurrency 3",
        ),
        (
            RunSettings(kernel_name="julia"),
            {"kernel": "xeus"},
            "kernel julia from lectures/nuts.md, instead of --lecture-kernel xeus",
        ),
    ],
)
def test_values_are_shown_as_people_write_them(tmp_path, own, given, message):
    assert _messages(tmp_path, own, **given) == [message]


@pytest.mark.parametrize(
    ("own", "given"),
    [
        (RunSettings(timeout_seconds=60.0), {"timeout": "1 min"}),
        (RunSettings(timeout_seconds=60.0), {}),
        (RunSettings(), {"timeout": "60"}),
        (RunSettings(timeout_seconds=2400.0), {"timeout": "60", "override": ["timeout=5"]}),
    ],
)
def test_nothing_is_reported_where_nothing_was_replaced(tmp_path, own, given):
    assert _messages(tmp_path, own, **given) == []
