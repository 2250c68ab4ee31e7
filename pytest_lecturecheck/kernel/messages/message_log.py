"""Keep the output messages of cells as the kernel sent them, as mystmd's own executor does."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

_KEPT: Final = frozenset({"stream", "execute_result", "error", "display_data"})


class MessageLog:
    """
    The messages of each cell, by the cell's index in the notebook.

    The rules are those of mystmd 1.8 (``executeCodeCell``): ``clear_output`` is ignored, and an update replaces the
    displays of its id within the same cell.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._cells: dict[int, list[dict[str, Any]]] = {}

    def begin(self, index: int) -> None:
        """Start the messages of a cell anew."""
        self._cells[index] = []

    def of_cell(self, index: int) -> list[dict[str, Any]]:
        """Return the messages of a cell; none if it was not run."""
        return self._cells.get(index, [])

    def add(self, index: int, kind: str, content: Mapping[str, Any]) -> None:
        """Add a message of a cell."""
        messages = self._cells.setdefault(index, [])
        if kind == "update_display_data":
            _update(messages, content)
        elif kind == "stream" and messages and _is_stream(messages[-1], content.get("name")):
            # How a kernel cuts its text into messages depends on time alone.
            messages[-1]["text"] += str(content.get("text", ""))
        elif kind in _KEPT:
            messages.append({"output_type": kind, **copy.deepcopy(dict(content))})


def _is_stream(message: Mapping[str, Any], name: object) -> bool:
    return message["output_type"] == "stream" and message.get("name") == name


def _update(messages: list[dict[str, Any]], content: Mapping[str, Any]) -> None:
    display_id = _display_id(content)
    if display_id is None:
        return
    for message in messages:
        if _display_id(message) == display_id:
            message["data"], message["metadata"] = content.get("data", {}), content.get("metadata", {})


def _display_id(content: Mapping[str, Any]) -> object:
    transient = content.get("transient")
    return transient.get("display_id") if isinstance(transient, dict) else None
