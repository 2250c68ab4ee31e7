"""
List the arrays of JAX that are alive after an out-of-memory error, by shape, with the names that hold them.

Standard library only; JAX is looked up in ``sys.modules``. Names and shapes are listed, no values.
"""

from __future__ import annotations

import sys
from typing import Any

WORDS = ("RESOURCE_EXHAUSTED", "Resource exhausted", "Out of memory", "out of memory")
"""What JAX writes when memory runs out."""
_MOST_GROUPS = 12
_MOST_NAMES = 5
_MOST_ARRAYS = 20_000
_MOST_ELEMENTS = 1000
_MOST_FRAMES = 50
_NAME_CHARS = 60


def of_failure(shell: Any, reply: Any) -> list[dict[str, Any]]:
    """
    Return the largest groups of arrays, or nothing if the error was another one.

    Args:
        shell: IPython's shell.
        reply: content of the reply, with the error.
    """
    jax = sys.modules.get("jax")
    text = f"{reply.get('ename')}: {reply.get('evalue')}"
    if jax is None or not any(word in text for word in WORDS):
        return []
    names = _names(shell)
    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    for array in jax.live_arrays()[:_MOST_ARRAYS]:
        if array.is_deleted():
            continue
        devices = ", ".join(sorted(str(device) for device in array.devices()))
        shape = "x".join(str(length) for length in array.shape)
        group = groups.setdefault(
            (shape, str(array.dtype), devices),
            {
                "shape": shape,
                "dtype": str(array.dtype),
                "device": devices[:_NAME_CHARS],
                "count": 0,
                "size_bytes": 0,
                "names": [],
            },
        )
        group["count"] += 1
        group["size_bytes"] += array.nbytes
        name = names.get(id(array))
        if name and name not in group["names"] and len(group["names"]) < _MOST_NAMES:
            group["names"].append(name)
    return sorted(groups.values(), key=lambda group: -group["size_bytes"])[:_MOST_GROUPS]


def _names(shell: Any) -> dict[int, str]:
    """Return names by the identity of what they hold: of the lecture, and of the functions that the error ended."""
    found: dict[int, str] = {}
    for name, value in list(shell.user_ns.items()):
        if name.startswith("_") and name not in {"_", "__", "___"}:
            continue
        _add(found, name, value)
    traceback = getattr(sys, "last_traceback", None)
    for _ in range(_MOST_FRAMES):
        if traceback is None:
            break
        frame = traceback.tb_frame
        # The frames of the error have ended: to read their variables changes nothing.
        if frame.f_code.co_name != "<module>" and "-packages" not in frame.f_code.co_filename:
            for name, value in list(frame.f_locals.items()):
                _add(found, f"{name} in {frame.f_code.co_name}", value)
        traceback = traceback.tb_next
    return found


def _add(found: dict[int, str], name: str, value: Any) -> None:
    found.setdefault(id(value), name[:_NAME_CHARS])
    if type(value) is dict:
        parts = list(value.values())[:_MOST_ELEMENTS]
    elif type(value) in (list, tuple):
        parts = list(value[:_MOST_ELEMENTS])
    else:
        return
    for part in parts:
        found.setdefault(id(part), f"{name[:_NAME_CHARS]}[...]")
