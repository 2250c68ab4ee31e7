"""Send execute requests: of all their parts, only the code, an id and the date differ."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any, Final

from pytest_lecturecheck.kernel.messages.wire import Mailbox

_NOTHING: Final = b"{}"


class ExecuteRequests:
    """
    Sends execute requests to a kernel.

    jupyter_client converts the dates of all parts, keeps the message, and makes a future for it.

    Args:
        session: holds the key and makes ids.
        mailbox: sends messages on the shell channel.
    """

    def __init__(self, session: Any, mailbox: Mailbox) -> None:
        """Send nothing yet."""
        self._session = session
        self._mailbox = mailbox
        header = session.msg_header("execute_request")
        self._header = {name: header[name] for name in ("msg_type", "username", "session", "version")}

    def send(self, code: str, *, silent: bool = False) -> str:
        """
        Send one request and return its id.

        A silent request leaves no trace in the lecture's history. No request stops those after it when it fails: what
        happens after an error is decided by the caller.
        """
        session = self._session
        msg_id = str(session.msg_id)
        header = {**self._header, "msg_id": msg_id, "date": dt.datetime.now(dt.UTC).isoformat()}
        content = {
            "code": code,
            "silent": silent,
            "store_history": not silent,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        parts = [json.dumps(header).encode("ascii"), _NOTHING, _NOTHING, session.pack(content)]
        self._mailbox.send([b"<IDS|MSG>", session.sign(parts), *parts])
        return msg_id
