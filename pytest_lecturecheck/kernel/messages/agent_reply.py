"""Check the agent's payload in a reply. A lecture can put anything there, so only what has the right shape is kept."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from pytest_lecturecheck.kernel.agent.core import MEMORY_VARIABLES
from pytest_lecturecheck.kernel.messages.agent_device_reply import (
    clean_allocators,
    clean_compilation,
    clean_errors,
    clean_text,
)
from pytest_lecturecheck.kernel.messages.agent_factorisations import clean_factorisations
from pytest_lecturecheck.kernel.messages.agent_live_buffers import clean_live_buffers
from pytest_lecturecheck.kernel.messages.stack import clean_offer

_COUNTS: Final = ("breakpoints", "error_line", "shown_line")
_FLAGS: Final = ("exit_asked", "stack_taken", "nothing_installed")
_PAIR: Final = 2
_SOFTWARE_CHARS: Final = 200
_PACKAGES: Final = 2_000
_BLAS_LINES: Final = 20
_ERRORS: Final = 10
_ERROR_CHARS: Final = 300


def clean_payload(payload: object) -> dict[str, Any]:
    """
    Return the entries of the agent's payload that have the expected shape; drop all others.

    Returns:
        ``shell_lines``: pairs of command and exit code; ``replaced``: imported packages whose version an install line
        changed; ``threads``: pairs of name and request; ``breakpoints``, ``error_line`` and ``shown_line``: whole
        numbers; ``exit_asked``, ``stack_taken`` and ``nothing_installed``: true; ``software``: ``python``,
        ``packages``, ``variables`` and ``blas``; ``lost_tasks``: errors of tasks that nobody awaited;
        ``stack_offer``: a :class:`~pytest_lecturecheck.kernel.messages.stack.StackOffer`; ``allocators``: usage of each
        allocator; ``compilation``: compile times, or why there are none; ``allocator_errors``: texts by library;
        ``factorisations``: sparse factorisations; ``live_buffers``: arrays alive after an out-of-memory error.
    """
    if not isinstance(payload, dict):
        return {}
    clean: dict[str, Any] = {name: payload[name] for name in _COUNTS if _is_whole(payload.get(name))}
    for name in ("shell_lines", "threads"):
        found = payload.get(name)
        if isinstance(found, list):
            clean[name] = [(pair[0], pair[1]) for pair in found if _is_pair(pair)]
    if isinstance(replaced := payload.get("replaced"), list):
        clean["replaced"] = [clean_text(item, _SOFTWARE_CHARS) for item in replaced[:_PACKAGES]]
    clean.update({name: True for name in _FLAGS if payload.get(name) is True})
    if isinstance(software := payload.get("software"), dict):
        clean["software"] = _software(software)
    parsed = {
        "lost_tasks": _texts(payload.get("lost_tasks")),
        "stack_offer": clean_offer(payload.get("stack_offer")),
        "factorisations": clean_factorisations(payload.get("factorisations")),
        "live_buffers": clean_live_buffers(payload.get("live_buffers")),
        "allocators": clean_allocators(payload.get("allocators")),
        "compilation": clean_compilation(payload.get("compile")),
        "allocator_errors": clean_errors(payload.get("allocator_errors")),
    }
    clean.update({name: value for name, value in parsed.items() if value})
    return clean


def _texts(sent: object) -> tuple[str, ...]:
    texts = (clean_text(text, _ERROR_CHARS) for text in (sent if isinstance(sent, list) else ()))
    return tuple(islice(filter(None, texts), _ERRORS))


def _software(sent: dict[Any, Any]) -> dict[str, Any]:
    # This goes into budget files, which people read.
    packages, blas, variables = sent.get("packages"), sent.get("blas"), sent.get("variables")
    values = variables if isinstance(variables, dict) else {}
    lines = (clean_text(line, _SOFTWARE_CHARS) for line in (blas if isinstance(blas, list) else ()))
    return {
        "python": clean_text(sent.get("python"), _SOFTWARE_CHARS),
        "packages": _pairs(packages),
        "distributions": _pairs(sent.get("distributions")),
        "variables": {
            name: clean_text(values[name], _SOFTWARE_CHARS)
            for name in MEMORY_VARIABLES
            if isinstance(values.get(name), str)
        },
        "blas": list(islice(filter(None, lines), _BLAS_LINES)),
    }


def _pairs(sent: object) -> dict[str, str]:
    found = sent.items() if isinstance(sent, dict) else ()
    kept = ((clean_text(name, _SOFTWARE_CHARS), clean_text(text, _SOFTWARE_CHARS)) for name, text in found)
    return dict(islice(((name, text) for name, text in kept if name and text), _PACKAGES))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_pair(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != _PAIR:
        return False
    return isinstance(value[0], str) and _is_whole(value[1])
