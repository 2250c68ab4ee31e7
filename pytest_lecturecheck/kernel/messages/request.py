"""A request to a kernel while it is in progress, and what has arrived of its answer."""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import Any

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.evidence import NoAnswer


@dataclass(slots=True)
class Reply:
    """
    A kernel's answer to one request.

    Attributes:
        status: "ok", "error" or "aborted"; empty while there is no answer.
        content: content of the reply.
        payload: the agent's payload, checked.
        idle_seen: whether the end of the output arrived.
    """

    status: str = ""
    content: dict[str, Any] = field(default_factory=dict)
    payload: dict[str, Any] = field(default_factory=dict)
    idle_seen: bool = False


class Request:
    """
    A request in progress.

    Attributes:
        msg_id: id of the request's message.
        cell: the notebook's cell that takes the outputs, or ``None`` for silent requests.
        index: the cell's position in the notebook.
        reply: what has arrived so far.
        done: resolves once reply and idle status have both arrived.
        contradicted: resolves once a second reply has arrived.
        message_count: output messages so far.
        no_answer: why the kernel will never answer, or ``None``.
    """

    def __init__(self, msg_id: str, cell: Any, index: int) -> None:
        """Create a request without an answer."""
        self.msg_id = msg_id
        self.cell = cell
        self.index = index
        self.reply = Reply()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.contradicted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.message_count = 0
        self.no_answer: NoAnswer | None = None

    def settle(self) -> None:
        """Mark the request as done if reply and idle status have both arrived."""
        if self.reply.status and self.reply.idle_seen and not self.done.done():
            self.done.set_result(None)
