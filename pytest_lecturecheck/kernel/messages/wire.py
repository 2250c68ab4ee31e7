"""
Read messages from the sockets in bounded memory.

This replaces jupyter_client's ``Session.deserialize``, which parses the dates of every header and remembers signatures.
Both were half the cost of a message, and a lecture waits for that cost after each cell. pyzmq's asyncio sockets create
futures for each message, so the sockets are read without them. Replays are no threat: the sockets lie in a private
folder or on this host.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hmac import compare_digest
from typing import Any, Final, TypeAlias

import zmq
from jupyter_client.adapter import adapt

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.process.outputs import SkippedText

Buffer: TypeAlias = bytes | memoryview
_PARTS: Final = 5
"""Signature, header, parent's header, metadata, content; buffers follow."""
_PIECE_BYTES: Final = 1024 * 1024
_AT_ONCE: Final = 32
"""Messages read in one go before other callbacks of the loop run."""
_STREAM_START: Final = re.compile(rb'\{"name": ?"(stdout|stderr)", ?"text": ?"')
_STREAM_END: Final = b'"}'
_BUSY: Final = b'{"execution_state": "busy"}'
_IDLE: Final = b'{"execution_state": "idle"}'
_PROTOCOL: Final = "5."
"""Messages of other versions of the protocol are adapted."""
_ESCAPE_BYTES: Final = 12
"""Length of the longest escape: a surrogate pair."""
_WHOLE_ESCAPES: Final = re.compile(
    rb"""(?: [^\\]++ | \\[^u]
           | \\u (?![dD][89abAB]) [0-9a-fA-F]{4}
           | \\u [dD][89abAB][0-9a-fA-F]{2} \\u [0-9a-fA-F]{4} )*+""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """
    What the user of a mailbox needs, asked for each message.

    Attributes:
        message: called with header and content as they arrived; returns False for what need not be read.
        whole_streams: returns False if of a long text only the number of characters is needed, but for its ends.
    """

    message: Callable[[Buffer, Buffer], bool] = lambda _header, _content: True
    whole_streams: Callable[[], bool] = lambda: True


class Mailbox:
    """
    Reads one socket of a kernel from the running event loop.

    The descriptor of a zmq socket is edge-triggered: it becomes readable once for all messages that have arrived, and
    any use of the socket resets it. So each event reads all messages, and code that sends on the socket must call
    :meth:`look` afterwards.

    Args:
        socket: the socket; only its plain methods may be used elsewhere.
        session: holds the key.
        take: called with each message.
        needs: what its user needs of each message.
    """

    def __init__(
        self,
        socket: Any,
        session: Any,
        take: Callable[[dict[str, Any]], None],
        needs: Needs | None = None,
    ) -> None:
        """Start reading."""
        self._socket: zmq.Socket[bytes] = zmq.Socket.shadow(socket.underlying)
        self._session = session
        self._take = take
        self._needs = needs or Needs()
        self._unsent: deque[Sequence[bytes]] = deque()
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._descriptor = self._socket.fileno()
        self._loop.add_reader(self._descriptor, self._read)
        self.look()

    def look(self) -> None:
        """Schedule a read, because an edge of the descriptor may have been lost."""
        self._loop.call_soon(self._read)

    def send(self, parts: Sequence[bytes]) -> None:
        """Send a message, at once if there is room; never wait for it."""
        try:
            if self._unsent:
                raise zmq.Again  # noqa: TRY301 - messages keep their order
            self._socket.send_multipart(parts, zmq.DONTWAIT)
        except zmq.Again:
            self._unsent.append(parts)
        self.look()

    def close(self) -> None:
        """Stop reading; call this before the socket is closed. Safe to call twice."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._descriptor)

    def _read(self) -> None:
        try:
            for _ in range(_AT_ONCE):
                if self._is_closed:
                    return
                for message in read_message(self._receive(), self._session, self._needs):
                    self._take(message)
        except zmq.Again:
            if self._unsent:
                self._send_waiting()
            return
        except zmq.ZMQError:
            self.close()
            raise
        except Exception:
            # A message that cannot be handled must not stop the reader.
            self.look()
            raise
        self.look()

    def _receive(self) -> list[zmq.Frame]:
        """Return the frames of one message; ``recv_multipart`` asks the socket after each whether there are more."""
        frames = [self._socket.recv(zmq.DONTWAIT, copy=False)]
        while frames[-1].more:
            frames.append(self._socket.recv(zmq.DONTWAIT, copy=False))
        return frames

    def _send_waiting(self) -> None:
        # Reading EVENTS resets the edge; messages that arrive later set it again.
        while True:
            events = int(self._socket.getsockopt(zmq.EVENTS))
            if events & zmq.POLLIN:
                self.look()
                return
            if not self._unsent or not events & zmq.POLLOUT:
                return
            self._socket.send_multipart(self._unsent.popleft(), zmq.DONTWAIT)


def read_message(
    frames: Sequence[zmq.Frame],
    session: Any,
    needs: Needs | None = None,
) -> Iterable[dict[str, Any]]:
    """
    Read one message.

    Args:
        frames: what has arrived.
        session: holds the key.
        needs: what is needed of it; ``None`` for all.

    Returns:
        The message. A long stream, which a kernel may send as one message of hundreds of megabytes, is split into
        shorter ones, whose text may be :class:`SkippedText`. Nothing if the message is malformed, not signed with the
        connection's key, or not needed.
    """
    # Large frames are not copied.
    parts = [frame.buffer if len(frame.buffer) > _PIECE_BYTES else frame.bytes for frame in frames]
    try:
        _, parts = session.feed_identities(parts)
        return _unpack(parts, session, needs or Needs())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()


def _unpack(parts: Sequence[Buffer], session: Any, needs: Needs) -> Iterable[dict[str, Any]]:
    if len(parts) < _PARTS:
        return ()
    content = parts[4]
    if content == _BUSY or not needs.message(parts[1], content):
        return ()
    if session.auth is not None and not compare_digest(parts[0], session.sign(parts[1:5])):
        return ()
    if content == _IDLE:
        return (_idle_status(session.unpack(bytes(parts[2]))),)
    header, parent, metadata = (session.unpack(bytes(part)) for part in parts[1:4])
    message = {
        "header": header,
        "msg_id": header["msg_id"],
        "msg_type": header["msg_type"],
        "parent_header": parent,
        "metadata": metadata,
        "buffers": [memoryview(part) for part in parts[_PARTS:]],
    }
    start = _STREAM_START.match(content) if len(content) > _PIECE_BYTES else None
    if start is None or content[-len(_STREAM_END) :] != _STREAM_END:
        message["content"] = session.unpack(bytes(content))
        return (_checked(message if str(header.get("version")).startswith(_PROTOCOL) else adapt(message)),)
    name, end = start[1].decode(), len(content) - len(_STREAM_END)
    texts = _pieces(content, start.end(), end, keeps_all=needs.whole_streams())
    return ({**message, "content": {"name": name, "text": text}} for text in texts)


def _idle_status(parent: dict[str, Any]) -> dict[str, Any]:
    """Return the message that ends each request; all that differs is whose end it is."""
    message = {"msg_type": "status", "header": {}, "metadata": {}, "buffers": []}
    return _checked({**message, "msg_id": "", "parent_header": parent, "content": {"execution_state": "idle"}})


def _checked(message: dict[str, Any]) -> dict[str, Any]:
    if not all(isinstance(message[part], dict) for part in ("header", "parent_header", "metadata", "content")):
        msg = "a part of the message is no mapping"
        raise TypeError(msg)
    return message


def _pieces(
    content: Buffer, start: int, end: int, piece_bytes: int = _PIECE_BYTES, *, keeps_all: bool = True
) -> Iterator[str]:
    """Decode the inside of a JSON string piece by piece; of those between the first and the last one, maybe none."""
    last_start = end - piece_bytes
    is_first = True
    while start < end:
        # Two pieces are left for what is not a whole number of them, so that the last one is no short one.
        rest = end - start
        length = piece_bytes if rest >= 2 * piece_bytes or keeps_all else (rest + 1) // 2
        stop = end if rest <= piece_bytes else _boundary(content, start, start + length)
        if keeps_all or is_first or stop > last_start:
            # Drop pieces that are signed and yet no JSON.
            with suppress(ValueError):
                yield _decode(content[start:stop])
        else:
            with suppress(ValueError):
                yield SkippedText(_count_chars(bytes(content[start:stop])))
        start, is_first = stop, False


def _decode(piece: Buffer) -> str:
    text: str = json.loads(f'"{str(piece, "utf-8", "replace")}"')
    return text


def _count_chars(piece: bytes) -> int:
    """Return the number of characters of a piece; where each escape is a backslash and one character, count these."""
    if piece.isascii() and b"\\\\" not in piece and b"\\u" not in piece:
        return len(piece) - piece.count(b"\\")
    return len(_decode(piece))


def _boundary(content: Buffer, start: int, end: int) -> int:
    """Return the last position up to ``end`` that splits neither a character nor an escape."""
    while content[end] & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte of UTF-8
        end -= 1
    # After a character that is no backslash, or at the start, it is certain which backslash begins an escape.
    certain = start + len(bytes(content[start : max(start, end - _ESCAPE_BYTES)]).rstrip(b"\\"))
    match = _WHOLE_ESCAPES.match(content, certain, end)
    return match.end() if match is not None and match.end() > start else end
