"""Name the signals with which a session is ended from outside. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Final

from pytest_lecturecheck.units import format_duration

SIGNAL_NAMES: Final = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")
"""Signals that end a process if it does not handle them, and that arrive some time before SIGKILL."""
_AT_LIMIT_SECONDS: Final = 60.0
"""Slurm sends SIGTERM at the time limit, and SIGKILL after ``KillWait``, 30 s by default."""
_ELSEWHERE: Final = {
    "SIGTERM": "another process asked this session to end",
    "SIGHUP": "the terminal of this session was closed",
    "SIGXCPU": "the limit on CPU time (ulimit -t) is reached",
}


def describe_signal(number: int, environ: Mapping[str, str], now: float) -> str:
    """
    Describe a signal by what it means where the session runs (``SIGUSR1: Slurm's advance signal``).

    Args:
        number: the signal.
        environ: the variables of the process: Slurm and CI services are known by theirs.
        now: seconds since the epoch.
    """
    name = signal.Signals(number).name
    if environ.get("SLURM_JOB_ID"):
        meaning = _describe_in_slurm(name, environ, now)
    elif name == "SIGTERM" and environ.get("GITHUB_ACTIONS") == "true":
        meaning = "the job was cancelled, or its runner is shut down"
    elif name == "SIGTERM" and environ.get("KUBERNETES_SERVICE_HOST"):
        meaning = "the container is being stopped"
    else:
        meaning = _ELSEWHERE.get(name, "another process sent it, and it would end this session")
    return f"{name}: {meaning}"


def _describe_in_slurm(name: str, environ: Mapping[str, str], now: float) -> str:
    # Slurm 23.02 and later: the projected end of the job, in seconds since the epoch.
    end = environ.get("SLURM_JOB_END_TIME", "")
    left = int(end) - now if re.fullmatch(r"[0-9]{1,12}", end) else None
    if name == "SIGTERM" and left is not None and left <= _AT_LIMIT_SECONDS:
        return "Slurm ends the job at its time limit"
    if name == "SIGTERM":
        return "Slurm ends the job or its step: it was cancelled or preempted"
    before = f", {format_duration(left)} before the job's time limit" if left is not None and left > 0 else ""
    return f"Slurm's advance signal{before}"
