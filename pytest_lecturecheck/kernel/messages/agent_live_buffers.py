"""Check the part of the agent's payload that is about arrays alive after an out-of-memory error."""

from __future__ import annotations

from typing import Any, Final

from pytest_lecturecheck.kernel.messages.agent_device_reply import clean_text
from pytest_lecturecheck.model.device import LiveBuffers

_MOST_GROUPS: Final = 12
_MOST_NAMES: Final = 5
_MOST_BYTES: Final = 2**62
_TEXT_CHARS: Final = 80


def clean_live_buffers(payload: object) -> tuple[LiveBuffers, ...]:
    """Return the groups of arrays that have the expected shape."""
    given = payload[:_MOST_GROUPS] if isinstance(payload, list) else []
    return tuple(found for item in given if isinstance(item, dict) and (found := _group(item)) is not None)


def _group(item: dict[str, Any]) -> LiveBuffers | None:
    count, size, names = (item.get(key) for key in ("count", "size_bytes", "names"))
    if not _is_size(count) or not _is_size(size):
        return None
    shown = [clean_text(name, _TEXT_CHARS) for name in (names[:_MOST_NAMES] if isinstance(names, list) else [])]
    return LiveBuffers(
        shape=clean_text(item.get("shape"), _TEXT_CHARS),
        dtype=clean_text(item.get("dtype"), _TEXT_CHARS),
        device=clean_text(item.get("device"), _TEXT_CHARS),
        count=count,  # type: ignore[arg-type]
        size_bytes=size,  # type: ignore[arg-type]
        names=tuple(name for name in shown if name),
    )


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_BYTES
