"""Check the part of the agent's payload that is about sparse factorisations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pytest_lecturecheck.kernel.messages.agent_device_reply import clean_text
from pytest_lecturecheck.model.factorisation import Factorisation

_CALLS: Final = ("splu", "spilu", "spsolve")
_MOST: Final = 4
_MOST_COUNT: Final = 2**62
_CHARS: Final = 40


def clean_factorisations(payload: object) -> tuple[Factorisation, ...]:
    """Return the factorisations that have the expected shape."""
    entries = payload[:_MOST] if isinstance(payload, list) else ()
    found = (_factorisation(entry) for entry in entries if isinstance(entry, dict))
    return tuple(item for item in found if item is not None)


def _factorisation(entry: Mapping[object, object]) -> Factorisation | None:
    call, size, stored = entry.get("call"), _count(entry.get("size")), _count(entry.get("stored"))
    if call not in _CALLS or size is None or stored is None:
        return None
    zeros = _count(entry.get("zeros"))
    return Factorisation(
        call=str(call),
        size=size,
        stored_count=stored,
        zero_count=zeros if zeros is not None and zeros <= stored else None,
        ordering=clean_text(entry.get("ordering"), _CHARS),
        fill_count=_count(entry.get("fill")),
        error=clean_text(entry.get("error"), _CHARS),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_COUNT else None
