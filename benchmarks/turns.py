"""Run contenders in turns and compare them: the only comparison that holds on a machine whose speed drifts."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MARK_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """
    One command to be timed.

    Attributes:
        name: shown in the table.
        command: program and arguments.
        cwd: its folder.
        env: variables on top of this process's own.
    """

    name: str
    command: Sequence[str]
    cwd: Path
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """
    What one run of a contender took.

    Attributes:
        wall_seconds: from start to end.
        cpu_seconds: of the process and all of its children that were waited for.
        peak_bytes: high watermark of the process itself, without its children; 0 where it cannot be read.
    """

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int


class FailedTurnError(Exception):
    """A contender did not end as it should; its time means nothing."""


def warm_up(contenders: Sequence[Contender]) -> None:
    """Run every contender once, so that files are in memory and compiled modules are written."""
    for contender in contenders:
        _run(contender)


def take_turns(contenders: Sequence[Contender], repeat: int) -> dict[str, list[Turn]]:
    """
    Run every contender ``repeat`` times, in turns; every other round backwards, so that drift cancels out.

    Raises:
        FailedTurnError: a contender ended with an exit status other than 0.
    """
    turns: dict[str, list[Turn]] = {contender.name: [] for contender in contenders}
    for number in range(repeat):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            turns[contender.name].append(_run(contender))
        print(f"  round {number + 1} of {repeat}", file=sys.stderr, flush=True)
    return turns


def _run(contender: Contender) -> Turn:
    with subprocess.Popen(
        contender.command,
        cwd=contender.cwd,
        # A source that is compiled at each start would put those behind who are installed in place.
        env={**os.environ, **contender.env, "PYTHONDONTWRITEBYTECODE": ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        started = time.perf_counter()
        output: list[str] = []
        reader = threading.Thread(target=lambda: output.append(process.stdout.read()))  # type: ignore[union-attr]
        reader.start()
        peak_bytes = _watch_peak(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        wall_seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        reader.join()
    if process.returncode != 0:
        msg = f"{contender.name} ended with {process.returncode}: {' '.join(contender.command)}\n{''.join(output)}"
        raise FailedTurnError(msg)
    return Turn(wall_seconds=wall_seconds, cpu_seconds=usage.ru_utime + usage.ru_stime, peak_bytes=peak_bytes)


def _watch_peak(pid: int) -> int:
    """
    Read ``VmHWM`` until the process has ended; the maximum of rusage would be that of a kernel.

    On systems without ``/proc`` this returns at once with 0.
    """
    status = Path(f"/proc/{pid}/status")
    peak_bytes = 0
    while status.exists():
        marks = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        if not marks and peak_bytes:
            break  # ended and not yet waited for
        for line in marks:
            peak_bytes = max(peak_bytes, int(line.split()[1]) * 1024)
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break
        time.sleep(_MARK_SECONDS)
    return peak_bytes


def ratios(turns: Sequence[Turn], base: Sequence[Turn], attribute: str) -> list[float]:
    """Give the ratios of neighbouring turns, in ascending order."""
    return sorted(getattr(a, attribute) / getattr(b, attribute) for a, b in zip(turns, base, strict=True))


def print_table(
    title: str,
    turns: Mapping[str, Sequence[Turn]],
    base: str,
    targets: Mapping[str, float],
    cpu_targets: Mapping[str, float] | None = None,
) -> None:
    """Print medians, and the median and range of the ratios to ``base``."""
    print(f"\n{title} ({len(turns[base])} turns each; ratios to {base}: median of neighbouring turns, and their range)")
    print(f"  {'':14} {'wall':>8} {'ratio':>7} {'range':>15} {'CPU':>8} {'ratio':>7} {'own peak':>10}   target")
    for name, taken in turns.items():
        wall, cpu = ratios(taken, turns[base], "wall_seconds"), ratios(taken, turns[base], "cpu_seconds")
        target = _target_text(targets.get(name), statistics.median(wall))
        if cpu_targets:
            target += _target_text(cpu_targets.get(name), statistics.median(cpu), ", CPU ")
        print(
            f"  {name:14} {_median(taken, 'wall_seconds'):7.2f}s {statistics.median(wall):7.3f}"
            f" {f'{wall[0]:.2f} - {wall[-1]:.2f}':>15} {_median(taken, 'cpu_seconds'):7.2f}s"
            f" {statistics.median(cpu):7.3f} {_median(taken, 'peak_bytes') / 2**20:6.0f} MiB"
            f"   {target}"
        )


def _median(turns: Sequence[Turn], attribute: str) -> float:
    return statistics.median(getattr(turn, attribute) for turn in turns)


def _target_text(limit: float | None, ratio: float, what: str = "") -> str:
    return "" if limit is None else f"{what}<= {limit:.2f} {'met' if ratio <= limit else 'MISSED'}"
