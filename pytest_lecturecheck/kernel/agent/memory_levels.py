"""
Take the level of the kernel's memory by kind, in a silent request after a cell.

Standard library only. Names, classes and sizes are reported, never values.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import sys
from typing import Any

from pytest_lecturecheck.kernel.agent.held_memory import named_parts, type_name
from pytest_lecturecheck.kernel.agent.process_memory import allocator_bytes, mapped_parts, memory_part, resident_bytes

MOST_PARTS = 20
LEAST_BYTES = 64 << 10
"""A smaller part is not worth its line."""
MOST_TYPES = 8
_COUNTED = ("stacks of threads", "figures not closed")


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
            parts.append(memory_part("kept by the allocator", kept))
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
        merged: dict[tuple[str, str], dict[str, Any]] = {}
        for part in parts:
            # Names that state a number ("3 threads") change with it, and files of several folders share a name.
            key = part["kind"], "" if part["kind"] in _COUNTED else part["name"]
            first = merged.setdefault(key, part)
            if first is not part:
                first["size_bytes"] += part["size_bytes"]
        for key, part in merged.items():
            part["grown_bytes"] = part["size_bytes"] - self.sizes.get(key, 0)
        self.sizes = {key: part["size_bytes"] for key, part in merged.items()}
        parts = [part for part in merged.values() if max(part["size_bytes"], abs(part["grown_bytes"])) >= LEAST_BYTES]
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
