"""GPUs and the compiler in real kernels: JAX on the CPU, other libraries as fakes made by a cell."""

import sys

import pytest
from support.benches import messages, run_to_limit, statuses
from support.fakes import FakeDeviceProbe

from pytest_lecturecheck.diagnosis import CauseKind, diagnose
from pytest_lecturecheck.model.device import (
    AllocatorUsage,
    CompileTimes,
    Device,
    DeviceHolder,
    DeviceSample,
    DeviceUse,
    HolderKind,
)
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.model.run import Outcome

MIB = 1024**2
TWO_DEVICES = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
COMPILE = """
import jax, jax.numpy as jnp
double = jax.jit(lambda x: jnp.sin(x) * 2)
double(jnp.ones(3)).block_until_ready()
"""
FAKE_TORCH = """
import sys, types
state = types.SimpleNamespace(live={live}, peak={peak}, pool={pool})
cuda = types.SimpleNamespace(
    is_initialized=lambda: True,
    device_count=lambda: 1,
    memory_allocated=lambda index: state.live,
    max_memory_allocated=lambda index: state.peak,
    memory_reserved=lambda index: state.pool,
    max_memory_reserved=lambda index: state.pool,
)
torch = types.ModuleType("torch")
torch.cuda = cuda
sys.modules["torch"] = torch
"""
# A backend that keeps figures, in the place where JAX keeps its own.
FAKE_JAX_GPU = """
import sys, types
class Gpu:
    def __str__(self):
        return "cuda:0"
    def memory_stats(self):
        return stats
stats = {{"bytes_in_use": {live}, "peak_bytes_in_use": {peak}, "pool_bytes": {pool}, "peak_pool_bytes": {pool},
    "bytes_limit": {limit}, "largest_free_block_bytes": 0}}
bridge = types.ModuleType("jax._src.xla_bridge")
bridge._backends = {{"cuda": types.SimpleNamespace(local_devices=lambda: [Gpu()])}}
sys.modules["jax._src.xla_bridge"] = bridge
sys.modules["jax"] = types.ModuleType("jax")
"""


def test_compile_times_from_the_first_cell_on(bench):
    run = bench.run_on_devices(
        "x = 1",
        COMPILE,
        "double(jnp.ones(3)).block_until_ready()\nassert len(jax.devices()) == 2",
        "jax.monitoring.clear_event_listeners()\ndouble(jnp.ones(5)).block_until_ready()",
        "import importlib, jax._src.monitoring as m\nimportlib.reload(m)\ndouble(jnp.ones(7)).block_until_ready()",
        "import threading\nt = threading.Thread(target=lambda: double(jnp.ones(9)))\nt.start()\nt.join()",
        "assert not [name for name in globals() if 'lecturecheck' in name.lower()]",
        environment=TWO_DEVICES,
    )
    assert run.outcome is Outcome.COMPLETED, [cell.error for cell in run.cells]
    first, *others = run.cells
    assert (first.compilation, first.readings) == (None, {})
    assert [cell.compilation.count > 0 for cell in others] == [True, False, True, True, True, False]
    for cell in others:
        figures, reading = cell.compilation, cell.measured(Metric.COMPILE)
        # Spans of tracing lie within each other.
        parts = figures.tracing_seconds + figures.lowering_seconds + figures.backend_seconds
        assert figures.backend_seconds <= figures.seconds + 1e-6
        assert figures.seconds <= parts + 1e-6
        assert (reading.value, reading.method, reading.source) == (figures.seconds, Method.AGENT, "jax.monitoring")
    total = sum(cell.compilation.seconds for cell in others)
    assert run.measured(Metric.COMPILE) == Measurement(
        metric=Metric.COMPILE, value=total, method=Method.AGENT, source="jax.monitoring"
    )
    # On a CPU no allocator keeps figures.
    assert {cell.allocators for cell in run.cells} == {()}
    assert isinstance(run.reading(Metric.GPU_LIVE), Unavailable)
    assert run.conditions.environment == TWO_DEVICES
    assert run.findings == ()


def test_jax_imported_in_a_thread(bench):
    code = "import threading\nthread = threading.Thread(target=exec, args=({!r},))\nthread.start()\nthread.join()"
    run = bench.run_on_devices(code.format(COMPILE), environment=TWO_DEVICES)
    assert run.cells[0].compilation.count > 0


def test_hits_of_the_persistent_cache_are_counted(bench, tmp_path):
    environment = {
        **TWO_DEVICES,
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    cold, warm = (bench.run_on_devices(COMPILE, environment=environment).cells[0].compilation for _ in range(2))
    assert cold.cache_hits == 0
    assert cold.cache_misses > 0
    assert (warm.cache_hits, warm.cache_misses) == (cold.cache_misses, 0)


def test_the_crash_record_of_a_dead_kernel(bench):
    run = bench.run_on_devices("import jax", f"{COMPILE}\nimport os\nos.abort()", environment={"JAX_PLATFORMS": "cpu"})
    assert run.outcome is Outcome.DIED
    compilation = run.evidence.usage.compilation
    assert compilation.count > 0
    assert compilation.unfinished_seconds == 0
    assert run.cells[1].compilation.count == compilation.count
    assert run.evidence.conditions.environment == {"JAX_PLATFORMS": "cpu"}


def test_what_was_compiled_before_is_not_the_dying_cells(bench):
    run = bench.run_on_devices(COMPILE, "import os\nos._exit(3)", environment={"JAX_PLATFORMS": "cpu"})
    assert run.evidence.usage.compilation == CompileTimes(seconds=0.0)


LONG_COMPILE = """
import jax, jax.numpy as jnp

def unrolled(x):
    for i in range(4000):
        x = jnp.sin(x) @ x + i
    return x

jax.jit(unrolled)(jnp.ones((5, 5)))
"""


def test_a_cell_that_compiles_until_its_time_is_over(bench):
    def run_with(seconds):
        environment = {"JAX_PLATFORMS": "cpu"}
        return bench.run_on_devices("import jax", LONG_COMPILE, timeout_seconds=seconds, environment=environment)

    def is_compiling(run):
        return (
            statuses(run)[0] == "ok" and run.evidence.usage.compilation.seconds > run.evidence.timeout.limit_seconds / 2
        )

    run = run_to_limit(run_with, is_compiling, 4.0)
    evidence = run.evidence
    assert (run.outcome, statuses(run)) == (Outcome.TIMED_OUT, ["ok", "timed out"])
    # Where the limit falls depends on the machine: tracing, lowering or the backend.
    assert evidence.usage.compilation.unfinished_seconds > 0
    assert evidence.usage.compilation.seconds > 1.0
    assert evidence.timeout.stack[-1] == "code cell 2, line 207"
    assert evidence.line == 207
    assert not any(frame.startswith(("/", "\\")) or sys.prefix in frame for frame in evidence.timeout.stack)
    cause = diagnose(evidence)
    assert cause.kind is CauseKind.TIMED_OUT_COMPILING
    assert ", and still compiling when stopped" in cause.headline


def test_the_stack_of_a_kernel_that_does_not_answer(bench):
    # One call of C code that holds the interpreter's lock and looks at no interrupt.
    run = bench.run_on_devices("def slow():\n    return sum(range(10**12))\n\nslow()", timeout_seconds=3.0)
    assert (run.outcome, run.evidence.timeout.stopped_by_interrupt) == (Outcome.TIMED_OUT, False)
    assert run.evidence.timeout.stack == ("code cell 1, line 101, in slow", "code cell 1, line 103")
    assert run.evidence.line == 101


@pytest.mark.parametrize("handler", ["lambda *_: print('mine')", "signal.SIG_IGN", "signal.SIG_DFL"])
def test_a_signal_used_by_the_lecture_is_left_alone(bench, handler):
    run = bench.run_on_devices(
        f"import signal\n_ = signal.signal(signal.SIGUSR2, {handler})",
        "import time\ntime.sleep(30)",
        timeout_seconds=3.0,
    )
    assert (run.outcome, run.evidence.timeout.stopped_by_interrupt) == (Outcome.TIMED_OUT, True)
    assert run.evidence.timeout.stack == ()
    assert "mine" not in run.cells[1].output_extract


def test_allocators_speak_for_the_cells_and_the_lecture(bench):
    run = bench.run_on_devices(
        FAKE_TORCH.format(live=10 * MIB, peak=30 * MIB, pool=64 * MIB),
        "state.live = 20 * 1024**2",
        "state.peak = state.live = 50 * 1024**2",
    )
    figures = AllocatorUsage(
        library="PyTorch",
        device="cuda:0",
        live_bytes=10 * MIB,
        peak_live_bytes=30 * MIB,
        pool_bytes=64 * MIB,
        peak_pool_bytes=64 * MIB,
    )
    assert run.cells[0].allocators == (figures,)

    def live(value, method, high=None):
        return Measurement(
            metric=Metric.GPU_LIVE, value=value * MIB, method=method, high=high, source="PyTorch on cuda:0"
        )

    assert [cell.readings[Metric.GPU_LIVE] for cell in run.cells] == [
        live(30, Method.AGENT),
        live(20, Method.BRACKET, 30 * MIB),
        live(50, Method.AGENT),
    ]
    assert run.readings[Metric.GPU_LIVE] == live(50, Method.AGENT)
    assert run.readings[Metric.GPU_POOL].value == 64 * MIB
    assert run.findings == ()


def test_allocators_speak_at_a_failed_cell(bench):
    run = bench.run_on_devices(FAKE_TORCH.format(live=1, peak=2, pool=3), "raise MemoryError('no')")
    assert [figures.peak_live_bytes for figures in run.evidence.allocators] == [2]


def test_allocators_speak_for_a_kernel_that_died(bench):
    run = bench.run_on_devices(FAKE_TORCH.format(live=1, peak=2, pool=3), "import os\nos._exit(3)")
    assert [figures.peak_live_bytes for figures in run.evidence.allocators] == [2]
    reading = run.readings[Metric.GPU_LIVE]
    assert (reading.value, reading.method) == (2, Method.SAMPLED)


def test_an_allocator_that_raises_is_no_reason_to_fail(bench):
    broken = "import sys, types\nsys.modules['cupy'] = types.SimpleNamespace(get_default_memory_pool=lambda: 1 / 0)"
    run = bench.run_on_devices(broken, "x = 1")
    assert run.outcome is Outcome.COMPLETED
    (finding,) = run.findings
    assert finding.message == (
        "the allocator of CuPy could not be read (ZeroDivisionError: division by zero); its memory is missing from "
        "the measurements"
    )
    assert finding.cell_number == 1


def test_two_libraries_on_one_device(bench):
    run = bench.run_on_devices(
        FAKE_TORCH.format(live=10, peak=30, pool=64) + FAKE_JAX_GPU.format(live=5, peak=20, pool=32, limit=128), "x = 1"
    )
    assert run.readings[Metric.GPU_LIVE].source == "PyTorch on cuda:0"
    assert messages(run) == [
        "JAX and PyTorch share cuda:0: its values are those of the library that used most, not a sum"
    ]


# -- the devices' probe -----------------------------------------------------------------------------------------------

T4 = Device(index=0, name="Tesla T4", total_bytes=15_360 * MIB)


def used(value, source="NVML"):
    return Measurement(
        metric=Metric.GPU_USED, value=value * MIB, method=Method.SAMPLED, interval_seconds=0.1, source=source
    )


def test_what_the_devices_probe_says_is_booked(bench):
    now = DeviceUse(device=T4, used=used(900), timeline=(DeviceSample(seconds=1.0, used_bytes=5),))
    after = DeviceUse(device=T4, used=used(1000), before_bytes=3 * MIB, after_bytes=3 * MIB)
    probe = FakeDeviceProbe(
        [{Metric.GPU_USED: used(500)}, {Metric.GPU_USED: used(1000)}], {Metric.GPU_USED: used(1000)}, [now], [after]
    )
    run = bench.run_on_devices("x = 1", "1 / 0", device_probe=probe)
    assert [cell.readings.get(Metric.GPU_USED) for cell in run.cells] == [used(500), used(1000)]
    assert run.readings[Metric.GPU_USED] == used(1000)
    assert run.devices == (after,)
    assert run.evidence.devices == (now,)
    assert [call for call in probe.calls if call != "snapshot"] == ["begin", "end", "begin", "end", "close"]
    assert run.findings == ()


def test_preallocated_memory_is_named_as_such(bench):
    pool = 11_305 * MIB
    probe = FakeDeviceProbe(
        [{Metric.GPU_USED: used(11_600)}],
        {Metric.GPU_USED: used(11_600)},
        after=[DeviceUse(device=T4, used=used(11_600)), DeviceUse(device=T4, used=used(300))],
    )
    run = bench.run_on_devices(
        FAKE_JAX_GPU.format(live=5 * MIB, peak=20 * MIB, pool=pool, limit=pool), device_probe=probe
    )
    reserved = used(11_600, "NVML, reserved by preallocation")
    assert run.readings[Metric.GPU_USED] == run.cells[0].readings[Metric.GPU_USED] == reserved
    assert [(use.is_reserved, use.used) for use in run.devices] == [(True, reserved), (False, used(300))]
    assert run.readings[Metric.GPU_LIVE].value == 20 * MIB


HELD = DeviceHolder(
    pid=201, used_bytes=5000 * MIB, kind=HolderKind.ENDED_LECTURE, lecture="slow.md", was_there_first=True
)


def test_gpu_memory_of_an_earlier_lecture_is_reported(bench):
    foreign = DeviceHolder(pid=7, used_bytes=MIB, was_there_first=True)
    probe = FakeDeviceProbe(now=[DeviceUse(device=T4, holders=(HELD, foreign))])
    run = bench.run_on_devices("x = 1", device_probe=probe)
    assert messages(run) == ["on GPU 0 (Tesla T4), 5000 MiB are still held by pid 201, the kernel of slow.md"]


GONE = "memory of GPU 0 (Tesla T4) did not come back after the teardown: "


def leftover(**more):
    return {"leftovers": (DeviceHolder(pid=9, kind=HolderKind.ENDED_LECTURE, **more),)}


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (leftover(used_bytes=700 * MIB, lecture="a\x1b.md"), ["700 MiB are still held by pid 9, left over from a?.md"]),
        (leftover(), ["memory of unknown size is still held by pid 9, left over from lecture.md"]),
        ({}, ["700 MiB more in use than before the lecture, and no process is known to hold it"]),
        # Others were on the card, and may have taken more.
        ({"is_shared": True}, []),
        ({"holders": (HELD,), "is_shared": True}, []),
        ({"after_bytes": 150 * MIB}, []),
        ({"after_bytes": None}, []),
        ({"before_bytes": None}, []),
    ],
)
def test_memory_that_does_not_come_back(bench, use, expected):
    after = DeviceUse(device=T4, **{"before_bytes": 100 * MIB, "after_bytes": 800 * MIB, **use})
    run = bench.run_on_devices("x = 1", device_probe=FakeDeviceProbe(after=[after]))
    assert messages(run) == [GONE + text for text in expected]
