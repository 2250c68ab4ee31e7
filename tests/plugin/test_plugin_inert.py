"""Being installed costs nothing and changes nothing."""

import json
import subprocess
import sys

import pytest

HEAVY = [
    "attr",
    "cattrs",
    "nbclient",
    "jinja2",
    "jupytext",
    "psutil",
    "jax",
    "pynvml",
    "zmq",
    "nbformat",
    "yaml",
    "tomlkit",
    "jupyter_client",
    "IPython",
    "numpy",
    "markdown_it",
    "wcwidth",
]
FOR_LECTURES_THAT_RUN = (
    "kernel.run.runner",
    "kernel.messages.client",
    "session.workbench",
    "lease.ledger",
    "trace",
    "store.session_history",
    "session.closing",
)
FOR_BAD_ENDS = (
    "diagnosis.rules",
    "diagnosis.requests",
    "report.terminal.failure",
    "report.terminal.exceeded",
    "report.frames",
)
ONLY_WHEN_ASKED_FOR = (
    "commands",
    "kernel.launchers.slurm_launcher",
    "plugin.cloud_hooks",
    "session.cloud_notices",
    "budget.recording",
    "report.terminal.budget_diff",
    "report.github_summary",
    "report.html",
    "report.markdown_report",
    "store.budget_file.budget_writer",
)
PRINT_LOADED = """
    import sys

    def pytest_unconfigure(config):
        heavy = {heavy}
        ours = [name for name in sys.modules if name.startswith("pytest_lecturecheck.")]
        loaded = [name for name in heavy if name in sys.modules]
        print("LOADED", loaded)
        print("OURS", sorted(ours))
        print("PLUGIN", config.pluginmanager.hasplugin("lecturecheck_session"))
"""


def loaded(result):
    words = {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in result.outlines if line[:4] in {"LOAD", "OURS"}}
    return eval(words["LOADED"]), eval(words["OURS"])


def test_without_a_flag_nothing_is_loaded_and_nothing_collected(pytester):
    pytester.makefile(".ipynb", lecture=json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    pytester.makefile(".md", page="```{code-cell}\n1 / 0\n```\n")
    pytester.makefile(".toml", lecturecheck="this is no TOML")
    pytester.makepyfile("def test_it(): pass")
    pytester.makeconftest(PRINT_LOADED.format(heavy=HEAVY))
    result = pytester.runpytest_subprocess("-s", "-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1)
    options = ("option_row", "option_table", "options_for_machines", "options_for_results", "options_for_runs")
    ours = [f"pytest_lecturecheck.{name}" for name in ("config", *(f"config.{name}" for name in options), "plugin")]
    assert loaded(result) == ([], ours)
    result.stdout.no_fnmatch_line("*lecturecheck:*")
    result.stdout.fnmatch_lines(["PLUGIN False"])


def test_collecting_loads_no_library_of_notebooks(pytester):
    for number in range(3):
        cell = {"cell_type": "code", "metadata": {}, "source": "1 / 0", "outputs": [], "execution_count": None}
        text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
        pytester.makefile(".ipynb", **{f"lecture_{number}": text})
    pytester.makeconftest(PRINT_LOADED.format(heavy=HEAVY))
    result = pytester.runpytest_subprocess("--lecture-budget", "--collect-only", "-q", "-s")
    result.stdout.fnmatch_lines([f"lecture_{number}.ipynb::lecture" for number in range(3)])
    heavy, ours = loaded(result)
    assert heavy == []
    unwanted = (*FOR_LECTURES_THAT_RUN, *FOR_BAD_ENDS, *ONLY_WHEN_ASKED_FOR)
    assert [name for name in ours if name.removeprefix("pytest_lecturecheck.").startswith(unwanted)] == []


def test_the_module_alone_loads_no_heavy_library():
    code = f"import sys, pytest_lecturecheck.plugin; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_options_are_in_the_help_by_group(pytester):
    result = pytester.runpytest("--help")
    result.stdout.fnmatch_lines(
        [
            "lectures (pytest-lecturecheck): *:",
            "*--lecture-budget *",
            "*--lecture-record *",
            "lectures, limits: *:",
            "*--lecture-timeout=S *",
            "lectures, environment: *:",
            "*--lecture-platform=NAME*",
        ]
    )


@pytest.mark.parametrize(
    ("args", "line"),
    [
        ([], None),
        (["--lecture-strict"], "lecturecheck: no lecture was run, because --lecture-strict has no effect without *"),
        (
            ["--lecture-strict", "--lecture-report=x.html"],
            "lecturecheck: no lecture was run, because --lecture-strict, --lecture-report have no effect without *",
        ),
    ],
)
def test_options_without_a_mode_are_reported(pytester, args, line):
    result = pytester.runpytest_inprocess(*args)
    if line is None:
        result.stdout.no_fnmatch_line("*lecturecheck:*")
    else:
        result.stdout.fnmatch_lines([line])
