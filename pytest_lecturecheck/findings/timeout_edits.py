"""Write timeouts into the text of front matter, a book's ``_config.yml`` and a workflow; one line each. Pure."""

from __future__ import annotations

import re
from typing import Final

_HEADER: Final = re.compile(r"\A(?:\ufeff)?---[ \t]*\r?\n")
_KEY: Final = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z_][\w-]*):(?P<rest>.*)")


def with_own_timeout(text: str, seconds: int) -> str | None:
    """Return a text notebook with ``lecturecheck.timeout`` in its front matter, or ``None`` where it has none."""
    lines = text.splitlines(keepends=True)
    if _HEADER.match(text) is None:
        return None
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), None)
    if end is None:
        return None
    return _with_key(lines, 1, end, "lecturecheck", "timeout", str(seconds))


def with_book_timeout(text: str, seconds: int) -> str | None:
    """Return a ``_config.yml`` with ``execute.timeout``, or ``None`` where ``execute`` is written in another way."""
    lines = text.splitlines(keepends=True)
    return _with_key(lines, 0, len(lines), "execute", "timeout", str(seconds))


def with_job_timeout(text: str, line: int, minutes: int) -> str | None:
    """
    Return a workflow with another ``timeout-minutes``.

    Args:
        text: the workflow.
        line: 1-based line of the present ``timeout-minutes``, or of the ``runs-on`` after which it is added.
        minutes: the limit.
    """
    lines = text.splitlines(keepends=True)
    found = _KEY.match(lines[line - 1]) if 1 <= line <= len(lines) else None
    if found is None or found["key"] not in {"timeout-minutes", "runs-on"}:
        return None
    new = f"{found['indent']}timeout-minutes: {minutes}{_line_end(lines[line - 1])}"
    if found["key"] == "timeout-minutes":
        lines[line - 1] = new
    else:
        lines.insert(line, new)
    return "".join(lines)


def _with_key(lines: list[str], start: int, end: int, table: str, key: str, value: str) -> str | None:
    """Set a key of a top-level table in block style between two lines; add what is missing."""
    line_end = _line_end(lines[start]) if start < len(lines) else "\n"
    heads = (n for n in range(start, end) if (m := _KEY.match(lines[n])) and not m["indent"] and m["key"] == table)
    head = next(heads, None)
    if head is None:
        if end > start and not lines[end - 1].endswith("\n"):
            lines[end - 1] += line_end
        lines[end:end] = [f"{table}:{line_end}", f"  {key}: {value}{line_end}"]
        return "".join(lines)
    rest = lines[head].split(":", 1)[1].split("#", 1)[0]
    if rest.strip():
        return None
    indent = None
    for number in range(head + 1, end):
        line = lines[number]
        if line.strip() and not line.startswith((" ", "#")):
            break
        found = _KEY.match(line)
        if found is None:
            continue
        indent = indent or found["indent"]
        if found["indent"] == indent and found["key"] == key:
            comment = f"  #{line.split('#', 1)[1].rstrip()}" if "#" in line else ""
            lines[number] = f"{indent}{key}: {value}{comment}{_line_end(line)}"
            return "".join(lines)
    lines.insert(head + 1, f"{indent or '  '}{key}: {value}{line_end}")
    return "".join(lines)


def _line_end(line: str) -> str:
    return "\r\n" if line.endswith("\r\n") else "\n"
