"""Call GitHub's REST interface with the token of the job. Standard library only."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

MOST_PAGES = 20
PAGE_SIZE = 100
TIMEOUT_SECONDS = 60


class ApiError(Exception):
    """An answer of GitHub that is an error."""


def call(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """
    Return what GitHub answers.

    Args:
        method: the method.
        path: the path below the repository (``issues/1/comments``).
        body: what is sent, as JSON.

    Raises:
        ApiError: the status is an error; the message has no token.
    """
    base = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    url = f"{base}/repos/{os.environ['GITHUB_REPOSITORY']}/{path}"
    request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {os.environ['GITHUB_TOKEN']}")
    request.add_header("Accept", "application/vnd.github+json")
    request.add_header("X-GitHub-Api-Version", "2022-11-28")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as exc:
        msg = f"{method} {path}: {exc.code} {exc.reason}"
        raise ApiError(msg) from exc


def every(path: str, **query: str) -> list[Any]:
    """Return the items of all pages of a list."""
    found: list[Any] = []
    for page in range(1, MOST_PAGES + 1):
        values = urllib.parse.urlencode({**query, "per_page": PAGE_SIZE, "page": page})
        items = call("GET", f"{path}?{values}")
        found += items
        if len(items) < PAGE_SIZE:
            break
    return found


def is_own(item: dict[str, Any], mark: str) -> bool:
    """Return True if a bot wrote an issue or a comment that begins with a mark; anybody can write the mark."""
    return (item.get("user") or {}).get("type") == "Bot" and str(item.get("body") or "").startswith(mark)
