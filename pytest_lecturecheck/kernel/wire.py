"""
Read messages off the wire.

What jupyter_client's ``Session.deserialize`` does, without turning the dates of every header into objects and without
remembering signatures: nobody here asks for dates, and the sockets lie in a private folder or on this host. That was
half of what a message costs, and a lecture waits for it after each cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from hmac import compare_digest
from typing import Any, Final

from jupyter_client.adapter import adapt

_PARTS: Final = 5
"""Signature, header, parent's header, metadata, content; buffers follow."""


async def receive(socket: Any, session: Any) -> dict[str, Any] | None:
    """Read one message; ``None`` for one that is not signed with the connection's key or is malformed."""
    parts = await socket.recv_multipart()
    try:
        _, message = session.feed_identities(parts)
        return _unpack(message, session)
    except (ValueError, TypeError, KeyError):
        return None


def _unpack(parts: Sequence[bytes], session: Any) -> dict[str, Any] | None:
    if len(parts) < _PARTS or (session.auth is not None and not compare_digest(parts[0], session.sign(parts[1:5]))):
        return None
    header, parent, metadata, content = (session.unpack(part) for part in parts[1:_PARTS])
    message: dict[str, Any] = adapt(
        {
            "header": header,
            "msg_id": header["msg_id"],
            "msg_type": header["msg_type"],
            "parent_header": parent,
            "metadata": metadata,
            "content": content,
            "buffers": [memoryview(part) for part in parts[_PARTS:]],
        }
    )
    return message
