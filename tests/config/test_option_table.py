"""The table of options: every row can be used, and every source reads values in the same way."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path

import pytest

from pytest_lecturecheck.budget.limits import Tolerance
from pytest_lecturecheck.config.option_reading import (
    LECTURE_OPTIONS,
    OPTIONS_BY_NAME,
    default_values,
    load_reader,
    read_command_line,
    read_override,
    read_value,
)
from pytest_lecturecheck.config.option_row import GROUPS
from pytest_lecturecheck.config.option_table import OPTIONS
from pytest_lecturecheck.config.option_values import read_text
from pytest_lecturecheck.config.options import DEFAULTS, SessionSettings, resolve
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, NO_LIMIT, GpuNeed, RunSettings

TARGETS = {"session": SessionSettings, "run": RunSettings, "tolerance": Tolerance}
NO_LAYER = {"origins", "lines", "texts"}


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_a_row_names_what_exists(option):
    assert option.group in GROUPS
    assert callable(load_reader(option))
    owner, _, attribute = option.field.partition(".")
    if option.field:
        assert attribute in {item.name for item in fields(TARGETS[owner])}
    assert option.on_command_line or option.in_file or option.in_lecture


def test_option_names_are_unique():
    assert len(OPTIONS_BY_NAME) == len(OPTIONS)


def test_a_lecture_can_state_all_of_its_settings():
    stated = {option.field.removeprefix("run.") for option in LECTURE_OPTIONS.values()}
    assert stated == {item.name for item in fields(RunSettings)} - NO_LAYER


def test_defaults_of_a_lecture():
    expected = RunSettings(
        timeout_seconds=600.0,
        total_timeout_seconds=NO_LIMIT,
        startup_timeout_seconds=60.0,
        marks_after_seconds=60.0,
        allow_errors=False,
        run_in_temp=False,
        skip_reason="",
        memory_cap_bytes=AUTOMATIC_CAP,
        concurrency=(),
        passes=1,
        strict_except=(),
    )
    assert expected == DEFAULTS


def test_help_states_the_default_of_options_with_a_value():
    assert OPTIONS_BY_NAME["timeout"].full_help.endswith("0 for none (default: 600)")
    assert OPTIONS_BY_NAME["strict"].full_help == OPTIONS_BY_NAME["strict"].help
    assert OPTIONS_BY_NAME["exclude"].full_help == OPTIONS_BY_NAME["exclude"].help


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("90", 90.0),
        (90, 90.0),
        ("2 min", 120.0),
        (0, NO_LIMIT),
        ("-1", NO_LIMIT),
        (None, NO_LIMIT),
        (math.inf, NO_LIMIT),
    ],
)
def test_timeouts(value, seconds):
    assert read_value(OPTIONS_BY_NAME["timeout"], value, "timeout") == seconds


@pytest.mark.parametrize("value", ["nan", "inf", math.nan, True, [3], 10**400, "", "soon"])
def test_timeouts_that_cannot_be_used(value):
    with pytest.raises(SettingsError, match=r"^--lecture-timeout: "):
        read_value(OPTIONS_BY_NAME["timeout"], value, "--lecture-timeout")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("timeout=60", ("timeout", 60.0)),
        ("timeout = 2 min", ("timeout", 120.0)),
        ("allow-errors=true", ("allow-errors", True)),
        ("gpu=cpu", ("gpu", GpuNeed.CPU)),
        ("skip=false", ("skip", "")),
        ("skip=a = b", ("skip", "a = b")),
        ("concurrency=1,2", ("concurrency", (1, 2))),
        ("strict-except=install,shell", ("strict-except", (FindingKind.INSTALL, FindingKind.SHELL))),
    ],
)
def test_overrides(text, expected):
    assert read_override(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timeout", "'timeout' is not KEY=VALUE; expected for example timeout=60"),
        ("platform=x", "'platform' is not set by lectures, so there is nothing to override; use --lecture-platform"),
        ("time-out=60", f"unknown key 'time-out'; did you mean timeout? expected one of {', '.join(LECTURE_OPTIONS)}"),
        ("allow-errors=yes", "allow-errors: 'yes' is neither true nor false"),
        ("gpu=maybe", "gpu: 'maybe' is not one of required, narrative, cpu"),
    ],
)
def test_overrides_that_cannot_be_used(text, message):
    with pytest.raises(SettingsError) as caught:
        read_command_line({"lecture_override": [text]}.get)
    assert str(caught.value) == f"--lecture-override: {message}"


def test_precedence_of_all_sources(tmp_path):
    """Each source is the strongest for one setting, and states all weaker ones too."""
    (tmp_path / "lecturecheck.toml").write_text(
        "timeout = 4\ntotal-timeout = 4\nstartup-timeout = 4\ndeclared-time = '4 s'\n", encoding="utf-8"
    )
    given = read_command_line(
        {
            "lecture_override": ["timeout=1"],
            "lecture_timeout": "3",
            "lecture_total_timeout": "3",
            "lecture_startup_timeout": "3",
        }.get
    )
    settings = resolve(given, tmp_path, tmp_path)
    own = RunSettings(timeout_seconds=2.0, total_timeout_seconds=2.0)
    book = RunSettings(timeout_seconds=5.0, declared_time_seconds=5.0, declared_memory_bytes=5)
    found = settings.for_lecture(own, book)
    assert (
        found.timeout_seconds,
        found.total_timeout_seconds,
        found.startup_timeout_seconds,
        found.declared_time_seconds,
        found.declared_memory_bytes,
        found.memory_cap_bytes,
    ) == (1.0, 2.0, 3.0, 4.0, 5, AUTOMATIC_CAP)
    assert found.origin("timeout_seconds") == "--lecture-override timeout"
    assert found.origin("startup_timeout_seconds") == "--lecture-startup-timeout"
    assert found.origin("declared_time_seconds") == "lecturecheck.toml declared-time"


def test_an_override_names_only_profiles_that_exist(tmp_path):
    given = read_command_line({"lecture_override": ["env-profile=none-such"]}.get)
    with pytest.raises(SettingsError, match=r"^--lecture-override env-profile: environment profile 'none-such' "):
        resolve(given, tmp_path, tmp_path)


def test_session_settings_have_their_defaults(tmp_path: Path):
    settings = resolve({}, tmp_path, tmp_path)
    assert (settings.strict, settings.github, settings.takes_leases, settings.keep_runs) == (False, True, True, 50)
    assert (settings.launcher, settings.budget_folder) == ("local", tmp_path / "lecture-budgets")
    assert default_values()["no-leases"] is True


def test_switching_leases_off_in_the_file(tmp_path):
    (tmp_path / "lecturecheck.toml").write_text("no-leases = true\n", encoding="utf-8")
    assert resolve({}, tmp_path, tmp_path).takes_leases is False


def test_kinds_of_findings_are_read_with_hyphens_or_spaces():
    option = OPTIONS_BY_NAME["strict-except"]
    kinds = (FindingKind.MISSING_PROGRAM, FindingKind.SHELL, FindingKind.MISSING_PROGRAM)
    assert read_value(option, ["missing-program", "Shell", "missing program"], "x") == kinds
    with pytest.raises(SettingsError, match=r"^x: 'instal' is not a kind of finding; did you mean install\?"):
        read_value(option, ["instal"], "x")


def test_a_name_with_a_nul_character_is_refused():
    """A settings file can hold one, and no path can."""
    with pytest.raises(SettingsError, match=r"^'a\\x00b' holds a NUL character, which no name or path can$"):
        read_text("a\0b")
