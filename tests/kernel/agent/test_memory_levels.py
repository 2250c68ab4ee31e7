"""The sizes of what names hold, by kind: one process with many libraries, the missing ones as stubs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_lecturecheck.kernel.agent.memory_levels import Levels
from pytest_lecturecheck.kernel.agent.process_memory import memory_part, parse_smaps

MIB = 1 << 20
PROGRAM = """
import json, os, sys, tempfile, types
from multiprocessing import shared_memory
import jax, matplotlib, numpy as np
matplotlib.use("agg")
import jax.numpy as jnp, matplotlib.pyplot as plt, pandas as pd

from pytest_lecturecheck.kernel.agent.held_memory import named_parts
from pytest_lecturecheck.kernel.agent.process_memory import mapped_parts

cupy, torch = types.ModuleType("cupy"), types.ModuleType("torch")
class Pointer:
    def __init__(self, ptr): self.mem = types.SimpleNamespace(ptr=ptr, size=3 << 20)
class ndarray:
    def __init__(self, data): self.data = data
ndarray.__module__ = "cupy"
class Storage:
    def __init__(self, size): self.size = size
    def data_ptr(self): return id(self)
    def nbytes(self): return self.size
class Tensor:
    def __init__(self, kind, storage): self.device, self.storage = types.SimpleNamespace(type=kind), storage
    def untyped_storage(self): return self.storage
Tensor.__module__, torch.Tensor = "torch", Tensor
sys.modules.update(cupy=cupy, torch=torch)
class Noisy(np.ndarray):
    nbytes = property(lambda self: 1 / 0)

pinned, on_card, pointer = Storage(2 << 20), Storage(4 << 20), Pointer(7)
file = tempfile.NamedTemporaryFile(prefix="mapped-", suffix=".npy")
file.truncate(5 << 20)
mapped = np.memmap(file.name, dtype="u1", mode="r+")
segment = shared_memory.SharedMemory(create=True, size=6 << 20)
segment.buf[:] = bytes([1]) * len(segment.buf)
mapped[:] = 1
space = {
    "whole": np.ones(1 << 18), "jax_array": jnp.ones(1 << 19, "float32"), "words": ["word %d" % i for i in range(1000)],
    "on_gpu": ndarray(pointer), "gpu_view": ndarray(pointer),
    "cpu_tensor": Tensor("cpu", pinned), "cpu_view": Tensor("cpu", pinned), "gpu_tensor": Tensor("cuda", on_card),
    "frame": pd.DataFrame({"a": np.ones(1 << 17), "b": np.ones(1 << 17)}), "series": pd.Series(np.ones(1 << 17)),
    "mapped": mapped,
    "in_segment": np.ndarray(6 << 20, dtype="u1", buffer=segment.buf), "noisy": np.ones(1 << 17).view(Noisy),
    "objects": np.array([bytes(1000) for _ in range(100)], dtype=object),
}
space["view"] = space["whole"][::2]
space["reshaped"] = {"deep": [space["whole"].reshape(2, -1).T]}
space["jax_again"] = space["jax_array"]
space["column"] = space["frame"]["a"]
shell = types.SimpleNamespace(user_ns={"_oh": {3: np.ones(1 << 17), 4: space["whole"]}, **space}, user_ns_hidden={})
figures = [plt.subplots() for _ in range(2)]
figures[0][1].plot(np.ones(1 << 18))
named, others = named_parts(shell), mapped_parts()
shell.user_ns.clear(); space.clear()
print(json.dumps({"named": named, "mapped": others, "segment": segment.name, "file": file.name}))
sys.stdout.flush()
segment.unlink()
os._exit(0)
"""


@pytest.fixture(scope="module")
def found():
    """What a process with all these libraries holds."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, check=True, timeout=300)
    return json.loads(done.stdout)


def sizes(found):
    return {part["name"]: (part["kind"], part["size_bytes"]) for part in found["named"]}


@pytest.mark.parametrize(
    ("name", "kind", "size_bytes"),
    [
        ("whole", "array", 2 * MIB),
        ("jax_array", "array", 2 * MIB),
        ("on_gpu", "array on a device", 3 * MIB),
        ("cpu_tensor", "array", 2 * MIB),
        ("gpu_tensor", "array on a device", 4 * MIB),
        ("frame", "array", 2 * MIB),
        ("series", "array", MIB),
        ("noisy", "array", MIB),
        ("Out[3]", "output history", MIB),
        # 1,000 texts of 57 characters and more, and the list.
        ("words", "object", 65_000),
        # The pointers, and 100 objects of 1,033 bytes.
        ("objects", "object", 800 + 103_300),
    ],
)
def test_sizes_are_right_within_two_percent(found, name, kind, size_bytes):
    assert sizes(found)[name] == (kind, pytest.approx(size_bytes, rel=0.02))


def test_views_and_second_names_count_once(found):
    known = sizes(found)
    assert not {"view", "gpu_view", "cpu_view", "jax_again", "Out[4]"} & set(known)
    # What is around a view is little.
    assert all(known[name][1] < 3000 for name in ("reshaped", "column"))


def test_figures_that_are_open_are_counted(found):
    (part,) = (part for part in found["named"] if part["kind"] == "figures not closed")
    assert part["name"] == "2 figures of matplotlib"
    # matplotlib keeps x and y of the line.
    assert part["size_bytes"] >= 4 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="mappings are read on Linux only")
def test_mapped_files_and_shared_memory_are_named_and_sized(found):
    mapped = {part["name"]: (part["kind"], part["size_bytes"]) for part in found["mapped"]}
    assert mapped[Path(found["file"]).name] == ("mapped file", 5 * MIB)
    assert mapped[found["segment"]] == ("shared memory", 6 * MIB)
    # Their pages are no memory of the names that show them.
    assert not {"mapped", "in_segment"} & set(sizes(found))


def test_mappings_are_told_apart_by_their_paths():
    text = """\
7f0000000000-7f0000100000 rw-s 00000000 00:01 5 /dev/shm/sem one
Rss:                1024 kB
7f0000200000-7f0000300000 r--p 00000000 08:01 6 /data/big file.npy (deleted)
Rss:                 512 kB
7f0000400000-7f0000500000 r-xp 00000000 08:01 7 /lib/libc.so.6
Rss:                 100 kB
7f0000500000-7f0000600000 r--p 00000000 08:01 7 /lib/libc.so.6
Rss:                 100 kB
7ffff0000000-7ffff0100000 rw-p 00000000 00:00 0 [stack]
Rss:                  64 kB
7ffff0200000-7ffff0300000 rw-p 00000000 00:00 0
Rss:                  32 kB
"""
    parts = parse_smaps(text.splitlines(), [0x7FFFF0000010, 0x7FFFF0200010])
    assert [(part["kind"], part["name"], part["size_bytes"] >> 10) for part in parts] == [
        ("mapped file", "big file.npy", 512),
        ("shared memory", "sem one", 1024),
        ("stacks of threads", "2 threads", 96),
    ]


def test_growth_is_that_of_all_files_of_a_name_and_of_any_number_of_threads():
    levels = Levels(shell=None)

    def taken(*files, stacks):
        parts = [memory_part("mapped file", size * MIB, "data.bin") for size in files]
        return levels._largest([*parts, memory_part("stacks of threads", stacks * MIB, f"{stacks} threads")])

    assert [part["grown_bytes"] for part in taken(10, 20, stacks=2)] == [30 * MIB, 2 * MIB]
    assert [(part["size_bytes"], part["grown_bytes"]) for part in taken(10, 25, stacks=3)] == [
        (35 * MIB, 5 * MIB),
        (3 * MIB, 1 * MIB),
    ]
