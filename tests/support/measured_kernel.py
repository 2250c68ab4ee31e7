"""
A process that stands in for a kernel below a supervisor, measured by this process's probe.

Run as a script it measures one cell and prints what was found, so that a test can run it as another user:
``measured_kernel.py FOLDER`` reads the cell's source from standard input.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

from pytest_lecturecheck.model.metric import Measurement, Metric
from pytest_lecturecheck.model.probe import RUN_TOKEN_VARIABLE
from pytest_lecturecheck.probe.memory import open_memory_probe

SERVE = """
import sys
for line in sys.stdin:
    exec(eval(line), globals())
    print(flush=True)
"""
_SUPERVISOR = """
import ctypes, os, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
kernel = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
print(kernel.pid, flush=True)
while os.wait()[0] != kernel.pid:
    pass
"""


class SupervisedKernel:
    """A supervisor that has set itself as a subreaper, and its kernel, fed through a pipe."""

    def __init__(self) -> None:
        """Start both, and open a probe."""
        self.token = uuid.uuid4().hex
        self.supervisor = subprocess.Popen(
            [sys.executable, "-c", _SUPERVISOR, SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={RUN_TOKEN_VARIABLE: self.token},
        )
        self.pid = int(self.supervisor.stdout.readline())
        self.send("pass")
        self.probe = open_memory_probe(self.pid, run_token=self.token, supervisor_pid=self.supervisor.pid)

    def send(self, source: str) -> None:
        """Run a source in the kernel, and wait for its end."""
        self.supervisor.stdin.write(f"{source!r}\n")
        self.supervisor.stdin.flush()
        self.supervisor.stdout.readline()

    def cell(self, source: str):
        """Measure a source as a cell."""
        self.probe.begin_cell()
        self.send(source)
        return self.probe.end_cell()

    def end(self):
        """End the kernel, and return the lecture's measurements."""
        self.supervisor.communicate()
        return self.probe.close()


def main(folder: Path) -> None:
    """Measure the cell on standard input."""
    kernel = SupervisedKernel()
    kernel.cell("pass")
    found = kernel.cell(f"folder = {str(folder)!r}\n{sys.stdin.read()}")
    lecture = kernel.end()
    peak, whole = found.readings[Metric.PEAK_FOOTPRINT], lecture[Metric.PEAK_FOOTPRINT]
    assert isinstance(peak, Measurement)
    assert isinstance(whole, Measurement)
    values = {
        "cell_bytes": peak.value,
        "method": peak.method.value,
        "lecture_bytes": whole.value,
        "cpu_seconds": found.readings[Metric.CPU].value,
        "was_peak_reset": found.was_peak_reset,
    }
    sys.stdout.write(json.dumps(values))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
