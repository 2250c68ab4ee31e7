"""Build the options of ``srun`` and parse the output of ``srun``, ``sacct`` and ``sstat``. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_lecturecheck.config.slurm_settings import SlurmSettings, job_name, mebibytes
from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.kernel.launchers.port import LaunchRequest, ProcessEnd
from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE
from pytest_lecturecheck.units import KIB

_LABEL: Final = "0: "
_TASK: Final = re.compile(r"srun: error: (?P<node>\S+): tasks? 0: (?P<what>.+)")
_EXIT_CODE: Final = re.compile(r"Exited with exit code (?P<code>[0-9]+)")
_NODE_FAILURE: Final = re.compile(r"srun: error: Node failure on .+")
_STEP_END: Final = re.compile(
    r"slurmstepd\S*: error: \*\*\* STEP (?P<step>\S+) ON \S+ CANCELLED AT \S+(?P<why>.*) \*\*\*"
)
_OVER: Final = re.compile(r"slurmstepd\S*: error: StepId=(?P<step>\S+) exceeded memory limit .*, being killed")
"""Printed if Slurm polls memory instead of using a cgroup (JobAcctGatherParams=OverMemoryKill)."""
_UNABLE: Final = re.compile(r"srun: (?:error|fatal): (?P<text>.+)")
_SIGNAL_BASE: Final = 128
_SIGKILL: Final = 9
_LINES_KEPT: Final = 50
_LONGEST_LINE: Final = 65_536
_UNFINISHED: Final = frozenset({"", "RUNNING", "PENDING", "COMPLETING", "CONFIGURING", "SUSPENDED"})

OUT_OF_MEMORY: Final = "OUT_OF_MEMORY"
TIMEOUT: Final = "TIMEOUT"
CANCELLED: Final = "CANCELLED"
NODE_FAIL: Final = "NODE_FAIL"
FAILED: Final = "FAILED"
COMPLETED: Final = "COMPLETED"


def step_options(request: LaunchRequest, settings: SlurmSettings, memory_bytes: int) -> list[str]:
    """
    Return the options of ``srun`` for one kernel.

    Output is labelled to distinguish Slurm's messages from the kernel's. Only the job step gets the run's token,
    because a search for the run's processes must not find ``srun``. Generic resources are always stated, because a step
    that states none takes all of its allocation.
    """
    return [
        *("--exact", "--nodes=1", "--ntasks=1", f"--cpus-per-task={settings.cpus}"),
        f"--mem={mebibytes(memory_bytes)}M",
        f"--job-name={job_name(request.lecture)}",
        f"--gres={settings.gres_of(request.gpu) or 'none'}",
        *([f"--time={settings.time}"] if settings.time else []),
        *("--quiet", "--label", "--input=none", "--mpi=none"),
        f"--export=ALL,{RUN_TOKEN_VARIABLE}={request.token}",
        f"--chdir={request.cwd}",
        *settings.extra,
    ]


def check_allocation(environment: Mapping[str, str], srun: str | None, settings: SlurmSettings) -> str:
    """
    Return the job id of the allocation in which this session runs.

    Raises:
        SettingsError: ``srun`` is missing, or there is no allocation; the message shows how to get one.
    """
    if srun is None:
        msg = "--lecture-launcher slurm: srun is not on the path; Slurm's client commands are needed where pytest runs"
        raise SettingsError(msg)
    job = environment.get("SLURM_JOB_ID", "")
    if re.fullmatch("[0-9]+", job) is None:
        where = [f"--partition={settings.partition}"] if settings.partition else []
        where += [f"--account={settings.account}"] if settings.account else []
        ask = " ".join(["salloc", *where, "--ntasks=2", "--mem=8G"])
        msg = (
            "--lecture-launcher slurm: this is not a Slurm allocation (SLURM_JOB_ID is not set); get one and run "
            f"pytest in it: {ask} pytest --lecture-budget --lecture-launcher slurm -n 2 ..., or let `lecturecheck "
            "slurm LECTURES...` print a job for each lecture"
        )
        raise SettingsError(msg)
    return job


def default_step_bytes(environment: Mapping[str, str], settings: SlurmSettings) -> int | None:
    """Return the memory of a step with unknown needs: the setting, or its cores' share of the allocation."""
    if settings.mem_default_bytes is not None:
        return settings.mem_default_bytes
    per_cpu, per_node, cpus = (
        _number(environment.get(name)) for name in ("SLURM_MEM_PER_CPU", "SLURM_MEM_PER_NODE", "SLURM_CPUS_ON_NODE")
    )
    cpus = cpus or _number((environment.get("SLURM_JOB_CPUS_PER_NODE") or "").partition("(")[0].partition(",")[0])
    if per_cpu:
        return per_cpu * settings.cpus * KIB * KIB
    if per_node and cpus:
        return per_node * min(settings.cpus, cpus) // cpus * KIB * KIB
    return None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch("[0-9]{1,12}", text) else None


class JobStepText:
    """
    Splits the labelled output of ``srun``.

    Args:
        mark: the word that begins the announcement of :mod:`.node_entry`.

    Attributes:
        srun_lines: messages of ``srun`` itself; the first and the last ones.
        announced: the announcement, once it has arrived.
        cancelled: lines in which the step's daemon explains why it ended the step; the last ones.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._rest = ""
        self.srun_lines: list[str] = []
        self.announced: Mapping[str, Any] | None = None
        self.cancelled: list[str] = []

    def feed(self, text: str, *, is_end: bool = False) -> str:
        """Add output; return the complete lines of it that the kernel wrote."""
        lines = (self._rest + text).split("\n")
        self._rest = "" if is_end else lines.pop()
        if len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = ""
        if is_end and lines[-1] == "":
            lines.pop()
        return "".join(self._take(line) for line in lines)

    def _take(self, line: str) -> str:
        if not line.startswith(_LABEL):
            # The label of an empty line may lack its space.
            if line.strip() in {"", _LABEL.strip()}:
                return "\n"
            del self.srun_lines[_LINES_KEPT - 1 : len(self.srun_lines) - _LINES_KEPT]
            self.srun_lines.append(line)
            return ""
        own = line.removeprefix(_LABEL)
        if self.announced is None and own.startswith(f"{self._mark} "):
            self.announced = _parse_announcement(own.removeprefix(f"{self._mark} "))
            return ""
        if _STEP_END.fullmatch(own) or _OVER.fullmatch(own):
            self.cancelled[:] = [*self.cancelled, own][-_LINES_KEPT:]
        return f"{own}\n"


def _parse_announcement(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStepEnd:
    """
    How a job step ended, according to ``srun``.

    Attributes:
        state: a state of Slurm's accounting.
        process: how the kernel's process ended.
    """

    state: str
    process: ProcessEnd


def read_end(return_code: int, srun_lines: Sequence[str], cancelled: Sequence[str], step: str) -> JobStepEnd:
    """
    Determine how a job step ended.

    ``srun`` returns 128 plus the number of a signal that ended the task, and names the signal. It returns 1 and prints
    "Out Of Memory" if the task or only a child of it was killed for memory. It returns 0 for a failed node.
    """
    if return_code < 0:
        # srun itself was killed; the fate of the kernel is unknown.
        return JobStepEnd(state=CANCELLED, process=ProcessEnd(signal=-return_code))
    if any(_NODE_FAILURE.fullmatch(line) for line in srun_lines):
        return JobStepEnd(state=NODE_FAIL, process=ProcessEnd(signal=_SIGKILL, text="the kernel's node failed"))
    what = next((match["what"] for line in reversed(srun_lines) if (match := _TASK.fullmatch(line))), "")
    is_over = any((match := _OVER.fullmatch(line)) and match["step"] == step for line in cancelled)
    if "out of memory" in what.lower() or (is_over and what):
        text = "Slurm counted a kill for memory in the kernel's step, of the kernel or of a child of it"
        return JobStepEnd(state=OUT_OF_MEMORY, process=ProcessEnd(signal=_SIGKILL, text=text))
    why = next(
        (match["why"] for line in cancelled if (match := _STEP_END.fullmatch(line)) and match["step"] == step), None
    )
    if (code := _EXIT_CODE.fullmatch(what)) is not None:
        return JobStepEnd(state=FAILED, process=ProcessEnd(exit_code=int(code["code"])))
    process = ProcessEnd(exit_code=return_code)
    if return_code > _SIGNAL_BASE and what:
        process = ProcessEnd(signal=return_code - _SIGNAL_BASE)
    if why is not None:
        return JobStepEnd(state=TIMEOUT if "TIME LIMIT" in why else CANCELLED, process=process)
    return JobStepEnd(state=FAILED if return_code else COMPLETED, process=process)


def refusal_text(
    srun_lines: Sequence[str], return_code: int | None, *, memory_bytes: int, settings: SlurmSettings
) -> str:
    """Explain why Slurm created no job step."""
    why = next(
        (match["text"] for line in srun_lines if (match := _UNABLE.fullmatch(line))), f"srun ended with {return_code}"
    )
    asked = f"--mem={mebibytes(memory_bytes)}M --cpus-per-task={settings.cpus}"
    return (
        f"Slurm created no job step for the kernel: {why} (requested: {asked}). Get an allocation that holds it "
        "(salloc --mem=...), or give the lecture less memory (its budget, --lecture-memory-cap SIZE, [slurm] "
        "mem-default)"
    )


def parse_sacct(text: str, step: str) -> Mapping[str, str] | None:
    """
    Parse the row of a step in ``sacct --parsable2 --noheader --format=JobID,State,ExitCode,MaxRSS``.

    Returns:
        ``state``, ``exit`` and ``max_rss``, or ``None`` if the step is not listed or has not ended yet.
    """
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) == 4 and fields[0] == step:  # noqa: PLR2004 - the columns asked for
            # For example "CANCELLED by 1000".
            state = fields[1].split(" ")[0].rstrip("+")
            return None if state in _UNFINISHED else {"state": state, "exit": fields[2], "max_rss": fields[3]}
    return None


def choose_state(reported: str, accounted: str) -> str:
    """
    Choose between the states of a step according to ``srun`` and to ``sacct``.

    The accounting wins unless it says "cancelled". If a signal ended the task (an abort, for example), ``srun`` ends
    the step, and the accounting calls that cancelled as well.
    """
    return reported if reported and accounted == CANCELLED else accounted


def parse_sstat(text: str, step: str) -> int | None:
    """Parse the highest resident size in ``sstat --parsable2 --noheader --format=JobID,MaxRSS``, in bytes."""
    for line in text.splitlines():
        name, _, size = line.partition("|")
        if name == step:
            return parse_memory(size)
    return None


def parse_memory(text: str) -> int | None:
    """Parse a size of Slurm's accounting (``1234K``, ``1.50M``) into bytes; ``None`` if it is empty or malformed."""
    match = re.fullmatch(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[KMGTP]?)", text.strip())
    if match is None:
        return None
    factor: int = KIB ** " KMGTP".index(match["unit"] or " ")
    return round(float(match["number"]) * factor)
