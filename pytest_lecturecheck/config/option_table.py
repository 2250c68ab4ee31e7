"""
The table of options: everything about an option stands in its row.

The command line, the settings file, the keys of a lecture's own ``lecturecheck`` table, ``--help`` and the defaults
are made from these rows. To add an option, add a row, and a field to the settings that it sets.

Every start of pytest loads this module where the package is installed. It therefore imports next to nothing; the
function that reads a value is named here and loaded when a value has to be read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

GROUPS: Final = {
    "run": "lectures (pytest-lecturecheck): check or record, and which lectures",
    "limits": "lectures, limits: when a lecture is stopped, and what makes it fail",
    "measure": "lectures, measurement: how often and how lectures run",
    "report": "lectures, reports: what is written besides the terminal output",
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


OPTIONS: Final = (
    Option(
        name="budget",
        group="run",
        help="run lectures (.ipynb, MyST .md, jupytext scripts) and compare them with the recorded budgets",
        reader="config.option_values.read_flag",
        in_file=False,
    ),
    Option(
        name="record",
        group="run",
        help="run lectures and record their budgets for this platform",
        reader="config.option_values.read_flag",
        in_file=False,
    ),
    Option(
        name="suffix",
        group="run",
        help="also treat files with this ending as lectures, for example .qmd, .Rmd or .py; repeatable",
        reader="config.option_values.read_suffix",
        field="session.suffixes",
        default=(),
        metavar=".EXT",
        is_list=True,
    ),
    Option(
        name="exclude",
        group="run",
        help="leave out lectures that match a file name or a path from rootdir; repeatable",
        reader="config.option_values.read_text",
        field="session.exclude",
        default=(),
        metavar="GLOB",
        is_list=True,
    ),
    Option(
        name="remember-failures",
        group="run",
        help="fail an unchanged lecture at once if it failed before (default: only if CI is set)",
        reader="config.option_values.read_flag",
        field="session.remember_failures",
    ),
    Option(
        name="rerun-failed",
        group="run",
        help="run unchanged lectures again although they failed before",
        reader="config.option_values.read_flag",
        field="session.rerun_failed",
        default=False,
        in_file=False,
    ),
    Option(
        name="override",
        group="run",
        help="for debugging: set KEY for all lectures, even those that set it themselves; repeatable",
        reader="config.option_reading.read_override",
        default=(),
        metavar="KEY=VALUE",
        is_list=True,
        in_file=False,
    ),
    Option(
        name="skip",
        group="run",
        help="do not run this lecture: true, or the reason",
        reader="config.option_values.read_skip",
        field="run.skip_reason",
        default=False,
        on_command_line=False,
        in_file=False,
        in_lecture=True,
    ),
    Option(
        name="strict",
        group="limits",
        help="also fail for a missing budget, a missing measurement and some findings, such as a failed shell line or "
        "!pip install that changed the environment; see --lecture-strict-except",
        reader="config.option_values.read_flag",
        field="session.strict",
        default=False,
    ),
    Option(
        name="strict-except",
        group="limits",
        help="a kind of finding that --lecture-strict does not fail, for example install; repeatable",
        reader="config.option_values.read_finding_kind",
        field="run.strict_except",
        default=(),
        metavar="KIND",
        is_list=True,
        in_lecture=True,
    ),
    Option(
        name="timeout",
        group="limits",
        help="time limit of one cell: seconds, or a duration such as '10 min'; 0 for none",
        reader="config.option_values.read_timeout",
        field="run.timeout_seconds",
        default=600,
        metavar="S",
        in_lecture=True,
    ),
    Option(
        name="total-timeout",
        group="limits",
        help="time limit of one lecture, kernel start included; 0 for none",
        reader="config.option_values.read_timeout",
        field="run.total_timeout_seconds",
        default=0,
        metavar="S",
        in_lecture=True,
    ),
    Option(
        name="startup-timeout",
        group="limits",
        help="time limit of a kernel's start; 0 for none",
        reader="config.option_values.read_timeout",
        field="run.startup_timeout_seconds",
        default=60,
        metavar="S",
        in_lecture=True,
    ),
    Option(
        name="memory-cap",
        group="limits",
        help="stop a lecture that takes more memory: a size, off, or auto for what the machine can spare",
        reader="config.option_values.read_cap",
        field="run.memory_cap_bytes",
        default="auto",
        metavar="SIZE",
        in_lecture=True,
    ),
    Option(
        name="declared-memory",
        group="limits",
        help="compare with the memory that a README declares, for example '24 GB'; needs no budget file",
        reader="config.option_values.read_positive_size",
        field="run.declared_memory_bytes",
        metavar="SIZE",
        in_lecture=True,
    ),
    Option(
        name="declared-time",
        group="limits",
        help="compare with the time that a README declares, for example '2 hours'; needs no budget file",
        reader="config.option_values.read_positive_duration",
        field="run.declared_time_seconds",
        metavar="TIME",
        in_lecture=True,
    ),
    Option(
        name="budget-dir",
        group="limits",
        help="folder of the budget files, relative to rootdir",
        reader="config.option_values.read_text",
        default="lecture-budgets",
        metavar="DIR",
    ),
    Option(
        name="allow-errors",
        group="limits",
        help="go on after a cell that raised, and do not fail for it",
        reader="config.option_values.read_flag",
        field="run.allow_errors",
        default=False,
        on_command_line=False,
        in_file=False,
        in_lecture=True,
    ),
    Option(
        name="memory-fraction",
        group="limits",
        help="relative margin of memory limits",
        reader="config.option_values.read_fraction",
        field="tolerance.memory_fraction",
        on_command_line=False,
    ),
    Option(
        name="memory-slack",
        group="limits",
        help="least margin of memory limits",
        reader="config.option_values.read_positive_size",
        field="tolerance.memory_slack_bytes",
        on_command_line=False,
    ),
    Option(
        name="time-factor",
        group="limits",
        help="factor of time limits",
        reader="config.option_values.read_fraction",
        field="tolerance.time_factor",
        on_command_line=False,
    ),
    Option(
        name="time-slack",
        group="limits",
        help="margin added to time limits",
        reader="config.option_values.read_positive_duration",
        field="tolerance.time_slack_seconds",
        on_command_line=False,
    ),
    Option(
        name="runs",
        group="measure",
        help="run each lecture N times (default: 1 to check, 3 to record)",
        reader="config.option_values.read_positive_count",
        metavar="N",
    ),
    Option(
        name="profile",
        group="measure",
        help="trace cells with jax.profiler: 'over' repeats a lecture that is over a limit and traces the cells "
        "concerned; '3,7' traces these cells and compares nothing. Traces are kept in .lecturecheck/traces",
        reader="config.option_values.read_trace_request",
        metavar="CELLS",
    ),
    Option(
        name="run-in-temp",
        group="measure",
        help="run in an empty temporary folder instead of the lecture's own",
        reader="config.option_values.read_flag",
        field="run.run_in_temp",
        default=False,
        on_command_line=False,
        in_file=False,
        in_lecture=True,
    ),
    Option(
        name="report",
        group="report",
        help="write a report; the file's ending selects the format: .html, .json or .md; repeatable",
        reader="config.option_values.read_report",
        default=(),
        metavar="FILE",
        is_list=True,
    ),
    Option(
        name="keep-runs",
        group="report",
        help="number of sessions kept in .lecturecheck/runs; 0 for none",
        reader="config.option_values.read_count",
        field="session.keep_runs",
        default=50,
        on_command_line=False,
    ),
    Option(
        name="github",
        group="report",
        help="false: write no job summary and no annotations on GitHub Actions",
        reader="config.option_values.read_flag",
        field="session.github",
        default=True,
        on_command_line=False,
    ),
    Option(
        name="heartbeat",
        group="report",
        help="interval of progress lines where there is no terminal, or off (default: 60 s if CI is set)",
        reader="config.option_values.read_heartbeat",
        field="session.heartbeat_seconds",
        on_command_line=False,
    ),
    Option(
        name="concurrency",
        group="concurrency",
        help="run each lecture in this many kernels at once, one count after another ('1,2,3'), and report how many "
        "are safe here",
        reader="model.cohort.parse_concurrency",
        field="run.concurrency",
        metavar="COUNTS",
        in_lecture=True,
    ),
    Option(
        name="cohort",
        group="concurrency",
        help="tables [cohort.NAME] with lectures = ['a.md', 'b.md'], which run at the same time",
        reader="model.cohort.parse_cohorts",
        field="session.cohorts",
        on_command_line=False,
    ),
    Option(
        name="capacity",
        group="concurrency",
        help="memory that all lectures may take together (default: what the machine can give, less a reserve)",
        reader="config.option_values.read_positive_size",
        field="session.capacity_bytes",
        metavar="SIZE",
    ),
    Option(
        name="no-leases",
        group="concurrency",
        help="start lectures at once, without waiting until their recorded memory, GPU memory and cores are free",
        reader="config.option_values.read_inverted_flag",
        field="session.takes_leases",
        default=False,
    ),
    Option(
        name="exclusive",
        group="concurrency",
        help="run nothing else beside this lecture",
        reader="config.option_values.read_flag",
        field="run.exclusive",
        on_command_line=False,
        in_file=False,
        in_lecture=True,
    ),
    Option(
        name="platform",
        group="where",
        help="use the budgets of this platform label instead of the detected one, for example g4dn.2xlarge",
        reader="config.option_values.read_platform",
        field="session.platform",
        metavar="NAME",
    ),
    Option(
        name="kernel",
        group="where",
        help="run every lecture in this kernel instead of the one it names",
        reader="config.option_values.read_text",
        field="run.kernel_name",
        metavar="NAME",
        in_lecture=True,
    ),
    Option(
        name="gpu",
        group="where",
        help="what the lecture says about GPUs: required, narrative or cpu",
        reader="config.option_values.read_gpu",
        field="run.gpu",
        on_command_line=False,
        in_file=False,
        in_lecture=True,
    ),
    Option(
        name="launcher",
        group="where",
        help="where kernels run: local, slurm (job steps of the current allocation), or a plugin's launcher",
        reader="config.option_values.read_text",
        field="session.launcher",
        default="local",
        metavar="NAME",
    ),
    Option(
        name="slurm",
        group="where",
        help="table for the launcher slurm: partition, account, time, gres, mem-default, cpus, extra, sbatch-extra",
        reader="config.slurm_settings.parse_slurm",
        field="session.slurm",
        on_command_line=False,
    ),
    Option(
        name="env-profile",
        group="where",
        help="named set of kernel variables: jax-ci (built in) or one of [tool.lecturecheck.env-profiles]",
        reader="config.option_values.read_text",
        field="run.env_profile",
        metavar="NAME",
        in_lecture=True,
    ),
    Option(
        name="env",
        group="where",
        help="variables for kernels only: a table of names and values",
        reader="config.environment.parse_environment",
        on_command_line=False,
    ),
    Option(
        name="env-profiles",
        group="where",
        help="named sets of variables for kernels: a table of tables",
        reader="config.environment.parse_profiles",
        on_command_line=False,
    ),
)
