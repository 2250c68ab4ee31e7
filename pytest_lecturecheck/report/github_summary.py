"""
Render a session for GitHub Actions: annotations, the job's summary, and text that its runner takes for no command.

The runner reads workflow commands out of everything that a step prints: ``::name properties::data`` at the start of a
line, and ``##[name]data`` anywhere in it (``ActionCommand.cs`` of actions/runner). Its comparison ignores
zero-width characters, so these cannot be used to separate two colons. Azure Pipelines reads ``##vso[name]data``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Final

from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.markdown_report import Extent, render_markdown
from pytest_lecturecheck.safe_text import one_line

SUMMARY_BYTES: Final = 1024 * 1024
"""Largest summary of a step; GitHub refuses a larger one altogether."""
MOST_ANNOTATIONS: Final = 10
"""GitHub shows at most this many errors of one step."""
_TITLE_CHARS: Final = 200
_MESSAGE_CHARS: Final = 1000
_FEWER_DETAILS: Final = (None, 50, 20, 5, 0)
_FEWER_ROWS: Final = (1000, 200, 50, 10, 0)

# White space, controls, and what Unicode says may be ignored.
_UNSEEN: Final = (
    r"[\s\x00-\x1f\x7f-\xa0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]*"
)
_COMMAND: Final = re.compile(rf"^({_UNSEEN}):({_UNSEEN}):", re.MULTILINE)
# Of GitHub without a word, of Azure Pipelines with "vso", of TeamCity with its name.
_OLD_COMMAND: Final = re.compile(rf"#({_UNSEEN})#({_UNSEEN})(\w{{0,20}})\[")


def guard(text: str) -> str:
    """Return text that starts no workflow command: a visible space separates the characters that would begin one."""
    return _OLD_COMMAND.sub(r"# \1#\2\3[", _COMMAND.sub(r"\1: \2:", text))


def render_annotations(entries: Sequence[Entry], folder: str = "") -> list[str]:
    """
    Return an error for each lecture that failed, on its own source line; at most ten, which is what GitHub shows.

    Args:
        entries: the session's entries.
        folder: path of pytest's rootdir in the repository; empty for its root.
    """
    failed: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        if entry.verdict.failed:
            failed.setdefault((entry.run.lecture, entry.run.variant), entry)
    return [_annotation(entry, folder) for entry in list(failed.values())[:MOST_ANNOTATIONS]]


def render_rerun_annotations(superseded: Sequence[Entry], folder: str = "") -> list[str]:
    """
    Return a warning for each lecture that another plugin ran again; at most ten.

    Args:
        superseded: entries of the runs that were repeated.
        folder: where pytest's rootdir lies in the repository; empty for its top.
    """
    named = {(entry.run.lecture, entry.run.variant): entry for entry in superseded}
    return [_annotation(entry, folder, level="warning") for entry in list(named.values())[:MOST_ANNOTATIONS]]


def _annotation(entry: Entry, folder: str, *, level: str = "error") -> str:
    path = posixpath.normpath(posixpath.join(folder, entry.subject.lecture or "."))
    properties = [f"file={_property(path)}"]
    if entry.line is not None:
        properties.append(f"line={entry.line}")
    result = entry.verdict.kind.value if level == "error" else f"run again after {entry.verdict.kind.value}"
    properties.append(f"title={_property(one_line(f'{entry.name}: {result}', _TITLE_CHARS))}")
    return f"::{level} {','.join(properties)}::{_data(one_line(entry.headline, _MESSAGE_CHARS))}"


def _data(text: str) -> str:
    return guard(one_line(text)).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def render_step_summary(
    entries: Sequence[Entry], *, platform: str, machine: Machine | None, room_bytes: int = SUMMARY_BYTES
) -> str:
    """
    Render the summary of a job in at most ``room_bytes``: with fewer details, then with fewer lectures, if needed.

    Returns:
        Markdown, or an empty string if nothing fits.
    """
    extents = [Extent(details=details) for details in _FEWER_DETAILS]
    extents += [Extent(details=0, rows=rows) for rows in _FEWER_ROWS]
    for extent in extents:
        text = render_markdown(entries, platform=platform, machine=machine, extent=extent)
        if len(text.encode("utf-8")) <= room_bytes:
            return text
    return ""
