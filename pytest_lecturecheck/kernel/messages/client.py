"""
Execute cells with nbclient's message handling and our own rules for when a cell has ended.

nbclient decides what a message means for a cell (outputs, display ids, widgets). A cell ends with reply and idle
status, at a time limit, or with the process; nbclient's hooks miss timeouts and deaths.
"""

from __future__ import annotations

import asyncio
import collections
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete

from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.kernel.agent.core import KEY
from pytest_lecturecheck.kernel.messages.agent_reply import clean_payload
from pytest_lecturecheck.kernel.messages.answer_watch import LOOK_SECONDS, AnswerWatch
from pytest_lecturecheck.kernel.messages.execute_requests import ExecuteRequests
from pytest_lecturecheck.kernel.messages.message_log import MessageLog
from pytest_lecturecheck.kernel.messages.reported_values_reader import ReportedValuesReader
from pytest_lecturecheck.kernel.messages.request import Reply, Request
from pytest_lecturecheck.kernel.messages.wire import Buffer, Mailbox, Needs
from pytest_lecturecheck.kernel.process.launch import Kernel
from pytest_lecturecheck.kernel.process.outputs import BoundedText
from pytest_lecturecheck.kernel.process.quiet import HarmlessLog
from pytest_lecturecheck.model.reported_value import MIME_TYPE

_SOCKET_SECONDS: Final = 0.004
_NUDGE_SECONDS: Final = 0.25
"""Wait this long for the iopub status of the first reply before asking again."""
_IDLE_SILENCE_SECONDS: Final = 10.0
"""Silence on iopub between reply and idle status after which the rest of the output is given up."""
_LATE_OUTPUT_SECONDS: Final = 120.0
"""Time after a cell's reply during which its output may continue."""
_CONTRADICTION_SECONDS: Final = 1.0
"""Wait this long for a second reply where the first says "ok" and the output has an error."""
_OUTPUTS: Final = frozenset({"stream", "error", "display_data", "execute_result"})
_REPORTED_TYPE: Final = MIME_TYPE.encode()

_MOST_FAULTS: Final = 20
_STATUS_CHARS: Final = 40
_ERROR_CHARS: Final = 200
_WHOLE_OUTPUT_BYTES: Final = 256 * 1024 * 1024
"""Output kept for one lecture where all of it is asked for; beyond it the lecture enters no book's cache."""

_STRAY_CHARS: Final = 16_384
"""Text kept at each end of the stray output of one cell."""


class LectureClient(NotebookClient):
    """
    The client of one lecture's kernel.

    Args:
        document: the notebook; its cells receive outputs, so hand over a copy.
        kernel: the started kernel.
        keep_outputs: keep every output whole (for a book's cache); otherwise text is bounded, and rich output is not
            even read unless the lecture captures it or reports values in it.

    Attributes:
        keep_outputs: see above; ``False`` again once a lecture has produced too much for that, too.
        messages: the output messages of cells, while ``keep_outputs`` holds.
    """

    def __init__(self, document: Any, kernel: Kernel, *, keep_outputs: bool = False) -> None:
        """Create the channels; :meth:`connect` opens them."""
        super().__init__(document, km=kernel.manager, record_timing=False, store_widget_state=keep_outputs)
        self.log = HarmlessLog()
        if not keep_outputs:
            # nbclient's output widgets write into this mapping, but nbclient creates it only if it stores widget state.
            self.widget_state = collections.defaultdict(dict)
        self.kernel = kernel
        self.keep_outputs = keep_outputs
        self.messages = MessageLog()
        self._kept_bytes = 0
        self.text = BoundedText()
        self.errors: list[Any] = []
        self.reported_values = ReportedValuesReader()
        self._cells_sent: dict[str, int] = {}
        self._stray: dict[int | None, BoundedText] = {}
        self._reply_faults: dict[tuple[int, str], None] = {}
        self._request: Request | None = None
        self._mailboxes: list[Mailbox] = []
        self._requests: ExecuteRequests | None = None
        self._channels: Any = None
        self._language_info: Any = None

    # -- connection ---------------------------------------------------------------------------------------------------

    async def connect(self, timeout_seconds: float) -> None:
        """
        Open the channels and wait until the kernel answers on both of them.

        Raises:
            TimeoutError: the kernel did not answer within ``timeout_seconds``.
            KernelStartError: the kernel ended before it answered.
        """
        self._channels = self.kernel.manager.client()
        async with asyncio.timeout(timeout_seconds if timeout_seconds != float("inf") else None):
            await self._wait_for_sockets()
            await self._open()

    async def _wait_for_sockets(self) -> None:
        """
        Wait until the kernel has bound its ipc sockets.

        zmq retries a connection to an unbound socket in steps that cost a tenth of a kernel's start. The subscription
        may then also miss the end of the first answer.
        """
        if self._channels.transport != "ipc":
            return
        ports = (self._channels.shell_port, self._channels.iopub_port)
        sockets = [Path(f"{self._channels.ip}-{port}") for port in ports]
        while not all(map(Path.exists, sockets)):
            if self.kernel.provisioner.ended.done():
                return
            await asyncio.sleep(_SOCKET_SECONDS)

    async def _open(self) -> None:
        # No heartbeat: the end of the process is noticed sooner.
        self._channels.start_channels(stdin=False, hb=False, control=False)
        session = self._channels.session
        shell = Mailbox(self._channels.shell_channel.socket, session, self._take_reply)
        needs = Needs(message=self._is_needed, whole_streams=self._needs_whole_streams)
        iopub = Mailbox(self._channels.iopub_channel.socket, session, self._take_output, needs)
        self._mailboxes, self._requests = [shell, iopub], ExecuteRequests(session, shell)
        widget_channel: Any = _WidgetChannel(session, shell)
        self.kc = widget_channel
        while True:
            request = self._begin(self._channels.kernel_info(), None, -1)
            while not request.reply.status:
                await self._wait(request.done, _NUDGE_SECONDS)
                if self.kernel.provisioner.ended.done():
                    msg = "the kernel ended before it was ready"
                    raise KernelStartError(msg)
            self._language_info = request.reply.content.get("language_info")
            # The subscription may be younger than the answer; then its idle status is lost and we ask again.
            if await self._wait(request.done, _NUDGE_SECONDS):
                return

    def disconnect(self) -> None:
        """Close the channels; safe to call twice."""
        for mailbox in self._mailboxes:
            mailbox.close()
        self._mailboxes = []
        if self._channels is not None:
            with suppress(OSError):
                self._channels.stop_channels()
            self._channels = self.kc = self._requests = None

    def _take_reply(self, message: dict[str, Any]) -> None:
        request, parent = self._request, message["parent_header"].get("msg_id")
        status = str(message["content"].get("status") or "missing")
        if request is None or parent != request.msg_id:
            fault = f"a reply arrived (status {status[:_STATUS_CHARS]!r}) after the cell had ended"
            self._note_reply_fault(parent, fault)
            return
        if request.reply.status:
            self._note_reply_fault(parent, "more than one reply arrived; a kernel sends one")
            if not request.contradicted.done():
                request.contradicted.set_result(None)
            if status != "error":
                return
        request.reply.content = message["content"]
        request.reply.payload = clean_payload(message.get("metadata", {}).get(KEY))
        request.reply.status = status
        request.settle()

    def _note_reply_fault(self, parent: object, text: str) -> None:
        index = self._cells_sent.get(parent) if isinstance(parent, str) else None
        if index is not None and len(self._reply_faults) < _MOST_FAULTS:
            self._reply_faults[index, text] = None

    def take_reply_faults(self) -> list[tuple[int, str]]:
        """Return and clear what was wrong with replies, by the index of the cell: a lecture can forge them."""
        faults, self._reply_faults = self._reply_faults, {}
        return list(faults)

    def _take_output(self, message: dict[str, Any]) -> None:
        request, parent = self._request, message["parent_header"].get("msg_id")
        if request is None or parent != request.msg_id or (request.cell is None and message["msg_type"] == "stream"):
            self._take_stray(message, parent)
        if request is None or parent != request.msg_id:
            return
        request.message_count += 1
        try:
            if request.cell is None:
                if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                    raise CellExecutionComplete  # noqa: TRY301 - nbclient's own signal for the end of a cell
            else:
                self.reported_values.take(message)
                if self.keep_outputs:
                    self._keep_whole(message, request.index)
                self.process_message(message, request.cell, request.index)
        except CellExecutionComplete:
            request.reply.idle_seen = True
            request.settle()
        except Exception as exc:  # noqa: BLE001 - a malformed message must not stop the reader
            self.log.warning("message of type %r could not be handled: %r", message.get("msg_type"), exc)

    def _is_needed(self, header: Buffer, content: Buffer) -> bool:
        """Return False for inputs, and for rich output that nobody keeps, captures or reads values from."""
        if self.keep_outputs:
            return True
        kind = bytes(header)
        if b'"execute_input"' in kind:
            return False
        is_rich = b'display_data"' in kind or b'"execute_result"' in kind
        if not is_rich or any(self.output_hook_stack.values()) or _REPORTED_TYPE in bytes(content):
            return True
        if self._request is not None:
            self._request.message_count += 1
        return False

    def _needs_whole_streams(self) -> bool:
        return self.keep_outputs or any(self.output_hook_stack.values())

    def _keep_whole(self, message: dict[str, Any], index: int) -> None:
        """Keep an output message, or stop keeping any where the outputs are too many."""
        content = message["content"]
        texts = (content.get("text"), *(content.get("data") or {}).values())
        self._kept_bytes += sum(len(text) for text in texts if isinstance(text, str))
        if self._kept_bytes > _WHOLE_OUTPUT_BYTES:
            self.keep_outputs, self.messages = False, MessageLog()
        else:
            self.messages.add(index, message["msg_type"], content)

    def finish_document(self) -> Any:
        """Return the notebook with outputs, language and widget state, as nbclient's own executor leaves it."""
        self.set_widgets_metadata()
        if self._language_info:
            self.nb.metadata["language_info"] = self._language_info
        return self.nb

    def _take_stray(self, message: dict[str, Any], parent: object) -> None:
        """
        Keep text that belongs to no running cell.

        What an event loop's exception handler prints has an empty parent header. What a thread prints has that of the
        cell that started it, which may have ended.
        """
        if message["msg_type"] == "error" and parent in self._cells_sent:
            error = f"{message['content'].get('ename')}: {message['content'].get('evalue')}"[:_ERROR_CHARS]
            self._note_reply_fault(parent, f"an error arrived after the cell had ended: {error!r}")
        text = message["content"].get("text") if message["msg_type"] == "stream" else None
        if isinstance(text, str):
            cell_index = self._cells_sent.get(parent) if isinstance(parent, str) else None
            kept = self._stray.setdefault(cell_index, BoundedText(_STRAY_CHARS, _STRAY_CHARS))
            kept.append(text)

    def take_stray_text(self) -> list[tuple[int | None, str]]:
        """Return and clear the text that belonged to no running cell, by the index of the cell that began it."""
        stray, self._stray = self._stray, {}
        return [(index, kept.text) for index, kept in stray.items()]

    def _begin(self, msg_id: str, cell: Any, index: int) -> Request:
        self._request = Request(msg_id, cell, index)
        self._mailboxes[0].look()
        return self._request

    async def _wait(self, moment: asyncio.Future[None], seconds: float | None) -> bool:
        """Wait for a moment of a request, the end of the process or ``seconds``; return whether the moment came."""
        waited = {moment, self.kernel.provisioner.ended}
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return moment.done()

    # -- requests -----------------------------------------------------------------------------------------------------

    async def ask(self, code: str, timeout_seconds: float | None) -> Reply | None:
        """Run ``code`` silently, outside the lecture's history; return ``None`` if no answer arrives in time."""
        request = self._begin(self._execute(code, silent=True), None, -1)
        await self._wait(request.done, timeout_seconds)
        return request.reply if request.reply.status else None

    def send(self, code: str) -> None:
        """Send ``code`` silently and do not wait for an answer."""
        self._execute(code, silent=True)

    def _execute(self, code: str, *, silent: bool) -> str:
        assert self._requests is not None  # noqa: S101 - for the type checker; the channels are open
        return self._requests.send(code, silent=silent)

    def begin_cell(self, cell: Any, index: int) -> Request:
        """Send a cell's source to the kernel and reset what is kept of its output."""
        cell.outputs = []
        self.messages.begin(index)
        self.clear_before_next_output = False
        self.text.clear()
        self.errors = []
        msg_id = self._execute(cell.source, silent=False)
        self._cells_sent[msg_id] = index
        return self._begin(msg_id, cell, index)

    async def wait_cell(self, request: Request, seconds: float | None) -> bool:
        """
        Wait for the end of a cell: reply and idle status.

        Returns:
            Whether the cell ended; ``False`` after ``seconds``, when the process ended first, and when the kernel will
            never answer (see :attr:`Request.no_answer`).
        """
        loop, answer = asyncio.get_running_loop(), AnswerWatch(self.kernel, self._channels, request.msg_id)
        deadline = None if seconds is None else loop.time() + seconds
        answered_at: float | None = None
        while True:
            left = None if deadline is None else deadline - loop.time()
            if request.reply.status:
                # Only the rest of the output is missing. It may be long, so only silence ends the wait.
                seen, answered_at = request.message_count, answered_at or loop.time()
                if await self._wait(request.done, _IDLE_SILENCE_SECONDS):
                    return True
                is_over = loop.time() - answered_at > _LATE_OUTPUT_SECONDS or (left is not None and left <= 0)
                if self.kernel.provisioner.ended.done() or request.message_count == seen or is_over:
                    return True
            elif left is not None and left <= 0:
                return False
            else:
                if await self._wait(request.done, LOOK_SECONDS if left is None else min(left, LOOK_SECONDS)):
                    return True
                if self._will_never_answer(request, answer):
                    return False

    async def wait_contradiction(self, request: Request) -> None:
        """
        Wait for a second reply where the first one says "ok" and the output has an error; call it after measuring.

        A lecture may have sent the first one. The kernel's own reply comes through another socket than the end of the
        output, and so perhaps later.
        """
        if self.errors and request.reply.status == "ok":
            await self._wait(request.contradicted, _CONTRADICTION_SECONDS)

    def _will_never_answer(self, request: Request, answer: AnswerWatch) -> bool:
        if request.reply.status:
            return False
        if self.kernel.provisioner.ended.done():
            return True
        request.no_answer = answer.look(is_idle=request.reply.idle_seen, message_count=request.message_count)
        return request.no_answer is not None

    # -- outputs ------------------------------------------------------------------------------------------------------

    def output(self, outs: list[Any], msg: dict[str, Any], display_id: str | None, cell_index: int) -> Any:
        """Handle one output message and keep what is needed of it, within bounds."""
        msg_type, content = msg["msg_type"], msg["content"]
        if msg_type == "stream":
            self.text.append(content.get("text", ""))
        elif msg_type == "error":
            self.errors.append(content)
        is_captured = bool(self.output_hook_stack.get(msg["parent_header"].get("msg_id")))
        if msg_type in _OUTPUTS and not self.keep_outputs and not is_captured:
            return None
        return super().output(outs, msg, display_id, cell_index)

    def clear_output(self, outs: list[Any], msg: dict[str, Any], cell_index: int) -> None:
        """Clear the cell's outputs and the text kept of them."""
        super().clear_output(outs, msg, cell_index)
        self.text.clear()


class _WidgetChannel:
    """
    The channel that nbclient's output widgets use to answer the kernel while a cell runs.

    jupyter_client's own would bypass the mailbox and block while the kernel's queue is full.
    """

    def __init__(self, session: Any, mailbox: Mailbox) -> None:
        self.session = session
        self.shell_channel = self
        self._mailbox = mailbox

    def send(self, message: dict[str, Any]) -> None:
        """Send a message of the protocol."""
        self._mailbox.send(self.session.serialize(message))
