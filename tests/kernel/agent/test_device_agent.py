"""The device agent outside a kernel: what it reads from libraries, and how spans add up."""

import json
import random
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.agent import device_agent as agent_devices
from pytest_lecturecheck.kernel.agent.device_agent import CompileLog, DeviceAgent
from pytest_lecturecheck.kernel.agent.import_watch import ImportWatch

TRACE, LOWER, BACKEND = agent_devices.COMPILE_KINDS


class Device:
    """A device of JAX."""

    platform, id = "gpu", 3

    def __init__(self, stats, name="cuda:0"):
        self.stats, self.name = stats, name

    def __str__(self):
        return self.name

    def memory_stats(self):
        return self.stats


def backends(*devices):
    return SimpleNamespace(_backends={"cuda": SimpleNamespace(local_devices=lambda: devices)})


@pytest.fixture
def modules(monkeypatch):
    """Put modules where the agent looks for them; others are taken away."""
    for name in ("jax._src.monitoring", "jax._src.xla_bridge", "torch", "cupy"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return lambda name, module: monkeypatch.setitem(sys.modules, name, module)


STATS = {
    "bytes_in_use": 10,
    "peak_bytes_in_use": 20,
    "pool_bytes": 64,
    "peak_pool_bytes": 64,
    "bytes_limit": 64,
    "largest_free_block_bytes": 40,
    "num_allocs": 3,
}


@pytest.mark.usefixtures("modules")
def test_nothing_loaded_says_nothing():
    assert DeviceAgent("", 1).payload(1) == {}


def test_jax(modules):
    modules(
        "jax._src.xla_bridge", backends(Device(STATS), Device(None, "TFRT_CPU_0"), Device({"bytes_in_use": 5}, "odd"))
    )
    assert DeviceAgent("", 1).payload(1)["allocators"] == [
        {
            "library": "JAX",
            "device": "cuda:0",
            "live_bytes": 10,
            "peak_live_bytes": 20,
            "pool_bytes": 64,
            "peak_pool_bytes": 64,
            "limit_bytes": 64,
            "largest_free_block_bytes": 40,
        },
        {
            "library": "JAX",
            "device": "gpu:3",
            "live_bytes": 5,
            "peak_live_bytes": None,
            "pool_bytes": None,
            "peak_pool_bytes": None,
            "limit_bytes": None,
            "largest_free_block_bytes": None,
        },
    ]


@pytest.mark.parametrize(("in_use", "expected"), [(10, None), (64, 0)])
def test_a_free_block_of_0_counts_in_a_full_pool(modules, in_use, expected):
    modules("jax._src.xla_bridge", backends(Device({**STATS, "bytes_in_use": in_use, "largest_free_block_bytes": 0})))
    (figures,) = DeviceAgent("", 1).payload(1)["allocators"]
    assert figures["largest_free_block_bytes"] == expected


@pytest.mark.parametrize("bridge", [SimpleNamespace(), SimpleNamespace(_backends={}), SimpleNamespace(_backends=None)])
def test_a_jax_without_backends_is_not_woken(modules, bridge):
    modules("jax._src.xla_bridge", bridge)
    assert DeviceAgent("", 1).payload(1) == {}


def cuda(*, initialized=True, **more):
    return SimpleNamespace(
        is_initialized=lambda: initialized,
        device_count=lambda: 2,
        memory_allocated=lambda index: 10 * (1 - index),
        max_memory_allocated=lambda index: 20 * (1 - index),
        memory_reserved=lambda index: 30 * (1 - index),
        max_memory_reserved=lambda index: 40 * (1 - index),
        **more,
    )


def test_torch(modules):
    modules("torch", SimpleNamespace(cuda=cuda()))
    figures = {
        "library": "PyTorch",
        "device": "cuda:0",
        "live_bytes": 10,
        "peak_live_bytes": 20,
        "pool_bytes": 30,
        "peak_pool_bytes": 40,
    }
    assert DeviceAgent("", 1).payload(1)["allocators"] == [figures]
    limited = cuda(
        get_per_process_memory_fraction=lambda _: 0.5,
        get_device_properties=lambda _: SimpleNamespace(total_memory=1000),
    )
    modules("torch", SimpleNamespace(cuda=limited))
    assert DeviceAgent("", 1).payload(1)["allocators"] == [{**figures, "limit_bytes": 500}]


def test_cuda_is_not_initialised_for_torch(modules):
    modules("torch", SimpleNamespace(cuda=cuda(initialized=False)))
    assert DeviceAgent("", 1).payload(1) == {}
    modules("torch", SimpleNamespace())
    assert DeviceAgent("", 1).payload(1) == {}


def cupy(total, limit=0):
    pool = SimpleNamespace(total_bytes=lambda: total, used_bytes=lambda: 7, get_limit=lambda: limit)
    runtime = SimpleNamespace(getDevice=lambda: 1)
    return SimpleNamespace(get_default_memory_pool=lambda: pool, cuda=SimpleNamespace(runtime=runtime))


def test_cupy(modules):
    modules("cupy", cupy(64))
    figures = {"library": "CuPy", "device": "cuda:1", "live_bytes": 7, "pool_bytes": 64, "limit_bytes": None}
    assert DeviceAgent("", 1).payload(1)["allocators"] == [figures]
    modules("cupy", cupy(64, 100))
    assert DeviceAgent("", 1).payload(1)["allocators"] == [{**figures, "limit_bytes": 100}]
    modules("cupy", cupy(0))
    assert DeviceAgent("", 1).payload(1) == {}
    modules("cupy", SimpleNamespace())
    assert DeviceAgent("", 1).payload(1) == {}


def test_a_failing_library_is_reported_once(modules):
    asked = []

    def initialized():
        asked.append(1)
        msg = "CUDA error: an illegal memory access was encountered"
        raise RuntimeError(msg)

    modules("torch", SimpleNamespace(cuda=SimpleNamespace(is_initialized=initialized)))
    modules("cupy", cupy(64))
    agent = DeviceAgent("", 1)
    payload = [agent.payload(number) for number in range(1, 6)]
    assert [word.get("allocator_errors") for word in payload] == [
        {"PyTorch": "RuntimeError: CUDA error: an illegal memory access was encountered"},
        *[None] * 4,
    ]
    assert all(word["allocators"][0]["library"] == "CuPy" for word in payload)
    assert len(asked) == 3


# -- spans ------------------------------------------------------------------------------------------------------------


def test_spans_within_each_other_count_once():
    log = CompileLog(0.0)
    log.end("tracing_seconds", 1.0, 2.0)
    log.end("tracing_seconds", 3.0, 3.0)
    log.end("backend_seconds", 1.0, 5.0)
    assert log.totals() == {
        "seconds": 4.0,
        "tracing_seconds": 4.0,
        "lowering_seconds": 0.0,
        "backend_seconds": 1.0,
        "count": 1,
        "cache_hits": 0,
        "cache_misses": 0,
    }


def test_a_span_of_before_the_cell_counts_from_its_beginning():
    log = CompileLog(10.0)
    log.end("backend_seconds", 8.0, 12.0)
    assert log.totals()["seconds"] == 2.0


def test_an_open_span_is_reported_with_the_time_before():
    log = CompileLog(0.0)
    assert log.begin(1.0)
    assert log.end("tracing_seconds", 1.0, 2.0)
    assert log.begin(4.0)
    assert not log.begin(5.0)
    assert not log.end("tracing_seconds", 1.0, 6.0)
    figures = log.totals()
    assert (figures["open_since"], figures["seconds_before"], figures["seconds"]) == (4.0, 1.0, 2.0)
    assert log.end("backend_seconds", 3.0, 7.0)
    assert "open_since" not in log.totals()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=40), st.integers(0, 20))
def test_the_union_of_any_spans(spans, begin):
    spans = sorted(((min(pair), max(pair)) for pair in spans), key=lambda span: span[1])
    log = CompileLog(float(begin))
    for start, end in spans:
        log.end("tracing_seconds", float(end - start), float(max(end, begin)) if end >= begin else float(begin))
    seconds = {second for start, end in spans for second in range(max(start, begin), end)}
    # What ended before the log began is booked as if it ended with the beginning: it takes no time of its own.
    assert log.totals()["seconds"] == len(seconds)


def test_very_many_spans_take_bounded_room():
    log, now = CompileLog(0.0), 0.0
    generator = random.Random(0)
    for _ in range(25_000):
        now += 1.0
        log.end("tracing_seconds", generator.choice([0.25, 0.5]), now)
    assert len(log.spans) <= 10_001
    total = log.totals()["seconds"]
    assert log.totals()["tracing_seconds"] == total
    log.end("tracing_seconds", now, now)
    assert total < log.totals()["seconds"] <= now


# -- listening --------------------------------------------------------------------------------------------------------


class Monitoring:
    """jax.monitoring of some version."""

    def __init__(self, *, scalars=True, lists=True):
        self.duration_listeners, self.event_listeners, self.scalar_listeners = [], [], []
        if lists:
            self._event_duration_secs_listeners = self.duration_listeners
            self._event_listeners = self.event_listeners
            self._scalar_listeners = self.scalar_listeners
        self.register_event_duration_secs_listener = self.duration_listeners.append
        self.register_event_listener = self.event_listeners.append
        if scalars:
            self.register_scalar_listener = self.scalar_listeners.append

    def clear_event_listeners(self):
        """Clear what there is; some versions forget the scalars."""
        self.duration_listeners.clear()
        self.event_listeners.clear()

    def compile(self, seconds=1.0):
        for listener in self.scalar_listeners:
            listener(BACKEND, 0.0, fun_name="f")
        for listener in self.duration_listeners:
            listener(BACKEND, seconds, fun_name="f", other=3)
            listener("/jax/other", seconds)

    def miss(self):
        for listener in self.event_listeners:
            listener("/jax/compilation_cache/cache_misses", some="thing")
            listener("/jax/other")

    @property
    def counts(self):
        return len(self.duration_listeners), len(self.event_listeners), len(self.scalar_listeners)


@pytest.mark.parametrize("scalars", [True, False])
@pytest.mark.parametrize("lists", [True, False])
def test_listeners_are_there_once_whatever_the_lecture_clears(modules, scalars, lists):
    monitoring, agent = Monitoring(scalars=scalars, lists=lists), DeviceAgent("", 1)
    agent.listen(monitoring)
    modules("jax._src.monitoring", monitoring)
    once = (1, 1, int(scalars))
    assert monitoring.counts == once
    agent.payload(1)
    assert monitoring.counts == once
    if lists:
        monitoring.clear_event_listeners()
        assert monitoring.counts == once
        monitoring.duration_listeners.clear()
        agent.payload(2)
        assert monitoring.counts == once
    monitoring.compile()
    monitoring.miss()
    payload = agent.payload(3)["compile"]
    assert (payload["count"], payload["backend_seconds"], payload["cache_misses"]) == (1, 1.0, 1)
    assert agent.payload(4)["compile"]["count"] == 0


def test_an_unnoticed_import_is_found_at_the_cells_end(modules):
    monitoring, agent = Monitoring(), DeviceAgent("", 1)
    modules("jax._src.monitoring", monitoring)
    assert agent.payload(1)["compile"]["seconds"] == 0.0
    assert monitoring.counts == (1, 1, 1)


def test_a_jax_that_takes_no_listeners_says_why(modules):
    agent = DeviceAgent("", 1)
    modules("jax._src.monitoring", SimpleNamespace())
    assert agent.payload(1)["compile"] == {
        "error": "AttributeError: 'types.SimpleNamespace' object has no attribute "
        "'register_event_duration_secs_listener'"
    }


@pytest.mark.usefixtures("modules")
def test_odd_events_hurt_nobody():
    monitoring, agent = Monitoring(), DeviceAgent("", 1)
    agent.listen(monitoring)
    (on_duration,), (on_event,), (on_scalar,) = (
        monitoring.duration_listeners,
        monitoring.event_listeners,
        monitoring.scalar_listeners,
    )
    on_duration(TRACE, "long")
    on_duration(LOWER)
    on_event("x", 1, 2, three=3)
    on_scalar(TRACE)
    assert agent.payload(1)["compile"]["count"] == 0


def test_the_crash_record_has_the_open_span(modules, tmp_path):
    monitoring, agent = Monitoring(), DeviceAgent(str(tmp_path / "record"), 7)
    modules("jax._src.xla_bridge", backends(Device(STATS)))
    agent.listen(monitoring)
    (on_scalar,) = monitoring.scalar_listeners
    on_scalar(BACKEND, 0.0)
    payload = json.loads((tmp_path / "record").read_bytes().partition(b"\n")[0])
    assert payload["request"] == 7
    assert payload["compile"]["open_since"] > 0
    assert payload["allocators"][0]["live_bytes"] == 10


def test_a_file_that_cannot_be_written_is_given_up(modules, tmp_path):
    modules("jax._src.xla_bridge", backends(Device(STATS)))
    agent = DeviceAgent(str(tmp_path / "no" / "folder"), 1)
    assert len(agent.payload(1)["allocators"]) == len(agent.payload(2)["allocators"]) == 1
    assert agent.crash_record.path == ""


# -- imports ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Give a module's name and the list of its executions as a watch saw them."""
    (tmp_path / "watched_module.py").write_text("value = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []

    def note(module):
        seen.append(module.value)
        msg = "of no interest to the one who imports"
        raise ValueError(msg)

    monkeypatch.setattr(sys, "meta_path", [ImportWatch("watched_module", note), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "watched_module", raising=False)
    yield seen
    sys.modules.pop("watched_module", None)


def test_an_import_is_reported_after_execution_and_reload(watched):
    import importlib  # noqa: PLC0415 - beside what it imports

    module = importlib.import_module("watched_module")
    assert watched == [1]
    assert module.__spec__.loader.get_source("watched_module") == "value = 1\n"
    importlib.reload(module)
    assert watched == [1, 1]


def test_what_is_not_there_is_still_not_there():
    watch = ImportWatch("no_such_module_of_all", lambda _: None)
    assert watch.find_spec("no_such_module_of_all") is None
    assert watch.find_spec("json") is None
