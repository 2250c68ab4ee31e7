"""
Sum what the lecture's names hold: objects, and the buffers of arrays, each counted once.

Standard library only; libraries are looked up in ``sys.modules`` and never imported. No code of the lecture runs: sizes
come from C types, attributes of lecture classes are not read. The number of objects that are looked at is bounded.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import re
import sys
import time
import types
from typing import Any

from pytest_lecturecheck.kernel.agent.process_memory import TEXT_CHARS, memory_part

MOST_OBJECTS = 50_000
"""Objects that are looked at after each cell."""
MOST_PER_NAME = 10_000
MOST_SECONDS = 0.5
SAMPLE = 1_000
"""Elements that are looked at in a container with more than twice as many."""

_OWN_NAME = re.compile(r"_+|_i+|_i?[0-9]+|_dh|_oh|_ih|In|Out|exit|quit|get_ipython|open")
_LEAVES = (int, float, complex, bool, type(None), str, bytes, bytearray, range, slice)
_NOT_FOLLOWED = (
    *(types.ModuleType, type, types.BuiltinFunctionType, types.FrameType, types.CodeType, types.TracebackType),
    *(types.GeneratorType, types.CoroutineType, types.MethodDescriptorType, types.WrapperDescriptorType),
)
_KERNEL = frozenset({"IPython", "ipykernel", "zmq", "tornado", "traitlets", "jupyter_client", "asyncio", "memray"})
"""Packages that reach everything in the kernel, and so everything that other names hold."""


def named_parts(shell: Any) -> list[dict[str, Any]]:
    """Return what the lecture's names keep alive, then the output history, then figures; each buffer once."""
    space = shell.user_ns
    sizer = Sizer((space, space.get("_oh"), space.get("_ih")))
    hidden, parts = getattr(shell, "user_ns_hidden", {}), []
    for name, value in list(space.items()):
        is_own = not isinstance(name, str) or _OWN_NAME.fullmatch(name) is not None
        if not is_own and not (name in hidden and hidden[name] is value):
            parts += sizer.parts(name, value)
    history = space.get("_oh")
    if isinstance(history, dict):
        for number, value in list(history.items()):
            parts += sizer.parts(f"Out[{number}]", value, "output history")
    gcf = getattr(sys.modules.get("matplotlib._pylab_helpers"), "Gcf", None)
    figures = list(getattr(gcf, "figs", {}).values())
    if figures:
        found = sizer.measure(figures)
        size = found["object"] + found["array"]
        parts.append(
            memory_part("figures not closed", size, f"{len(figures)} figures of matplotlib", is_estimated=True)
        )
    return [part for part in parts if part["size_bytes"] > 0]


class Sizer:
    """
    Sums what objects hold; each object and each buffer is counted once, for the first name that reaches it.

    Args:
        besides: objects that are not counted and not followed.
    """

    def __init__(self, besides: Any = ()) -> None:
        """Have counted nothing yet."""
        self.seen: set[int] = {id(item) for item in besides}
        self.buffers: set[Any] = set()
        self.left = MOST_OBJECTS
        self.deadline = time.monotonic() + MOST_SECONDS
        self.is_estimated = False

    def parts(self, name: str, value: Any, kind: str = "") -> list[dict[str, Any]]:
        """Return what a name holds by kind."""
        if isinstance(value, _NOT_FOLLOWED):
            return []
        found = self.measure(value)
        if kind:
            found = {kind: found["array"] + found["object"], "array on a device": found["array on a device"]}
        elif found["array"] >= found["object"]:
            # The list around arrays is small beside them.
            found["array"], found["object"] = found["array"] + found["object"], 0
        else:
            found["object"], found["array"] = found["array"] + found["object"], 0
        about = {"type_name": type_name(type(value)), "is_estimated": self.is_estimated}
        return [memory_part(which, size, name, **about) for which, size in found.items() if size]

    def measure(self, value: Any) -> dict[str, int]:
        """Return bytes by kind of what is reached from a value."""
        sizes = {"array": 0.0, "object": 0.0, "array on a device": 0.0}
        self.is_estimated = False
        stack, count = [(value, 1.0)], 0
        while stack:
            item, scale = stack.pop()
            if id(item) in self.seen:
                continue
            count += 1
            if count > MOST_PER_NAME or self.left <= 0 or time.monotonic() > self.deadline:
                self.is_estimated = True
                break
            self.left -= 1
            self.seen.add(id(item))
            if (buffer := buffer_of(item)) is not None:
                key, kind, size = buffer
                if key not in self.buffers:
                    self.buffers.add(key)
                    sizes[kind] += scale * size
                if kind != "array" or type(item).__module__ != "numpy":
                    continue
                stack += [(other, scale) for other in _elements_of_array(item)]
                continue
            sizes["object"] += scale * shallow_size(item)
            stack += self._below(item, scale)
        return {kind: round(size) for kind, size in sizes.items()}

    def _below(self, item: Any, scale: float) -> list[tuple[Any, float]]:
        if isinstance(item, (*_LEAVES, *_NOT_FOLLOWED)):
            return []
        if isinstance(item, types.FunctionType):
            return [(cell, scale) for cell in item.__closure__ or ()]
        if type(item) in {list, tuple, set, frozenset, dict} and len(item) > 2 * SAMPLE:
            self.is_estimated = True
            elements = itertools.islice(item.values() if type(item) is dict else item, None)
            step = max(1, len(item) // SAMPLE) if type(item) in {list, tuple} else 1
            sample = item[::step] if step > 1 else list(itertools.islice(elements, SAMPLE))
            more = scale * len(item) / len(sample)
            return [(element, more) for element in {id(element): element for element in sample}.values()]
        return [
            (other, scale)
            for other in gc.get_referents(item)
            if not isinstance(other, _NOT_FOLLOWED) and not _is_namespace(other) and not _is_of_kernel(other)
        ]


def _is_namespace(item: Any) -> bool:
    """Return True for a module's names, which an object reaches through its functions."""
    return type(item) is dict and "__builtins__" in item


def _is_of_kernel(item: Any) -> bool:
    module = type.__dict__["__module__"].__get__(type(item))
    return isinstance(module, str) and module.partition(".")[0] in _KERNEL


def shallow_size(item: Any) -> int:
    """Return the size of an object alone; a size that a class of the lecture computes is not asked for."""
    for cls in type(item).__mro__:
        found = cls.__dict__.get("__sizeof__")
        if found is not None:
            is_python = isinstance(found, types.FunctionType)
            with contextlib.suppress(Exception):
                return int(object.__sizeof__(item) if is_python else found(item))
            return 0
    return 0


def _elements_of_array(item: Any) -> list[Any]:
    dtype = getattr(sys.modules.get("numpy"), "ndarray").dtype.__get__(item)  # noqa: B009 - typed as a module
    return list(itertools.islice(item.flat, SAMPLE)) if dtype.hasobject else []


# -- buffers ----------------------------------------------------------------------------------------------------------


def buffer_of(item: Any) -> tuple[Any, str, int] | None:
    """Return identity, kind and size of the buffer behind an array, or ``None`` for anything else."""
    cls = type(item)
    root = getattr(cls, "__module__", "")
    root = root.partition(".")[0] if isinstance(root, str) else ""
    with contextlib.suppress(Exception):
        numpy = sys.modules.get("numpy")
        if numpy is not None and issubclass(cls, numpy.ndarray):
            return _numpy_buffer(numpy.ndarray, item)
        if root in {"jaxlib", "jax"} and cls.__name__ == "ArrayImpl":
            return _jax_buffer(item)
        torch = sys.modules.get("torch")
        if torch is not None and issubclass(cls, torch.Tensor):
            storage = item.untyped_storage()
            kind = "array" if item.device.type == "cpu" else "array on a device"
            return (item.device.type, storage.data_ptr()), kind, int(storage.nbytes())
        if root == "cupy" and cls.__name__ == "ndarray":
            memory = item.data.mem
            return ("cupy", memory.ptr), "array on a device", int(memory.size)
    return None


def _numpy_buffer(ndarray: Any, item: Any) -> tuple[Any, str, int] | None:
    # The descriptors of ndarray itself: a subclass of the lecture may have its own.
    owner = item
    while isinstance(base := ndarray.base.__get__(owner), ndarray):
        owner = base
    if base is not None:
        if type(base).__module__ == "mmap":
            return ("mapped", id(base)), "array", 0
        if (other := buffer_of(base)) is not None:
            return other
        if isinstance(base, memoryview):
            # Memory of another object: its own name counts it, unless it is shared memory.
            return ("view", id(base.obj)), "array", 0 if type(base.obj).__module__ == "mmap" else base.nbytes
    address = ndarray.ctypes.__get__(owner).data
    return ("cpu", address), "array", int(ndarray.nbytes.__get__(owner))


def _jax_buffer(item: Any) -> tuple[Any, str, int] | None:
    if item.is_deleted():
        return ("jax", id(item)), "array", 0
    platforms = {device.platform for device in item.devices()}
    kind = "array" if platforms == {"cpu"} else "array on a device"
    key: Any = ("jax", id(item))
    with contextlib.suppress(Exception):
        key = ("cpu" if kind == "array" else "jax", item.unsafe_buffer_pointer())
    return key, kind, sum(int(shard.data.nbytes) for shard in item.addressable_shards)


def type_name(cls: type) -> str:
    """Return a class with its module; read past a metaclass of the lecture."""
    try:
        module = type.__dict__["__module__"].__get__(cls)
        name = type.__dict__["__qualname__"].__get__(cls)
    except Exception:  # noqa: BLE001 - a class made in C may have no module
        return "?"
    whole = name if module in {"builtins", "__main__"} else f"{module}.{name}"
    return str(whole)[:TEXT_CHARS]
