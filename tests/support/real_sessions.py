"""Runs of pytest with lectures, with real kernels, and what they came to."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import psutil

from support.in_process import run_in_process

CASES = Path(__file__).parent.parent / "cases"
PLATFORM = "linux-x86_64-cpu"
MIB = 1024**2
_WIDTH = 240
"""Wide enough that no message is folded."""


@dataclass(frozen=True)
class Session:
    """
    What one session of pytest came to.

    Attributes:
        code: exit status.
        text: what it printed.
        runs: the runs of its JSON report, by lecture.
        junit: its JUnit document, if one was asked for.
    """

    code: int
    text: str
    runs: dict[str, list[dict]] = field(default_factory=dict)
    junit: ET.Element | None = None

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def run(self, lecture: str) -> dict:
        """Give the record of a lecture that ran once."""
        (only,) = self.runs[lecture]
        return only["run"]

    def verdict(self, lecture: str) -> dict:
        (only,) = self.runs[lecture]
        return only["verdict"]

    def peak(self, lecture: str, cell: int | None = None) -> float:
        """Give the peak footprint in bytes, of the lecture or of one of its code cells."""
        record = self.run(lecture)
        readings = record["readings"] if cell is None else record["cells"][cell - 1]["readings"]
        return readings["peak_footprint_bytes"]["value"]

    def findings(self, lecture: str) -> list[str]:
        return [found["message"] for found in self.run(lecture).get("findings", [])]

    def statuses(self, lecture: str) -> list[str]:
        return [cell["status"] for cell in self.run(lecture)["cells"]]

    def failure(self, lecture: str) -> str:
        """Give the failure text of a lecture."""
        head = re.compile(rf"_+ (?:ERROR at setup of )?{re.escape(lecture)} _+")
        start = next(number for number, line in enumerate(self.lines) if head.fullmatch(line)) + 1
        rule = re.compile(r"_+ .+ _+|=+ .+ =+")
        end = next(number for number, line in enumerate(self.lines) if number > start and rule.fullmatch(line))
        taken = [line for line in self.lines[start:end] if not re.fullmatch(r"\[gw\d+\] .*", line)]
        return "\n".join(taken)

    def outcomes(self) -> dict[str, int]:
        """Give pytest's own counts ("passed", "failed", ...)."""
        return {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]+)", self.lines[-1].split(" in ")[0])}


class LectureProject:
    """A folder with lectures, in which sessions are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Warnings of the plugin in the user's session would be errors here.
        # Sessions of other tests must not wait for this one's lectures.
        self.runtime = folder.parent / f"{folder.name}-runtime"
        self.runtime.mkdir(exist_ok=True)
        (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")

    def put(self, *cases: str, flat: bool = False) -> None:
        """Copy cases' inputs, each in a folder of its short name or all together."""
        for case in cases:
            (source,) = CASES.glob(f"{case}-*")
            shutil.copytree(source, self.folder if flat else self.folder / case, dirs_exist_ok=True)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8", newline="\n")
        return path

    def notebook(self, name: str, *sources: str, **metadata) -> Path:
        """Write a notebook of code cells."""
        metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}, **metadata}
        cells = [
            {"cell_type": "code", "metadata": {}, "source": dedent(text), "outputs": [], "execution_count": None}
            for text in sources
        ]
        data = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4}
        return self.write(name, json.dumps(data, indent=1))

    def budgets(self, limits: dict[str, str], *, platform: str = PLATFORM) -> Path:
        """Write a budget file with limits of the peak footprint, as TOML values."""
        entries = [f'[lectures."{name}"]\npeak_footprint = {{ limit = {limit} }}\n' for name, limit in limits.items()]
        head = f'schema = 1\nplatform = "{platform}"\n\n'
        return self.write(f"lecture-budgets/{platform}.toml", head + "\n".join(entries))

    def pytest(
        self, *args: str, cwd: str = ".", apart: bool = False, before: Sequence[str] = (), **variables: str
    ) -> Session:
        """
        Run pytest to its end; the label of the platform is fixed, so that budgets hold wherever this runs.

        Args:
            *args: arguments of pytest.
            cwd: the working folder, below this one.
            apart: in a process of its own. So are sessions with workers, with a limit of pytest-timeout, or with a
                command before them; all others run in this process.
            before: words of a command that starts pytest.
            **variables: of the environment.
        """
        report, junit = self.folder / "report.json", self.folder / "junit.xml"
        for left in (report, junit):
            left.unlink(missing_ok=True)
        # The tests' own plugins have no part in a user's session, and take a second to load.
        given = ["-p", "no:hypothesispytest", f"--lecture-platform={PLATFORM}", f"--lecture-report={report}", *args]
        is_apart = apart or bool(before) or any(argument.startswith(("-n", "--timeout")) for argument in args)
        # Sessions of this process run one after the other; what forks kernels serves only one environment.
        runtime = self.runtime if is_apart else shared_runtime_folder()
        environment = session_environment(**{"XDG_RUNTIME_DIR": str(runtime), **variables})
        if is_apart:
            done = subprocess.run(
                [*before, sys.executable, "-m", "pytest", *given],
                cwd=self.folder / cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                timeout=900,
                check=False,
            )
            code, text = done.returncode, done.stdout
        else:
            code, text = run_in_process(given, folder=self.folder / cwd, environment=environment)
        runs: dict[str, list[dict]] = {}
        if report.exists():
            for item in json.loads(report.read_text(encoding="utf-8"))["runs"]:
                runs.setdefault(item["run"]["lecture"], []).append(item)
        document = ET.parse(junit).getroot() if junit.exists() else None
        return Session(code=code, text=text, runs=runs, junit=document)

    def node_ids(self, *args: str) -> list[str]:
        """Collect only, and give the node ids."""
        session = self.pytest("--lecture-budget", "--collect-only", "-q", *args)
        return [line for line in session.lines if line.endswith("::lecture")]


@functools.cache
def shared_runtime_folder() -> Path:
    """Make a folder for the leases of this process's sessions."""
    folder = Path(tempfile.mkdtemp(prefix="lecturecheck-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def session_environment(**variables: str) -> dict[str, str]:
    """Give this process's environment without what the tests' own pytest has put there, or a CI service."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_", "COVERAGE_")) and name not in {"CI", "BUILD_NUMBER", "COLUMNS"}
    }
    return {**kept, "COLUMNS": str(_WIDTH), "PYTHONUTF8": "1", **variables}


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that is to happen, however busy the machine is."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def has_ended(pid: int) -> bool:
    """Tell whether a process has ended; what nobody has waited for yet is a zombie, and that is dead."""
    try:
        process = psutil.Process(pid)
        # One whose first thread alone has ended is alive.
        return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1
    except psutil.NoSuchProcess:
        return True


def parse_size_text(text: str) -> float:
    """Read a size as budget files print it, without help of what is tested."""
    number, unit = text.split(" ")
    return float(number) * {"B": 1, "KiB": 1024, "MiB": MIB, "GiB": 1024**3}[unit]
