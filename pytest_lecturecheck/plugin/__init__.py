"""
The pytest plugin: hooks only.

Being installed must cost nothing: without ``--lecture-budget`` or ``--lecture-record`` this module imports and
registers nothing more, and collection is untouched.
"""

from __future__ import annotations

import pytest

from pytest_lecturecheck.config.option_table import OPTIONS


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; every default is ``None``, so that the settings file can tell "not given" from a value."""
    group = parser.getgroup("lecturecheck", "lecture notebooks (pytest-lecturecheck)")
    for option in OPTIONS:
        if not option.on_command_line:
            continue
        if option.metavar:
            action = "append" if option.is_list else "store"
            group.addoption(
                option.flag, dest=option.destination, action=action, metavar=option.metavar, help=option.help
            )
        else:
            group.addoption(option.flag, dest=option.destination, action="store_const", const=True, help=option.help)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say that options of ours have no effect without one of the two modes."""
    if config.getoption("lecture_budget") or config.getoption("lecture_record"):
        return None
    given = [option.flag for option in OPTIONS if option.on_command_line and config.getoption(option.destination)]
    if not given:
        return None
    verb = "has" if len(given) == 1 else "have"
    return f"lecturecheck: {', '.join(given)} {verb} no effect without --lecture-budget or --lecture-record"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the session, if one of the two modes was asked for."""
    if config.getoption("lecture_budget") or config.getoption("lecture_record"):
        from pytest_lecturecheck.plugin.startup import register  # noqa: PLC0415 - see above

        register(config)
