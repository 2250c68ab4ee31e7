"""
LeftoverWatch made by hand, after the form in which XLA writes those of a GPU.

No GPU was at hand. Names of processes, threads and arguments are those of XLA's sources
(``cupti_collector.cc``, ``xplane_to_trace_events.cc``); values are round so that results can be computed by hand.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

GPU = 1  # XLA numbers its processes from 1; the host's comes last, with 701
HOST = 701


def process(pid, name):
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}


def thread(pid, tid, name):
    return {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def kernel(start, duration, name="loop_add_fusion", *, pid=GPU, tid=7, **more):
    """One kernel on a stream of a GPU; microseconds."""
    args = {
        "context_id": "$$1",
        "correlation_id": str(round(start)),
        "hlo_module": "jit_step",
        "hlo_op": name,
        "kernel_details": "regs:16 static_shared:0 dynamic_shared:0 grid:1,1,1 block:128,1,1 occ_pct:100",
        "tf_op": "jit(step)/add",
        **more,
    }
    return {"ph": "X", "pid": pid, "tid": tid, "ts": float(start), "dur": float(duration), "name": name, "args": args}


def copy(start, duration, name="MemcpyD2H", *, pid=GPU, tid=7):
    details = "kind_src:device kind_dst:pageable size:4 dest:0 async:1"
    args = {"context_id": "$$1", "correlation_id": str(round(start)), "memcpy_details": details}
    return {"ph": "X", "pid": pid, "tid": tid, "ts": float(start), "dur": float(duration), "name": name, "args": args}


def thunk(start, duration, name="add", *, tid=20, run_id="1", ordinal="0"):
    """One of XLA's operations on the CPU."""
    args = {
        "_src": "external/xla/xla/backends/cpu/runtime/thunk_executor.cc",
        "device_ordinal": ordinal,
        "hlo_module": "jit_step",
        "hlo_op": name,
        "run_id": run_id,
    }
    return {"ph": "X", "pid": HOST, "tid": tid, "ts": float(start), "dur": float(duration), "name": name, "args": args}


def host_call(start, duration, name="PjitFunction(step)"):
    return {"ph": "X", "pid": HOST, "tid": 20, "ts": float(start), "dur": float(duration), "name": name}


def gpu_names(pid=GPU, ordinal=0):
    """The threads that XLA's traces of a GPU have; only the streams hold operations."""
    return [
        process(pid, f"/device:GPU:{ordinal}"),
        thread(pid, 7, "Stream #7(Compute,MemcpyD2H)"),
        thread(pid, 13, "Stream #13(MemcpyH2D)"),
        thread(pid, 90, "XLA Modules"),
        thread(pid, 91, "CUPTI overhead"),
    ]


HOST_NAMES = [
    process(HOST, "/host:CPU"),
    thread(HOST, 20, "python"),
    thread(HOST, 21, "tf_XLAEigen/-1479500971139517383"),
]

LAUNCH_BOUND_GPU = [
    *gpu_names(),
    *HOST_NAMES,
    # A thousand kernels of 4 us, one every 16 us: busy for a quarter of the time.
    *(kernel(16 * number, 4) for number in range(1000)),
    copy(16_000, 4),
    # What says the same again, what is no work of the device, and the host's side of it.
    {"ph": "X", "pid": GPU, "tid": 90, "ts": 0.0, "dur": 16_004.0, "name": "jit_step(1)", "args": {"run_id": "1"}},
    {"ph": "X", "pid": GPU, "tid": 91, "ts": 9.0, "dur": 500.0, "name": "Overhead"},
    {
        "ph": "X",
        "pid": GPU,
        "tid": 7,
        "ts": 5.0,
        "dur": 9.0,
        "name": "MemAlloc",
        "args": {"memalloc_details": "kind:d"},
    },
    thunk(0, 15_000, "host side"),
    host_call(0, 16_000),
    {},
]


def write(
    path: Path, events, *, head: str = '{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":'
):
    """Write a file as XLA does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = head + json.dumps(events, separators=(",", ":")) + "}"
    path.write_bytes(gzip.compress(text.encode()))
    return path
