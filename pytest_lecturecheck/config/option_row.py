"""The columns of the table of options, and the groups of ``pytest --help``. It imports next to nothing."""

from __future__ import annotations

from typing import Final, NamedTuple

GROUPS: Final = {
    "run": "lectures (pytest-lecturecheck): check or record, and which lectures",
    "limits": "lectures, limits: when a lecture is stopped, and what makes it fail",
    "measure": "lectures, measurement: how often and how lectures run",
    "report": "lectures, reports: what is written besides the terminal output",
    "book": "lectures, book: what the build of the book takes over",
    "concurrency": "lectures, concurrency: how many kernels share the machine",
    "where": "lectures, environment: platform, kernel, launcher and variables",
}
"""Groups of ``pytest --help``, in order, with their headings."""


class Option(NamedTuple):
    """
    One option.

    Attributes:
        name: name in the settings file and in a lecture; the flag is ``--lecture-<name>``.
        group: key of :data:`GROUPS`.
        help: help text; the default is added to it.
        reader: function that reads one value, as ``module.function`` below the package; raises ``SettingsError`` or
            ``UnitError`` without naming the option.
        field: what the value sets: ``session.<field>`` of ``SessionSettings``, ``run.<field>`` of ``RunSettings``,
            ``tolerance.<field>`` of ``Tolerance``; empty where ``resolve`` combines it with other values.
        default: the default as a settings file would state it; ``None`` where it depends on something else.
        metavar: placeholder of the value; empty for a flag without one.
        is_list: the option may be given several times (a list in the settings file).
        on_command_line: there is a flag.
        in_file: the settings file may state it.
        in_lecture: a lecture's own ``lecturecheck`` table may state it.
    """

    name: str
    group: str
    help: str
    reader: str
    field: str = ""
    default: object = None
    metavar: str = ""
    is_list: bool = False
    on_command_line: bool = True
    in_file: bool = True
    in_lecture: bool = False

    @property
    def flag(self) -> str:
        """Return the command-line flag."""
        return f"--lecture-{self.name}"

    @property
    def destination(self) -> str:
        """Return the attribute in pytest's option namespace."""
        return f"lecture_{self.name.replace('-', '_')}"

    @property
    def full_help(self) -> str:
        """Return the help text with the default."""
        if self.default in {None, ()} or not self.metavar:
            return self.help
        return f"{self.help} (default: {self.default})"
