"""
The table of options, from which the command line, the settings file and their help are made.

Loaded at every start of pytest where the package is installed, so it holds words only and imports next to nothing;
what the values mean is in :mod:`pytest_lecturecheck.config.options`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Option(NamedTuple):
    """
    One option.

    Attributes:
        name: name in the settings file; the flag is ``--lecture-<name>``.
        help: help text, for people.
        metavar: placeholder of the value; empty for a flag without one.
        is_list: the option may be given several times (a list in the settings file).
        on_command_line: whether there is a flag.
        in_file: whether the settings file may hold it.
    """

    name: str
    help: str
    metavar: str = ""
    is_list: bool = False
    on_command_line: bool = True
    in_file: bool = True

    @property
    def flag(self) -> str:
        """Give the command-line flag."""
        return f"--lecture-{self.name}"

    @property
    def destination(self) -> str:
        """Give the attribute in pytest's option namespace."""
        return f"lecture_{self.name.replace('-', '_')}"


OPTIONS: Final = (
    Option(
        name="budget",
        help="run lectures (.ipynb, MyST .md, jupytext) as test items and check them against the recorded budgets",
        in_file=False,
    ),
    Option(
        name="record",
        help="run lectures and record their budgets for this platform",
        in_file=False,
    ),
    Option(
        name="runs",
        metavar="N",
        help="run each lecture N times (default: 1 to check, 3 to record)",
    ),
    Option(
        name="strict",
        help="fail for a missing budget, a metric that was not measured, a failed shell line, an expected error that "
        "did not come",
    ),
    Option(
        name="platform",
        metavar="NAME",
        help="platform label of the budgets, instead of the detected one (for example g4dn.2xlarge)",
    ),
    Option(
        name="timeout",
        metavar="S",
        help="limit for one cell: seconds, or a duration such as '10 min'; 0 for none (default: 600)",
    ),
    Option(name="total-timeout", metavar="S", help="limit for one lecture (default: none)"),
    Option(name="startup-timeout", metavar="S", help="limit for the start of a kernel (default: 60)"),
    Option(
        name="kernel",
        metavar="NAME",
        help="run every lecture in this kernel instead of the one it names",
    ),
    Option(
        name="memory-cap",
        metavar="SIZE",
        help="memory that a lecture's processes may take before they are stopped (default: auto, what the machine can "
        "give less a reserve; off for none)",
    ),
    Option(
        name="declared-memory",
        metavar="SIZE",
        help="check against the memory that a README declares, for example '24 GB'; needs no budget file",
    ),
    Option(
        name="declared-time",
        metavar="TIME",
        help="check against the time that a README declares, for example '2 hours'; needs no budget file",
    ),
    Option(
        name="budget-dir",
        metavar="DIR",
        help="folder of the budget files, from pytest's rootdir (default: lecture-budgets)",
    ),
    Option(
        name="report",
        metavar="FILE",
        is_list=True,
        help="also write a report; the name's ending chooses the form: .html, .json or .md; repeatable",
    ),
    Option(
        name="suffix",
        metavar=".EXT",
        is_list=True,
        help="also take files with this ending as lectures (.qmd, .Rmd, percent scripts without a header); repeatable",
    ),
    Option(
        name="exclude",
        metavar="GLOB",
        is_list=True,
        help="leave lectures out: a file's name, or a path from rootdir; repeatable",
    ),
    Option(
        name="remember-failures",
        help="do not run a lecture again that failed before and has not changed: it fails at once, with the first "
        "failure's text (default: only where the variable CI is set)",
    ),
    Option(
        name="rerun-failed",
        help="run lectures again that failed before and have not changed",
        in_file=False,
    ),
    Option(
        name="profile",
        metavar="CELLS",
        help="trace cells with jax.profiler and tell how long kernels ran, how long the device waited and how often it "
        "was set to work: 'over' runs a lecture that is over a limit once more and traces the cells that the verdict "
        "names; '3,7' traces these code cells in the run itself, which is then held against nothing; traces are kept "
        "in .lecturecheck/traces",
    ),
    Option(
        name="no-leases",
        help="start lectures at once without asking what the machine has left, as book builds do (by default a lecture "
        "waits until its recorded memory, GPU memory and cores fit beside what runs)",
    ),
    Option(
        name="capacity",
        metavar="SIZE",
        help="memory that all lectures at once may take together (default: what the machine or its limit gives, less a "
        "reserve)",
    ),
    Option(
        name="concurrency",
        metavar="COUNTS",
        help="run each lecture with so many kernels at once, one count after the other ('1,2,3'), and tell what they "
        "take together and how many are safe here",
    ),
    Option(
        name="launcher",
        metavar="NAME",
        help="where kernels run: local (here), slurm (each kernel is a step of the allocation that pytest runs in), or "
        "one that a plugin offers (default: local)",
    ),
    Option(
        name="env-profile",
        metavar="NAME",
        help="named set of variables for kernels only: jax-ci (compiled programs kept between runs, a share of the GPU "
        "worked out for the kernels that run at once, whole tracebacks), or one of [tool.lecturecheck.env-profiles]",
    ),
    Option(
        name="keep-runs",
        on_command_line=False,
        help="sessions that are kept in .lecturecheck/runs; 0 for none (default: 50)",
    ),
    Option(
        name="github",
        on_command_line=False,
        help="false: write no job summary and no annotations on GitHub Actions",
    ),
    Option(
        name="heartbeat",
        on_command_line=False,
        help="lines of progress without a terminal, and how often a lecture that runs is told of: '60 s', or 'off' "
        "(default: 60 s where the variable CI is set)",
    ),
    Option(
        name="slurm",
        on_command_line=False,
        help="a table for the launcher slurm: partition, account, time, gres, mem-default, cpus, extra, sbatch-extra",
    ),
    Option(
        name="cohort",
        on_command_line=False,
        help="tables [cohort.NAME] with lectures = ['a.md', 'b.md'], which are run at once",
    ),
    Option(name="env", on_command_line=False, help="variables for kernels only: a table of names and values"),
    Option(name="env-profiles", on_command_line=False, help="named sets of variables: a table of tables"),
    Option(name="memory-fraction", on_command_line=False, help="relative margin of memory limits"),
    Option(name="memory-slack", on_command_line=False, help="least margin of memory limits"),
    Option(name="time-factor", on_command_line=False, help="factor of time limits"),
    Option(name="time-slack", on_command_line=False, help="margin added to time limits"),
)
