"""
The pytest plugin: hooks only.

Being installed must cost nothing: without ``--lecture-budget`` or ``--lecture-record`` this module imports and
registers nothing more, and collection is untouched.
"""

from __future__ import annotations

from typing import Any

import pytest

from pytest_lecturecheck.config.option_row import GROUPS, Option
from pytest_lecturecheck.config.option_table import OPTIONS


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; every default is ``None``, which means that the flag was not given."""
    for name, heading in GROUPS.items():
        group = parser.getgroup(f"lecturecheck-{name}", heading)
        for option in OPTIONS:
            if option.group == name and option.on_command_line:
                _add_option(group, option)


def _add_option(group: pytest.OptionGroup, option: Option) -> None:
    names: dict[str, Any] = {"dest": option.destination, "help": option.full_help}
    if option.metavar:
        action = "append" if option.is_list else "store"
        group.addoption(option.flag, action=action, metavar=option.metavar, **names)
    else:
        group.addoption(option.flag, action="store_const", const=True, **names)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report options that had no effect because neither of the two modes was chosen, where it is read: at the end."""
    if config.getoption("lecture_budget") or config.getoption("lecture_record"):
        return
    given = [option.flag for option in OPTIONS if option.on_command_line and config.getoption(option.destination)]
    if given:
        verb = "has" if len(given) == 1 else "have"
        terminalreporter.write_line(
            f"lecturecheck: no lecture was run, because {', '.join(given)} {verb} no effect without --lecture-budget "
            "or --lecture-record"
        )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the session if one of the two modes was chosen."""
    if config.getoption("lecture_budget") or config.getoption("lecture_record"):
        from pytest_lecturecheck.plugin.plain_imports import plain_imports  # noqa: PLC0415 - see above

        with plain_imports():
            from pytest_lecturecheck.plugin.startup import register  # noqa: PLC0415 - see above

        register(config)
