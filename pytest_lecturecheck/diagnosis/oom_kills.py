"""Kills for memory: by the system's OOM killer, or by us at the cap of the run; of the kernel, or of its children."""

from __future__ import annotations

import re
from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.wording import all_lines, error_text, in_brackets, peak_bytes, within
from pytest_lecturecheck.model.evidence import Evidence, OomKill, OomScope, WatchdogReason
from pytest_lecturecheck.safe_text import one_line
from pytest_lecturecheck.units import format_size

_SIGKILL: Final = 9
_SIGKILL_EXIT_CODE: Final = 128 + _SIGKILL
_MOST_SPECIFIC_FIRST: Final = (
    OomScope.CAP,
    OomScope.SCHEDULER,
    OomScope.CONTAINER,
    OomScope.OUTER,
    OomScope.MACHINE,
)
_OF_LIMIT: Final = {
    OomScope.CAP: "the memory cap of this run",
    OomScope.CONTAINER: "the container's memory limit",
    OomScope.SCHEDULER: "Slurm's memory limit",
}
_ADVICE_CAP: Final = (
    "have the cell need less memory, or give it more: memory-cap in its front matter where that is set, else "
    "--lecture-memory-cap SIZE"
)
_ADVICE: Final = {
    OomScope.CONTAINER: "have the cell need less memory, or give the container more",
    OomScope.SCHEDULER: "have the cell need less memory, or ask Slurm for more (--mem)",
}
_ADVICE_DECLARED: Final = "have the cell need less memory, or declare more: the cap is what the package declares"
_ADVICE_MACHINE: Final = "have the cell need less memory, run fewer lectures at once, or take a larger machine"
_LOG_OF_GROUP: Final = re.compile(r"Memory cgroup out of memory|CONSTRAINT_MEMCG")
_LOG_OF_MACHINE: Final = re.compile(r"Out of memory(?: \([a-z_]+\))?: Killed|CONSTRAINT_NONE")

_LOST_NAME: Final = re.compile(
    r"AttributeError: (?:Can't get|module '__mp_main__' has no) attribute '(?P<name>\w{1,100})'"
)
_POOL_ERRORS: Final = frozenset(
    {"BrokenProcessPool", "BrokenExecutor", "TerminatedWorkerError", "KilledWorker", "WorkerCrashedError"}
)
_POOL_TEXT: Final = re.compile(r"un-?serializ|pickl", re.IGNORECASE)
_ENDED_BY: Final = re.compile(
    # loky (joblib); subprocess; PyTorch's DataLoader
    r"\b(?P<loky>SIG[A-Z]{2,6})\(-[0-9]+\)"
    r"|died with <Signals\.(?P<subprocess>SIG[A-Z]{2,6}): [0-9]+>"
    r"|DataLoader worker \(pid [0-9]+\) is killed by signal: (?P<torch>[A-Za-z ]+)"
)
_TORCH_SIGNALS: Final = {
    "Killed": "SIGKILL",
    "Aborted": "SIGABRT",
    "Segmentation fault": "SIGSEGV",
    "Bus error": "SIGBUS",
}
_READ_LENGTH: Final = 4000


def find_stop_at_cap(evidence: Evidence) -> Cause | None:
    """Recognise a run that the watchdog stopped, for the reason and at the reading that the watchdog recorded."""
    if not evidence.memory.stopped_at_cap:
        return None
    stop, cap = evidence.memory.watchdog_stop, evidence.conditions.cap_bytes
    sizes = [size for size in (peak_bytes(evidence), stop.footprint_bytes if stop else None) if size is not None]
    peak = max(sizes, default=None)
    is_over = peak is not None and cap is not None and peak > cap
    parts = [f"its footprint {'rose to' if is_over else 'was'} {format_size(peak)}"] if peak is not None else []
    advice = _cap_advice(evidence)
    if stop is not None and stop.reason is WatchdogReason.MACHINE:
        what, advice = "stopped before the machine ran out of memory", _ADVICE_MACHINE
        if stop.available_bytes is not None:
            parts.append(f"{format_size(stop.available_bytes)} was left on the machine")
    else:
        # Records of older versions do not hold the reason.
        what = "stopped at the memory cap" if stop is not None or is_over or peak is None else "stopped by the watchdog"
        parts += [f"the cap is {format_size(cap)}"] if cap is not None else []
    headline = f"{what}{_when(evidence)}"
    return Cause(
        kind=CauseKind.STOPPED_AT_CAP,
        headline=f"{headline}: {', '.join(parts)}" if parts else headline,
        evidence=all_lines(evidence),
        advice=(advice,),
    )


def find_oom_kill(evidence: Evidence) -> Cause | None:
    """Recognise a kernel that was killed while a counter of OOM kills rose, or that the kernel's log names."""
    was_killed = evidence.exit.signal == _SIGKILL or evidence.exit.exit_code == _SIGKILL_EXIT_CODE
    if not was_killed or evidence.timeout.limit_seconds is not None or evidence.error is not None:
        return None
    kill = _closest(evidence)
    if evidence.memory.kernel_log and (kill is None or kill.scope in {OomScope.MACHINE, OomScope.OUTER}):
        text, advice = _log_text(evidence), (_ADVICE_MACHINE,)
        headline = f"kernel was killed by the OOM killer{_when(evidence)}: {text}"
    elif kill is None:
        return None
    else:
        killed = f"kernel was killed by the OOM killer{_when(evidence)}"
        if kill.scope is OomScope.MACHINE:
            killed = f"kernel was killed{_when(evidence)}, probably by the OOM killer"
        headline = f"{killed}: {_reached(kill, evidence)}"
        advice = (_cap_advice(evidence) if kill.scope is OomScope.CAP else _ADVICE.get(kill.scope, _ADVICE_MACHINE),)
    return Cause(kind=CauseKind.OOM_KILLED, headline=headline, evidence=all_lines(evidence), advice=advice)


def find_child_end(evidence: Evidence) -> Cause | None:
    """Recognise the errors of pools whose worker ended: the kernel itself is alive."""
    if evidence.error is None:
        return None
    class_name, text = evidence.error.name.rsplit(".", 1)[-1], evidence.error.value[:_READ_LENGTH]
    match = _ENDED_BY.search(text)
    is_pool_error = class_name in _POOL_ERRORS and _POOL_TEXT.search(text) is None
    if not is_pool_error and (match is None or match["loky"]):
        return None
    signal = _signal(match)
    where = in_brackets(evidence)
    name = one_line(class_name)
    lines = (error_text(evidence.error), *all_lines(evidence))
    kill = _closest(evidence)
    if kill is not None and signal in {"", "SIGKILL"}:
        probably = "probably " if kill.scope is OomScope.MACHINE else ""
        return Cause(
            kind=CauseKind.CHILD_OOM_KILLED,
            headline=(
                f"{name}: a child process was {probably}killed by the OOM killer, not the kernel{where}: "
                f"{_reached(kill, evidence)}"
            ),
            evidence=lines,
            advice=("fewer worker processes (n_jobs, max_workers) need less memory",),
        )
    if name_lost := _lost_name(evidence):
        return Cause(
            kind=CauseKind.CHILD_ENDED,
            headline=(
                f"{name}: a child process could not find {name_lost!r}, which the notebook itself defines{where}: "
                "a process that is started afresh does not have it"
            ),
            evidence=lines,
            advice=(
                "define it in a file beside the lecture and import it, or use a pool that copies it (joblib, fork)",
            ),
        )
    how = f"was ended by {signal}" if signal else "ended abruptly"
    no_record = "; no record of memory shortage" if signal in {"", "SIGKILL"} else ""
    return Cause(
        kind=CauseKind.CHILD_ENDED,
        headline=f"{name}: a child process {how}, not the kernel{where}{no_record}",
        evidence=lines,
        advice=("the same work in the kernel itself, without worker processes, shows what goes wrong",),
    )


def _cap_advice(evidence: Evidence) -> str:
    cap, declared = evidence.conditions.cap_bytes, evidence.memory.declared_bytes
    return _ADVICE_DECLARED if cap is not None and cap == declared else _ADVICE_CAP


def _lost_name(evidence: Evidence) -> str:
    """Return the name that a spawned worker looked for in the notebook's namespace, or an empty string."""
    found = next((match for line in reversed(evidence.exit.stderr_tail) if (match := _LOST_NAME.search(line))), None)
    return one_line(found["name"]) if found is not None else ""


def other_kill_text(evidence: Evidence) -> str:
    """Return a sentence about a process that was killed for memory while the kernel lived on, or an empty string."""
    kill = _closest(evidence)
    if kill is None or kill.scope is OomScope.MACHINE:
        return ""
    whose = "a process of this run" if kill.scope is OomScope.CAP else "a process of the session's group"
    return f"{whose} was killed by the OOM killer meanwhile: {_reached(kill, evidence)}"


def _closest(evidence: Evidence) -> OomKill | None:
    rose = [kill for kill in evidence.memory.oom_kills if kill.after > kill.before]
    return min(rose, key=lambda kill: _MOST_SPECIFIC_FIRST.index(kill.scope), default=None)


def _reached(kill: OomKill, evidence: Evidence) -> str:
    """Name the limit, with its size where it is known."""
    if kill.scope is OomScope.MACHINE:
        return "the machine counted an OOM kill meanwhile"
    if kill.scope is OomScope.OUTER:
        return "a memory limit outside the session's own group was reached, or the machine's memory"
    limit = kill.limit_bytes
    if limit is None and kill.scope is OomScope.CAP:
        limit = evidence.conditions.cap_bytes
    size = f", {format_size(limit)}," if limit is not None else ""
    return f"{_OF_LIMIT[kill.scope]}{size} was reached"


def _log_text(evidence: Evidence) -> str:
    log = "\n".join(evidence.memory.kernel_log)
    if _LOG_OF_GROUP.search(log):
        return "a memory limit of its control group was reached"
    return "the machine ran out of memory" if _LOG_OF_MACHINE.search(log) else "the kernel's log says so"


def _when(evidence: Evidence) -> str:
    return within(evidence) if evidence.exit.ready else " before the kernel was ready"


def _signal(match: re.Match[str] | None) -> str:
    if match is None:
        return ""
    torch = match["torch"]
    if torch is not None:
        return next((name for text, name in _TORCH_SIGNALS.items() if torch.startswith(text)), "")
    return match["loky"] or match["subprocess"] or ""
