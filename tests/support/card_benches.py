"""Stand-ins for cards, processes and the sampler, driven by hand."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_lecturecheck.model.device import Device
from pytest_lecturecheck.model.probe import RUN_LECTURE_VARIABLE, RUN_TOKEN_VARIABLE
from pytest_lecturecheck.probe.gpu._processes import UNKNOWN, ProcessFacts
from pytest_lecturecheck.probe.gpu._readings import CardReading, Failure, ProcessUse
from pytest_lecturecheck.probe.gpu.monitor import GpuMonitor
from pytest_lecturecheck.units import MIB

CASES = Path(__file__).parents[1] / "cases"
T4 = Device(index=0, name="Tesla T4", uuid="GPU-0", total_bytes=15360 * MIB)


def reading(used_mib, processes=(), *, seconds=0.0, utilisation=None, reason=""):
    """Make a reading from MiB; ``processes`` maps pids to MiB or None, and is None itself for no list."""
    listed = None
    if processes is not None:
        listed = tuple(
            ProcessUse(pid=pid, used_bytes=None if used is None else used * MIB)
            for pid, used in dict(processes).items()
        )
    return CardReading(
        seconds=seconds,
        used_bytes=used_mib * MIB,
        processes=listed,
        no_list_reason=reason,
        utilisation_fraction=utilisation,
    )


def recorded(case, name="nvml.json"):
    """Read the moments of a recorded timeline."""
    text = json.loads((CASES / case / name).read_text("utf-8"))
    return [
        reading(item["used"], {process["pid"]: process["used"] for process in item["procs"]}, seconds=item["t"])
        for item in text["timeline"]
    ]


def marked(token, lecture="", **changes):
    """Make the facts of a living process of a run."""
    environ = {RUN_TOKEN_VARIABLE: token, RUN_LECTURE_VARIABLE: lecture}
    return ProcessFacts(**{"is_there": True, "environ": environ} | changes)


class FakeProcesses:
    """Processes by pid, as a test lays them out."""

    def __init__(self, facts=(), *, same_namespace=True):
        self.known = dict(facts)
        self.same_namespace = same_namespace

    def facts(self, pid):
        return self.known.get(pid, UNKNOWN)

    def find_own(self, pids, *, kernel_pid, token, supervisor_pid=None):  # noqa: ARG002 - no orphans here
        return {pid for pid in pids if pid == kernel_pid or self.facts(pid).token == token}


class FakeCards:
    """Cards whose next readings a test lays out; the last one stays."""

    def __init__(self, *devices, driver="550.54", cuda="12.4"):
        self.devices = devices or (T4,)
        self.driver = driver
        self.cuda = cuda
        self.links = ()
        self.now = {position: reading(3) for position in range(len(self.devices))}
        self.asked = []
        self.is_closed = False

    def read(self, position, seconds):
        self.asked.append(position)
        now = self.now[position]
        if isinstance(now, Failure):
            return now
        return CardReading(
            seconds=seconds,
            used_bytes=now.used_bytes,
            processes=now.processes,
            no_list_reason=now.no_list_reason,
            utilisation_fraction=now.utilisation_fraction,
        )

    def close(self):
        self.is_closed = True


class Bench:
    """A monitor with fake cards, a clock that a test turns, and no thread."""

    def __init__(self, *devices, facts=(), same_namespace=True, **changes):
        self.cards = FakeCards(*devices)
        self.processes = FakeProcesses(facts, same_namespace=same_namespace)
        self.seconds = 0.0
        self.wanting_count = 0
        self.waits = []
        self.on_wait = lambda: None
        self.is_answering = True
        self.monitor = GpuMonitor(
            self.cards, self.processes, clock=lambda: self.seconds, make_ticker=self._ticker, **changes
        )

    def _ticker(self, sample):
        self._sample = sample
        return self

    def start(self):
        self.wanting_count += 1

    def stop(self):
        self.wanting_count -= 1

    def look(self, _timeout_seconds):
        if self.is_answering:
            self._sample()
        return self.is_answering

    def wait(self, seconds):
        self.waits.append(seconds)
        self.seconds += seconds
        self.on_wait()

    def at(self, seconds, now, position=0):
        """Let the device stand so at this moment, and have it read."""
        self.seconds = seconds
        self.cards.now[position] = now
        self._sample()
