"""Put the agent's payload into replies, and note the requests whose reply was lost."""

from __future__ import annotations

import contextlib
import json
from typing import Any


def attach_payload(kernel: Any, key: str, make_payload: Any) -> None:
    """
    Add the agent's payload to the metadata of each reply.

    Args:
        kernel: ipykernel's kernel.
        key: the payload's key.
        make_payload: called with the content of a reply.
    """
    original = kernel.finish_metadata

    def finish_metadata(parent: Any, metadata: Any, reply_content: Any) -> Any:
        metadata = original(parent, metadata, reply_content)
        # The agent must never be the reason why a lecture fails.
        try:
            metadata[key] = _encodable(make_payload(reply_content))
        except Exception as exc:  # noqa: BLE001
            metadata[key] = {"agent_error": ascii(exc)}
        return metadata

    kernel.finish_metadata = finish_metadata


def _encodable(value: Any) -> Any:
    """Escape half surrogate pairs, with which ipykernel cannot encode the whole reply."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    return value


def note_lost_replies(kernel: Any, path: str) -> None:
    """
    Write the error with which a request ended before its reply was sent.

    ipykernel logs such an error and goes on to the next request, so that the session would wait for the reply until
    the cell's time limit.

    Args:
        kernel: ipykernel's kernel.
        path: the file to write.
    """
    original = kernel.shell_handlers.get("execute_request")
    if original is None:
        return

    async def execute_request(stream: Any, ident: Any, parent: Any) -> None:
        try:
            result = original(stream, ident, parent)
            if hasattr(result, "__await__"):
                await result
        except BaseException as exc:
            _note(path, parent, exc)
            raise

    kernel.shell_handlers["execute_request"] = execute_request


def _note(path: str, parent: Any, exc: BaseException) -> None:
    with contextlib.suppress(Exception):
        note = {"msg_id": parent["header"]["msg_id"], "error": f"{type(exc).__name__}: {exc}"[:1000]}
        with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - the agent imports no more than it needs
            json.dump(note, file)
