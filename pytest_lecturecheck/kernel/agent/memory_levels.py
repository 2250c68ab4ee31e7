"""
Take the level of the kernel's memory by kind, in a silent request after a cell.

Standard library only. No code of the lecture runs: sizes come from C types, attributes of lecture classes are not
read. Names, classes and sizes are reported, never values. The number of objects that are looked at is bounded.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import json
import os
import re
import sys
import time
import types
from typing import Any

MOST_OBJECTS = 50_000
"""Objects that are looked at after each cell."""
MOST_PER_NAME = 10_000
MOST_SECONDS = 0.5
MOST_PARTS = 20
LEAST_BYTES = 64 << 10
"""A smaller part is not worth its line."""
MOST_TYPES = 8
SAMPLE = 1_000
"""Elements that are looked at in a container with more than twice as many."""
TEXT_CHARS = 120

_OWN_NAME = re.compile(r"_+|_i+|_i?[0-9]+|_dh|_oh|_ih|In|Out|exit|quit|get_ipython|open")
_LEAVES = (int, float, complex, bool, type(None), str, bytes, bytearray, range, slice)
_NOT_FOLLOWED = (
    *(types.ModuleType, type, types.BuiltinFunctionType, types.FrameType, types.CodeType, types.TracebackType),
    *(types.GeneratorType, types.CoroutineType, types.MethodDescriptorType, types.WrapperDescriptorType),
)
_KERNEL = frozenset({"IPython", "ipykernel", "zmq", "tornado", "traitlets", "jupyter_client", "asyncio", "memray"})
"""Packages that reach everything in the kernel, and so everything that other names hold."""
_SHARED = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero")  # noqa: S108 - names of mappings, not files that are written


class Levels:
    """
    The levels of one kernel, each compared with the one before.

    Args:
        shell: IPython's shell.
    """

    def __init__(self, shell: Any) -> None:
        """Know no level yet."""
        self.shell = shell
        self.sizes: dict[tuple[str, str], int] = {}
        self.types: dict[str, int] = {}
        self.resident: int | None = None

    def take(self, *, types: bool = True) -> dict[str, Any]:
        """Return the level now; ``types`` counts the objects of each class, which takes a list of all objects."""
        resident = resident_bytes()
        parts = [*named_parts(self.shell), *mapped_parts()]
        in_use, kept = allocator_bytes()
        if kept:
            parts.append(_part("kept by the allocator", kept))
        level = {
            "level_bytes": resident,
            "stayed_bytes": None if resident is None or self.resident is None else resident - self.resident,
            "allocated_bytes": in_use,
            "parts": self._largest(parts),
            "types": self._grown_types() if types else [],
        }
        # What this costs itself is not the next cell's.
        self.resident = resident_bytes()
        return level

    def _largest(self, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        sizes: dict[tuple[str, str], int] = {}
        for part in parts:
            key = part["kind"], part["name"]
            part["grown_bytes"] = part["size_bytes"] - self.sizes.get(key, 0)
            sizes[key] = sizes.get(key, 0) + part["size_bytes"]
        self.sizes = sizes
        parts = [part for part in parts if max(part["size_bytes"], abs(part["grown_bytes"])) >= LEAST_BYTES]
        parts.sort(key=lambda part: (-max(part["grown_bytes"], 0), -part["size_bytes"]))
        shown = parts[:MOST_PARTS]
        return sorted(shown, key=lambda part: -part["size_bytes"])

    def _grown_types(self) -> list[dict[str, Any]]:
        counts: dict[type, int] = {}
        for found in map(type, gc.get_objects()):
            counts[found] = counts.get(found, 0) + 1
        named: dict[str, int] = {}
        for cls, count in counts.items():
            name = type_name(cls)
            named[name] = named.get(name, 0) + count
        before, self.types = self.types, named
        if not before:
            return []
        grown = [(count - before.get(name, 0), name, count) for name, count in named.items()]
        grown.sort(reverse=True)
        return [
            {"name": name, "count": count, "grown_count": more} for more, name, count in grown[:MOST_TYPES] if more > 0
        ]


def answer(
    path: str, shell: Any, state: dict[str, Any], *, trims: bool = False, clears: bool = False, alone: bool = False
) -> None:
    """
    Take a level and write it into a new file.

    Args:
        path: the file.
        shell: IPython's shell.
        state: keeps the levels between calls.
        trims: collect garbage and return free memory to the system first.
        clears: let JAX drop its compiled programs before that.
        alone: compare with no other level, and do not count the objects of each class.
    """
    try:
        if clears:
            clear_compiled()
        if trims:
            trim()
        levels = Levels(shell) if alone or "levels" not in state else state["levels"]
        if not alone:
            state["levels"] = levels
        found = {"state": "taken", "text": "", "level": levels.take(types=not alone)}
    except Exception as exc:  # noqa: BLE001 - a level must never be the reason why a lecture fails
        found = {"state": "error", "text": f"{type(exc).__name__}: {exc}"[:500]}
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(json.dumps(found))


def trim() -> None:
    """Collect garbage and return free memory to the system."""
    gc.collect()
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).malloc_trim(0)


def clear_compiled() -> None:
    """Let JAX drop its compiled programs, where it is loaded."""
    with contextlib.suppress(Exception):
        sys.modules["jax"].clear_caches()


def type_name(cls: type) -> str:
    """Return a class with its module; read past a metaclass of the lecture."""
    try:
        module = type.__dict__["__module__"].__get__(cls)
        name = type.__dict__["__qualname__"].__get__(cls)
    except Exception:  # noqa: BLE001 - a class made in C may have no module
        return "?"
    whole = name if module in {"builtins", "__main__"} else f"{module}.{name}"
    return str(whole)[:TEXT_CHARS]


# -- names of the lecture ---------------------------------------------------------------------------------------------


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
        parts.append(_part("figures not closed", size, f"{len(figures)} figures of matplotlib", is_estimated=True))
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
        return [_part(which, size, name, **about) for which, size in found.items() if size]

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


def _part(kind: str, size: int, name: str = "", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "size_bytes": int(size), "name": str(name)[:TEXT_CHARS], **more}


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


# -- the process ------------------------------------------------------------------------------------------------------


def resident_bytes() -> int | None:
    """Return resident memory of this process (Linux)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - no import more than needed
            pages = int(file.read().split()[1])
        # Windows has no sysconf; there is no statm either, so that this line is not reached.
        page_bytes: int = getattr(os, "sysconf")("SC_PAGE_SIZE")  # noqa: B009 - its type exists on POSIX only
        return pages * page_bytes
    except (OSError, ValueError, IndexError):
        return None


def mapped_parts() -> list[dict[str, Any]]:
    """Return resident memory of mapped files, shared memory and stacks (Linux ``smaps``, see proc(5))."""
    try:
        with open("/proc/self/smaps", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
            return parse_smaps(file, stack_pointers())
    except OSError:
        return []


def parse_smaps(lines: Any, stacks: Any) -> list[dict[str, Any]]:
    """
    Sum resident memory of mappings by kind.

    Args:
        lines: lines of ``smaps``.
        stacks: addresses, each on the stack of one thread.
    """
    files: dict[str, int] = {}
    shared: dict[str, int] = {}
    libraries: set[str] = set()
    stack_bytes = stack_count = 0
    path, is_stack = "", False
    for line in lines:
        head, _, rest = line.partition(" ")
        if "-" in head and not head.endswith(":"):
            fields = rest.split(None, 4)
            path = fields[4].strip() if len(fields) > 4 else ""  # noqa: PLR2004 - perms offset device inode path
            begin, _, end = head.partition("-")
            low, high = int(begin, 16), int(end, 16)
            found = sum(low <= stack < high for stack in stacks)
            is_stack, stack_count = bool(found), stack_count + found
            if "x" in fields[0]:
                libraries.add(path)
        elif head == "Rss:":
            size = int(rest.split()[0]) * 1024
            if path.startswith(_SHARED):
                shared[path] = shared.get(path, 0) + size
            elif path.startswith("/"):
                files[path] = files.get(path, 0) + size
            elif is_stack:
                stack_bytes += size
    parts = [_part("mapped file", size, _file_name(path)) for path, size in files.items() if path not in libraries]
    parts += [_part("shared memory", size, _file_name(path)) for path, size in shared.items()]
    if stack_bytes:
        parts.append(_part("stacks of threads", stack_bytes, f"{stack_count} threads"))
    return [part for part in parts if part["size_bytes"]]


def _file_name(path: str) -> str:
    return path.removesuffix(" (deleted)").rpartition("/")[2]


def stack_pointers() -> list[int]:
    """Return an address on the stack of each thread that waits (``/proc/self/task/*/syscall``); the others unknown."""
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):  # noqa: PTH208 - no import more than needed
            path = f"/proc/self/task/{task}/syscall"
            with contextlib.suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:  # noqa: PTH123 - as above
                found.append(int(file.read().split()[-2], 16))
    return found


class _Mallinfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "top",
        )
    )


def allocator_bytes() -> tuple[int | None, int | None]:
    """Return what the C library's allocator has handed out, and what it keeps free (glibc 2.33 ``mallinfo2``)."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError, TypeError):
        return None, None
    mallinfo2.restype = _Mallinfo2
    found = mallinfo2()
    return int(found.uordblks + found.hblkhd), int(found.fordblks)
