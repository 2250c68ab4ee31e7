"""The devices' memory of JAX in a real kernel: which lines hold it, and what is alive when it runs out."""

from dataclasses import replace

import pytest
from support.benches import lecture, statuses

from pytest_lecturecheck.config.options import DEFAULTS
from pytest_lecturecheck.kernel.messages.agent_live_buffers import clean_live_buffers
from pytest_lecturecheck.model.device import LiveBuffers
from pytest_lecturecheck.session.trace_plan import plan_memory

MIB = 1 << 20
SET_UP = """
    import os, sys, time
    os.environ['JAX_PLATFORMS'] = 'cpu'
    # The record of the devices does not need it.
    sys.modules['memray'] = None
    import jax, jax.numpy as jnp
    import grids
    """
PLANTED = """
    first = jnp.zeros((8, 1 << 18), jnp.float32)
    made = grids.make(16)
    each = [jnp.ones((1 << 18,), jnp.float32) for _ in range(4)]
    jax.block_until_ready((first, made, each))
    time.sleep(0.6)
    del made
    """
STEP = """
    def step(count):
        kept = jnp.ones((3, 1 << 20), jnp.float32)
        return jnp.ones((count,), jnp.float32)
    step(1 << 44)
    """
MODULE = "import jax.numpy as jnp\n\ndef make(rows):\n    return jnp.ones((rows, 1 << 18), jnp.float32)\n"


@pytest.fixture(scope="module")
def recorded(_bench, tmp_path_factory):
    folder = tmp_path_factory.mktemp("devices")
    (folder / "grids.py").write_text(MODULE)
    made = lecture(folder, SET_UP, PLANTED, STEP)
    _bench._bench._ports = _bench._real_ports
    layer = replace(DEFAULTS, timeout_seconds=60.0)
    return folder, _bench._bench.run(made, layer, 1, memory=plan_memory(folder, made, 1, frozenset({2})))


def test_lines_hold_the_devices_memory_at_the_highest_level(recorded):
    folder, run = recorded
    profile = run.cells[1].device_profile
    assert statuses(run) == ["ok", "ok", "failed"]
    assert (profile.peak_bytes / MIB, profile.devices) == (pytest.approx(28, rel=0.02), ("cpu:0",))
    lines = {line.place: (round(line.size_bytes / MIB), line.caller) for line in profile.lines}
    assert lines == {
        "grids.py:4 in make": (16, "code cell 2, line 201"),
        "code cell 2, line 200": (8, ""),
        "code cell 2, line 202": (4, ""),
    }
    assert (folder / profile.record).is_file()


def test_arrays_are_listed_with_their_names_when_memory_runs_out(recorded):
    found = {(item.shape, item.count): item for item in recorded[1].evidence.live_buffers}
    assert found["8x262144", 1] == LiveBuffers(
        shape="8x262144", dtype="float32", device="cpu:0", count=1, size_bytes=8 * MIB, names=("first",)
    )
    assert found["262144", 4].names == ("each[...]",)
    assert found["3x1048576", 1].names == ("kept in step",)


def test_other_cells_have_no_record(recorded):
    assert recorded[1].cells[0].device_profile is recorded[1].cells[2].device_profile is None


@pytest.mark.parametrize("payload", [None, 7, [7], [{"count": True, "size_bytes": 1}], [{"count": 1}]])
def test_forged_lists_of_arrays_are_dropped(payload):
    assert clean_live_buffers(payload) == ()
