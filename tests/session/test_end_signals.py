"""Signals are named for what they mean where the session runs."""

import signal

import pytest

from pytest_lecturecheck.session.end_signals import SIGNAL_NAMES, describe_signal

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="Windows has only SIGTERM")
NOW = 1_800_000_000.0
SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": "1800000120"}


@pytest.mark.parametrize(
    ("name", "environ", "meaning"),
    [
        ("SIGUSR1", SLURM, "Slurm's advance signal, 2 min 00 s before the job's time limit"),
        ("SIGUSR1", {"SLURM_JOB_ID": "7"}, "Slurm's advance signal"),
        ("SIGUSR2", {**SLURM, "SLURM_JOB_END_TIME": "x" * 20}, "Slurm's advance signal"),
        ("SIGTERM", SLURM, "Slurm ends the job or its step: it was cancelled or preempted"),
        ("SIGTERM", {**SLURM, "SLURM_JOB_END_TIME": "1799999999"}, "Slurm ends the job at its time limit"),
        ("SIGTERM", {"GITHUB_ACTIONS": "true"}, "the job was cancelled, or its runner is shut down"),
        ("SIGTERM", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "the container is being stopped"),
        ("SIGTERM", {}, "another process asked this session to end"),
        ("SIGHUP", {"GITHUB_ACTIONS": "true"}, "the terminal of this session was closed"),
        ("SIGXCPU", {}, "the limit on CPU time (ulimit -t) is reached"),
        ("SIGUSR2", {}, "another process sent it, and it would end this session"),
    ],
)
def test_meaning(name, environ, meaning):
    assert describe_signal(getattr(signal, name), environ, NOW) == f"{name}: {meaning}"


def test_every_handled_signal_has_a_meaning():
    for name in SIGNAL_NAMES:
        assert describe_signal(getattr(signal, name), {}, NOW).startswith(f"{name}: ")
