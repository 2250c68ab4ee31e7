"""The agent's words, as far as they are what the agent says: a lecture can put anything there."""

from __future__ import annotations

from typing import Any, Final

_COUNTS: Final = ("breakpoints", "error_line")
_PAIR: Final = 2


def clean_words(words: object) -> dict[str, Any]:
    """
    Keep of a reply's metadata what has the shape that the agent gives it.

    Returns:
        ``shell_lines``: pairs of command and exit code; ``threads``: pairs of name and request; ``breakpoints`` and
        ``error_line``: whole numbers; ``exit_asked``: true; ``software``: ``python``, ``packages`` and ``blas``.
    """
    if not isinstance(words, dict):
        return {}
    clean: dict[str, Any] = {name: words[name] for name in _COUNTS if _is_whole(words.get(name))}
    for name in ("shell_lines", "threads"):
        found = words.get(name)
        if isinstance(found, list):
            clean[name] = [(pair[0], pair[1]) for pair in found if _is_pair(pair)]
    if words.get("exit_asked") is True:
        clean["exit_asked"] = True
    if isinstance(software := words.get("software"), dict):
        packages, blas = software.get("packages"), software.get("blas")
        clean["software"] = {
            "python": str(software.get("python", "")),
            "packages": packages if isinstance(packages, dict) else {},
            "blas": blas if isinstance(blas, list) else [],
        }
    return clean


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_pair(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != _PAIR:
        return False
    return isinstance(value[0], str) and _is_whole(value[1])
