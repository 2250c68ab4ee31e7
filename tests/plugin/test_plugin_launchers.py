"""``--lecture-launcher``: the choice is checked before any kernel starts, and plugins can offer others."""

from __future__ import annotations

import json
import os

import pytest


@pytest.fixture(autouse=True)
def no_allocation(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


def test_an_unknown_launcher(pytester, lecture):
    lecture("a.ipynb", "open('ran', 'w')")
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-launcher=sge")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: lecturecheck: --lecture-launcher 'sge': unknown launcher; expected one of local, slurm",
        ]
    )
    assert not (pytester.path / "ran").exists()


@pytest.mark.skipif(os.name != "posix", reason="srun is a program of POSIX systems")
def test_outside_an_allocation_it_says_how_to_get_one(pytester, lecture, monkeypatch):
    lecture("a.ipynb")
    program = pytester.path / "bin" / "srun"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    (pytester.path / "lecturecheck.toml").write_text('launcher = "slurm"\n[slurm]\npartition = "short"\n')
    result = pytester.runpytest_inprocess("--lecture-budget")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    message = (
        "ERROR: lecturecheck: --lecture-launcher slurm: this is not a Slurm allocation (SLURM_JOB_ID is not set); get "
        "one and run pytest in it: salloc --partition=short --ntasks=2 --mem=8G pytest --lecture-budget "
        "--lecture-launcher slurm -n 2 ..., or let `lecturecheck slurm LECTURES...` print a job for each lecture"
    )
    assert message in result.stderr.lines


def test_collecting_needs_no_allocation(pytester, lecture):
    lecture("a.ipynb")
    result = pytester.runpytest_inprocess("--lecture-budget", "--lecture-launcher=slurm", "--collect-only", "-q")
    result.stdout.fnmatch_lines(["a.ipynb::lecture"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("slurm = 3", "slurm: 3 is not a table"),
        ("[slurm]\nqueue = 'x'", "slurm: unknown key 'queue'; expected one of partition, account, time, gres, *"),
        ("[slurm]\nextra = ['n1']", "slurm: extra: 'n1' is not an option with its value in one word, *"),
        ("launcher = 3", "launcher: 3 is not text"),
    ],
)
def test_invalid_settings_are_reported(pytester, lecture, body, message):
    lecture("a.ipynb")
    (pytester.path / "lecturecheck.toml").write_text(body)
    result = pytester.runpytest_inprocess("--lecture-budget")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: lecturecheck: lecturecheck.toml: {message}".replace("[", "[[]")])


PLUGIN = """
from pytest_lecturecheck.kernel.launchers.local_launcher import LocalLaunch, LocalLauncher


class MarkedLaunch(LocalLaunch):
    def __init__(self, request):
        super().__init__()
        self.request = request

    def environment(self, variables):
        return {**variables, "REQUESTED": f"{self.request.lecture} {self.request.memory_bytes}"}


class MarkedLauncher(LocalLauncher):
    name = "marked"
    needs_tcp = True

    def prepare(self, request):
        return MarkedLaunch(request)


def pytest_lecturecheck_launchers(config):
    return {"marked": MarkedLauncher()}
"""


def test_a_plugin_s_launcher(pytester, lecture):
    lecture("a.ipynb", "import os\nprint(os.environ['REQUESTED'])")
    pytester.makeconftest(PLUGIN)
    (pytester.path / "lecture-budgets").mkdir()
    (pytester.path / "lecture-budgets" / "box.toml").write_text(
        'schema = 1\nplatform = "box"\n\n[lectures."a.ipynb"]\npeak_footprint = { limit = "1000 MiB" }\n'
    )
    result = pytester.runpytest_subprocess(
        *("--lecture-budget", "--lecture-platform=box", "--lecture-launcher=marked", "--lecture-report=r.json", "-q")
    )
    assert result.ret == 0
    (found,) = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["runs"]
    assert found["run"]["launcher"] == "marked"
    assert found["run"]["cells"][0]["output_extract"] == f"a.ipynb {1100 * 1024**2}\n"
