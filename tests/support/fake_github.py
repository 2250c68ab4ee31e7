"""A GitHub in a thread: lists, creates and changes comments and issues."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class FakeGitHub:
    """Answers at ``url``; ``calls`` has every request that changed something."""

    def __init__(self, lists: dict[str, list[dict[str, Any]]]) -> None:
        self.lists = lists
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        github = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Stay silent."""

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = parse_qs(parts.query)
                size, page = int(query["per_page"][0]), int(query["page"][0])
                items = github.lists.get(parts.path.removeprefix("/repos/o/r/"), [])
                self._answer(items[(page - 1) * size : page * size])

            def do_POST(self) -> None:
                self._change()

            def do_PATCH(self) -> None:
                self._change()

            def _change(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                github.calls.append((self.command, self.path.removeprefix("/repos/o/r/"), body))
                self._answer({"number": 7, "id": 7})

            def _answer(self, value: object) -> None:
                data = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
