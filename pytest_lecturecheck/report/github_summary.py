"""
What GitHub Actions shows of a session: annotations, the job's summary; and text that cannot speak to its runner.

The runner reads workflow commands out of everything that a step prints: ``::name properties::data`` at the start of a
line, and ``##[name]data`` anywhere in it (``ActionCommand.cs`` of actions/runner). Its comparison passes over
characters that have no width, so that none of these can keep two colons apart.
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
"""So much a step's summary may hold; GitHub refuses a larger one whole."""
MOST_ANNOTATIONS: Final = 10
"""So many errors of one step are shown."""
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
_OLD_COMMAND: Final = re.compile(rf"#({_UNSEEN})#({_UNSEEN})\[")


def guard(text: str) -> str:
    """Make text that starts no workflow command: the marks of one are kept apart by a space that everybody sees."""
    return _OLD_COMMAND.sub(r"# \1#\2[", _COMMAND.sub(r"\1: \2:", text))


def render_annotations(entries: Sequence[Entry], folder: str = "") -> list[str]:
    """
    Give an error for each lecture that failed, on its own source line; at most ten, which is what is shown.

    Args:
        entries: the session's entries.
        folder: where pytest's rootdir lies in the repository; empty for its top.
    """
    failed: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        if entry.verdict.failed:
            failed.setdefault((entry.run.lecture, entry.run.variant), entry)
    return [_annotation(entry, folder) for entry in list(failed.values())[:MOST_ANNOTATIONS]]


def _annotation(entry: Entry, folder: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, entry.run.lecture or "."))
    properties = [f"file={_property(path)}"]
    if entry.line is not None:
        properties.append(f"line={entry.line}")
    properties.append(f"title={_property(one_line(f'{entry.name}: {entry.verdict.kind.value}', _TITLE_CHARS))}")
    return f"::error {','.join(properties)}::{_data(one_line(entry.headline, _MESSAGE_CHARS))}"


def _data(text: str) -> str:
    return guard(one_line(text)).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def render_step_summary(
    entries: Sequence[Entry], *, platform: str, machine: Machine | None, room_bytes: int = SUMMARY_BYTES
) -> str:
    """
    Render the summary of a job within so many bytes: with fewer details, then with fewer lectures, where it must be.

    Returns:
        Markdown, or an empty string where there is no room for anything.
    """
    extents = [Extent(details=details) for details in _FEWER_DETAILS]
    extents += [Extent(details=0, rows=rows) for rows in _FEWER_ROWS]
    for extent in extents:
        text = render_markdown(entries, platform=platform, machine=machine, extent=extent)
        if len(text.encode("utf-8")) <= room_bytes:
            return text
    return ""
