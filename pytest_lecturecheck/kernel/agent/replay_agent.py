"""
Save what one cell reads, inside the kernel, in a silent request before the cell.

Standard library only; NumPy, SciPy, pandas and JAX are looked up in ``sys.modules`` and never imported. ``cloudpickle``
is imported if it is there. The result is written to a small file: a silent request has no output.
"""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import os
import pickle
import shutil
import sys
import time
import types
from typing import Any

from pytest_lecturecheck.kernel.agent.replay_arrays import array_kind, size_of_array, write_array
from pytest_lecturecheck.kernel.agent.replay_names import MOST_ITEMS, names_read

STATE_FILE = "state.json"
PICKLE_FILE = "state.pkl"
SCHEMA = 1
NO_CLOUDPICKLE = "it is defined in the notebook, and cloudpickle is not installed in the kernel's environment"
_MOST_INTEGER = 2**63
_MOST_TEXT = 10_000
_REASON_CHARS = 200


def capture(answer: str, shell: Any, source: str, folder: str, limit_bytes: int) -> None:
    """
    Save the names that a cell reads.

    Args:
        answer: file for the result.
        shell: IPython's shell.
        source: the cell.
        folder: existing empty folder for the data; local modules are copied beside it.
        limit_bytes: most bytes to write.
    """
    began, before = time.perf_counter(), _resident_bytes()
    try:
        state = StateSaver(shell.user_ns, folder, limit_bytes).save(names_read(shell, source))
        after = _resident_bytes()
        change = None if before is None or after is None else after - before
        result = {**state, "seconds": time.perf_counter() - began, "memory_change_bytes": change}
    except Exception as exc:  # noqa: BLE001 - whatever happens, the cell still has to run
        result = {"error": _reason(exc)}
    with open(answer, "w", encoding="ascii") as file:  # noqa: PTH123 - the agent imports no more than it needs
        json.dump(result, file)


def _resident_bytes() -> int | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - as above
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except (OSError, ValueError):
        return None


class StateSaver:
    """
    Writes values to a folder, each in the plainest format that holds it.

    Args:
        namespace: the notebook's namespace.
        folder: the folder.
        limit_bytes: most bytes to write.
    """

    def __init__(self, namespace: Any, folder: str, limit_bytes: int) -> None:
        """Write nothing yet."""
        self.namespace = namespace
        self.folder = folder
        self.left = limit_bytes
        self.values: dict[str, Any] = {}
        self.modules: dict[str, str] = {}
        self.arrays: list[dict[str, Any]] = []
        self.array_names: dict[int, str] = {}
        self.missing: dict[str, str] = {}
        self.globals_mark: dict[str, Any] = {"__name__": "__main__"}
        self.cloudpickle = _cloudpickle()

    def save(self, names: list[str]) -> dict[str, Any]:
        """Write the values of names; return what was written, and what could not be, with the reason."""
        others = [name for name in names if not self._save_plainly(name, self.namespace[name])]
        pickled = self._save_pickled(others)
        jax = sys.modules.get("jax")
        state = {
            "schema": SCHEMA,
            "python": ".".join(map(str, sys.version_info[:3])),
            "values": self.values,
            "modules": self.modules,
            "arrays": self.arrays,
            "pickled": pickled,
            "missing": self.missing,
            "local_modules": self._copy_local_modules(),
            "jax_x64": bool(getattr(getattr(jax, "config", None), "jax_enable_x64", False)),
        }
        path = os.path.join(self.folder, STATE_FILE)  # noqa: PTH118 - as above
        with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - as above
            json.dump(state, file, indent=1)
        return {**state, "names": names, "has_cloudpickle": self.cloudpickle is not None}

    def _save_plainly(self, name: str, value: Any) -> bool:
        """Save a value without pickle; return False if it needs one."""
        if isinstance(value, types.ModuleType):
            self.modules[name] = value.__name__
        elif _is_json(value):
            self.values[name] = value
        elif id(value) in self.array_names:
            self.arrays.append({"name": name, "same_as": self.array_names[id(value)]})
        elif kind := array_kind(value):
            self._save_array(name, kind, value)
        else:
            return False
        return True

    def _save_array(self, name: str, kind: str, value: Any) -> None:
        size = size_of_array(kind, value)
        if size > self.left:
            self.missing[name] = f"it has {size:,} bytes, and {self.left:,} bytes of the limit are left"
            return
        number = len(self.arrays) + 1
        file = f"array-{number:03}.{'npy' if kind in {'numpy', 'jax'} else 'npz'}"
        path = os.path.join(self.folder, file)  # noqa: PTH118 - as above
        try:
            more = write_array(kind, value, path)
        except Exception as exc:  # noqa: BLE001 - it is named
            self.missing[name] = _reason(exc)
            return
        written = os.path.getsize(path)  # noqa: PTH202 - as above
        self.left -= written
        self.array_names[id(value)] = name
        self.arrays.append({"name": name, "kind": kind, "file": file, "bytes": written, **more})

    # -- pickles ------------------------------------------------------------------------------------------------------

    def _save_pickled(self, names: list[str]) -> dict[str, int]:
        """Save values in one pickle, so that what they share stays shared; return the names with their bytes."""
        sizes, faults = {}, {}
        for name in names:
            try:
                sizes[name] = self._pickle({name: self.namespace[name]}, {})
            except Exception as exc:  # noqa: BLE001 - it is named
                faults[name] = _reason(exc)
        sizes.update(self._without_each_other(faults))
        self.missing.update(faults)
        while sizes:
            lost = self._lost(faults)
            path = os.path.join(self.folder, PICKLE_FILE)  # noqa: PTH118 - as above
            try:
                with open(path, "wb") as file:  # noqa: PTH123 - as above
                    self._pickle({name: self.namespace[name] for name in sizes}, lost, file)
            except Exception as exc:  # noqa: BLE001 - it is named
                # Each could be saved, and all of them together are too large: the largest one is left out.
                largest = max(sizes, key=lambda name: sizes[name])
                self.missing[largest] = faults[largest] = _reason(exc)
                del sizes[largest]
                os.unlink(path)  # noqa: PTH108 - as above
            else:
                break
        return sizes

    def _without_each_other(self, faults: dict[str, str]) -> dict[str, int]:
        """Save functions that only fail because of another name that cannot be saved; remove these from ``faults``."""
        sizes = {}
        for name in list(faults):
            others = {other: why for other, why in faults.items() if other != name}
            try:
                sizes[name] = self._pickle({name: self.namespace[name]}, self._lost(others))
            except Exception as exc:  # noqa: BLE001 - it is named
                faults[name] = _reason(exc)
        for name in sizes:
            del faults[name]
        return sizes

    def _lost(self, faults: dict[str, str]) -> dict[int, str]:
        return {id(self.namespace[name]): name for name in (*faults, *self.missing)}

    def _pickle(self, values: dict[str, Any], lost: dict[int, str], file: Any = None) -> int:
        sink = _BoundedSink(self.left, file)
        pickler = _pickler_class(self.cloudpickle)(sink, protocol=5)
        pickler.known = {
            **{key: ("missing", name) for key, name in lost.items()},
            **{key: ("array", name) for key, name in self.array_names.items()},
            id(self.globals_mark): ("globals", ""),
        }
        if self.cloudpickle is not None:
            # Functions of the notebook share its namespace in the replay as well.
            pickler.globals_ref[id(self.namespace)] = self.globals_mark
        pickler.dump(values)
        return sink.count

    def _copy_local_modules(self) -> list[str]:
        """Copy the modules that lie below the working folder; return their paths."""
        here, copied = os.path.realpath(os.getcwd()), []  # noqa: PTH109 - as above
        target = os.path.dirname(self.folder)  # noqa: PTH120 - as above
        for module in list(sys.modules.values()):
            path = getattr(module, "__file__", None)
            if not isinstance(path, str) or not path.endswith(".py") or "site-packages" in path:
                continue
            relative = os.path.relpath(os.path.realpath(path), here)
            if relative.startswith("..") or os.path.isabs(relative) or path.startswith(sys.prefix):  # noqa: PTH117
                continue
            with contextlib.suppress(OSError):
                os.makedirs(os.path.join(target, os.path.dirname(relative)), exist_ok=True)  # noqa: PTH103, PTH118, PTH120
                shutil.copyfile(path, os.path.join(target, relative))  # noqa: PTH118
                copied.append(relative.replace(os.sep, "/"))
            if len(copied) >= MOST_ITEMS:
                break
        return sorted(copied)


class _BoundedSink:
    """A file for a pickle that ends at a limit; without a file it only counts."""

    def __init__(self, limit: int, file: Any) -> None:
        self.limit, self.file, self.count = limit, file, 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.count += size
        if self.count > self.limit:
            msg = f"it has more than {self.limit:,} bytes, which are left of the limit"
            raise ValueError(msg)
        if self.file is not None:
            self.file.write(data)
        return size


def _pickler_class(cloudpickle: Any) -> Any:
    base: Any = pickle.Pickler if cloudpickle is None else cloudpickle.Pickler

    class StatePickler(base):  # type: ignore[misc] # the base is chosen here
        """Pickles what the notebook defines, with references to what is saved in another way."""

        known: dict[int, tuple[str, str]]

        def persistent_id(self, value: Any) -> Any:
            return self.known.get(id(value))

        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, io.IOBase) and not isinstance(value, io.BytesIO | io.StringIO):
                # cloudpickle would read a file to its end and put its content in the place of the file.
                msg = "it is an open file"
                raise pickle.PicklingError(msg)
            if cloudpickle is not None:
                return super().reducer_override(value)
            if isinstance(value, type | types.FunctionType) and value.__module__ == "__main__":
                raise pickle.PicklingError(NO_CLOUDPICKLE)
            return NotImplemented

    return StatePickler


def _cloudpickle() -> Any:
    try:
        import cloudpickle  # noqa: PLC0415 - an optional package
    except ImportError:
        return None
    return cloudpickle


def _is_json(value: Any) -> bool:
    if value is None or type(value) in (bool, float):
        return True
    if type(value) is int:
        return abs(value) < _MOST_INTEGER
    return type(value) is str and len(value) <= _MOST_TEXT


def _reason(exc: BaseException) -> str:
    text = str(exc) or type(exc).__name__
    return ascii(text)[1:-1][:_REASON_CHARS]
