"""Evidence on a card of 15,360 MiB, and of a lecture that asks it for 2.5 GiB in its seventh cell."""

from __future__ import annotations

from dataclasses import replace

from pytest_lecturecheck.diagnosis import diagnose
from pytest_lecturecheck.model.cell_run import CellError
from pytest_lecturecheck.model.device import Device, DeviceHolder, DeviceUse, HolderKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric
from pytest_lecturecheck.units import MIB
from support.made_records import changed, made_evidence


def measured(size_bytes):
    return Measurement(metric=Metric.GPU_USED, value=size_bytes, method=Method.SAMPLED, interval_seconds=0.1)


def check(evidence, kind, headline, *, lines=None, advice=None):
    cause = diagnose(evidence)
    assert (cause.kind, cause.headline) == (kind, headline)
    if lines is not None:
        assert cause.evidence == lines
    if advice is not None:
        assert cause.advice == advice


PREALLOCATE = "set XLA_PYTHON_CLIENT_PREALLOCATE=false for the kernels: each then takes memory when it needs it"

THIRDS = (
    "XLA_PYTHON_CLIENT_MEM_FRACTION=0.30{}: 3 kernels with 4608 MiB each, and 512 MiB for the CUDA context of each, "
    "fit into 15360 MiB"
)

SHARE = (PREALLOCATE, f"or {THIRDS.format('')}", "or run GPU lectures one at a time")

LEFT = (
    "end pid 201 (kill 201), once a look has shown that it is still the same",
    "or wait until that memory is back before the next lecture starts",
)

LESS = (
    "have the cell need less memory (smaller batches, float32, arrays deleted as soon as they are done with), "
    "or take a card with more"
)

STDERR = "Check failed: allocation of 2684354560 bytes: RESOURCE_EXHAUSTED"


def card(run_mib, *holders, before_mib=3, index=0, **changes):
    """Make a device; what was in use at most is what all held, where nothing else is said."""
    in_use = run_mib + sum((holder.used_bytes or 0) // MIB for holder in holders)
    use = DeviceUse(
        device=Device(index=index, name="fake-T4", total_bytes=15360 * MIB),
        used=measured(run_mib * MIB),
        before_bytes=before_mib * MIB,
        peak_used_bytes=in_use * MIB,
        others_peak_bytes=0 if not holders else None,
        holders=holders,
    )
    return replace(use, **changes)


def holder(pid, used_mib, kind, lecture="", *, was_there_first=True, **changes):
    size = None if used_mib is None else used_mib * MIB
    return DeviceHolder(
        pid=pid, used_bytes=size, kind=kind, lecture=lecture, was_there_first=was_there_first, **changes
    )


def running(used_mib, *, lecture="first.md", pid=101, **changes):
    return holder(pid, used_mib, HolderKind.RUNNING_LECTURE, lecture, **changes)


def leftover(used_mib, pid=201, **changes):
    return holder(pid, used_mib, HolderKind.ENDED_LECTURE, "slow.md", **changes)


def foreign(used_mib, pid=4242, **changes):
    return holder(pid, used_mib, HolderKind.FOREIGN, **changes)


ABORTED = made_evidence(
    lecture="second.md", cell_number=7, line=120, signal=6, stderr_tail=(STDERR,), session_kernel_count=3
)

SILENT = changed(ABORTED, stderr_tail=())

XLA_TEXT = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate {} bytes."

REFUSED = changed(SILENT, signal=None, error=CellError(name="XlaRuntimeError", value=XLA_TEXT.format(2684354560)))

DEFAULT_SHARE = "already held 11305 of 15360 MiB (74 %, JAX's default share)"

WHEN_STARTED = "GPU preallocation race: when it started,"

AT = "in cell 7, line 120"

PLACE = " (code cell 7, line 120)"

ASKED = "asked 2.68 GB (2.5 GiB)"


def raising(name, value, **changes):
    return changed(REFUSED, error=CellError(name=name, value=value), **changes)


TORCH = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 14.58 GiB of which 1.00 GiB is "
    "free. Including non-PyTorch memory, this process has 13.50 GiB memory in use. Of the allocated memory {} GiB is "
    "allocated by PyTorch, and {} GiB is reserved by PyTorch but unallocated."
)

CUPY = (
    "Out of memory allocating 805,306,368 bytes "
    "(allocated so far: 536,870,912 bytes, limit set to: 1,073,741,824 bytes)."
)
