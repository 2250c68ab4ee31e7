"""
Read the notices with which a cloud announces that it takes a machine back.

Sources: AWS, spot instance interruption notices (IMDSv2, ``/latest/meta-data/spot/instance-action``), two minutes
ahead; Google Cloud, ``/computeMetadata/v1/instance/preempted``, 30 s ahead; Azure, Scheduled Events
(``/metadata/scheduledevents``), at least 30 s ahead. All three answer on the link-local address below, and only on
their own machines. Off unless the setting ``cloud-notices`` is on.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from pytest_lecturecheck.safe_text import one_line

_METADATA_HOST: Final = "169.254.169.254"
_TIMEOUT_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 5.0
"""AWS recommends to ask every five seconds."""
_MOST_BYTES: Final = 65_536
_NOTICE_CHARS: Final = 200
_AZURE_TAG: Final = "7783-7084-3265-9085-8269-3286-77"
"""Chassis asset tag of every machine of Azure; the vendor alone is also that of Hyper-V."""
_ENDING_EVENTS: Final = frozenset({"Preempt", "Terminate"})

Fetch: TypeAlias = Callable[[str, str, Mapping[str, str]], str]
"""Requests a path with a method and headers; returns the body, or an empty string for anything but status 200."""


class Cloud(StrEnum):
    """A cloud whose notices can be read."""

    AWS = "AWS"
    GOOGLE = "Google Cloud"
    AZURE = "Azure"


def detect_cloud(root: Path = Path("/")) -> Cloud | None:
    """
    Return the cloud that this Linux machine belongs to, by what its firmware says, or ``None``.

    Args:
        root: the folder that holds ``sys``.
    """

    def read(name: str) -> str:
        with suppress(OSError):
            return (root / "sys" / "class" / "dmi" / "id" / name).read_text(encoding="utf-8", errors="replace").strip()
        return ""

    vendor = read("sys_vendor")
    if vendor == "Amazon EC2":
        return Cloud.AWS
    if vendor == "Google":
        return Cloud.GOOGLE
    return Cloud.AZURE if read("chassis_asset_tag") == _AZURE_TAG else None


def fetch(method: str, path: str, headers: Mapping[str, str]) -> str:
    """Request a path of the metadata service, without any proxy; see :data:`Fetch`."""
    connection = http.client.HTTPConnection(_METADATA_HOST, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request(method, path, headers=dict(headers))
        response = connection.getresponse()
        body = response.read(_MOST_BYTES)
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()
    return body.decode("utf-8", "replace") if response.status == http.HTTPStatus.OK else ""


def read_notice(cloud: Cloud, fetch: Fetch) -> str:
    """Return the notice of interruption, described, or an empty string."""
    described = {Cloud.AWS: _read_aws, Cloud.GOOGLE: _read_google, Cloud.AZURE: _read_azure}[cloud](fetch)
    return one_line(described, _NOTICE_CHARS)


def _read_aws(fetch: Fetch) -> str:
    token = fetch("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    headers = {"X-aws-ec2-metadata-token": token} if token else {}
    found = _parse(fetch("GET", "/latest/meta-data/spot/instance-action", headers))
    if not found:
        return ""
    return f"AWS takes this spot instance back: {found.get('action', 'terminate')} at {found.get('time', 'once')}"


def _read_google(fetch: Fetch) -> str:
    answer = fetch("GET", "/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"})
    return "Google Cloud takes this machine back within 30 s (preempted)" if answer.strip() == "TRUE" else ""


def _read_azure(fetch: Fetch) -> str:
    found = _parse(fetch("GET", "/metadata/scheduledevents?api-version=2020-07-01", {"Metadata": "true"}))
    events = found.get("Events")
    for event in events if isinstance(events, list) else []:
        if isinstance(event, dict) and event.get("EventType") in _ENDING_EVENTS:
            return f"Azure takes this machine back: {event['EventType']}, not before {event.get('NotBefore') or 'now'}"
    return ""


def _parse(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class NoticeWatch:
    """
    Asks for a notice every few seconds, on a thread of its own, until there is one.

    Args:
        cloud: the cloud of this machine.
        on_notice: receives the notice, on that thread.
        fetch: requests a path of the metadata service.
    """

    def __init__(self, cloud: Cloud, on_notice: Callable[[str], None], fetch: Fetch = fetch) -> None:
        """Ask nothing yet."""
        self._cloud = cloud
        self._on_notice = on_notice
        self._fetch = fetch
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lecturecheck cloud notices", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def _run(self) -> None:
        while not self.poll() and not self._stopped.wait(_POLL_SECONDS):
            pass

    def poll(self) -> bool:
        """Ask once; return True if there was a notice."""
        notice = read_notice(self._cloud, self._fetch)
        if notice:
            self._on_notice(notice)
        return bool(notice)

    def stop(self) -> None:
        """Stop asking; safe to call twice, and before the start."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
