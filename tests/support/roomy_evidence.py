"""Evidence on a machine with 24 GiB, most of it free, and a check of the cause."""

from __future__ import annotations

from pytest_lecturecheck.diagnosis import diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.evidence import OomKill, OomScope
from pytest_lecturecheck.units import GIB, MIB
from support.made_records import changed, made_evidence

ROOMY = made_evidence(
    cell_number=2,
    line=9,
    peak_footprint_bytes=63 * MIB,
    last_footprint_bytes=61 * MIB,
    last_footprint_age_seconds=0.02,
    available_memory_bytes=20 * GIB,
    limit_memory_bytes=24 * GIB,
    limit_source="RAM",
    swap_bytes=0,
    machine="x86_64",
)

ROOMY_LINES = (
    "peak footprint of the cell 63 MiB",
    "last reading 61 MiB, 0.02 s before the end was noticed",
    "memory of the machine: available 20 GiB; limit 24 GiB, RAM; no swap",
)


def raised(name, value="", **changes):
    changes.setdefault("error", CellError(name=name, value=value))
    return changed(ROOMY, **changes)


def check(evidence, kind, headline, *, lines=None, advice=None):
    """Return the cause of a bad end after a look at its kind and headline, and at its lines where they are given."""
    cause = diagnose(evidence)
    assert (cause.kind, cause.headline) == (kind, headline)
    if lines is not None:
        assert cause.evidence == lines
    if advice is not None:
        assert cause.advice == advice
    return cause


NUMPY_HUGE = "Unable to allocate 72.8 TiB for an array with shape (10000000000000,) and data type float64"

V2 = "cgroup v2 /box/job memory.events oom_kill"

BY_CAP = OomKill(scope=OomScope.CAP, before=0, after=1, limit_bytes=4 * GIB, where=V2)

BY_CONTAINER = OomKill(scope=OomScope.CONTAINER, before=0, after=1, limit_bytes=512 * MIB, where=V2)

BY_MACHINE = OomKill(scope=OomScope.MACHINE, before=40, after=41, where="/proc/vmstat oom_kill")


CRASH = (
    "Fatal Python error: Segmentation fault",
    '  File "/opt/py/lib/python3.11/ctypes/__init__.py", line 519 in string_at',
    '  File "/tmp/ipykernel_12948/1736214988.py", line 3 in f',
    '  File "/tmp/ipykernel_12948/2055930313.py", line 2 in <module>',
    '  File "<string>", line 8 in <module>',
)

POOL = "A process in the process pool was terminated abruptly while the future was running or pending."

DIED = "Command '['solve']' died with <Signals.SIGKILL: 9>."

PLACE = "(code cell 2, line 9)"
