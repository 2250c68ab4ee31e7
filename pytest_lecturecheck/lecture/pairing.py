"""
Find the other forms of a document that jupytext pairs across folders or by its configuration file.

Forms in the same folder, named in a text's header, are found in ``selection.py`` without jupytext. This module calls
jupytext. It does so only where a TOML configuration sets ``formats`` or a notebook's metadata names other folders.
Configurations that are programs (``.jupytext.py``) are never read.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.files import MOST_SETTINGS_BYTES, read_plain_bytes, read_plain_text

_CONFIGURATIONS: Final = ("jupytext.toml", ".jupytext.toml")
_PROJECT: Final = "pyproject.toml"
_CELL_OPTIONS: Final = {"comment_magics": bool, "cell_markers": str}


def find_configuration(folder: Path) -> Path | None:
    """Return the jupytext configuration file of a folder if it pairs documents, else ``None``."""
    return next((file for file, table in _configurations(folder) if table.get("formats")), None)


def read_format_options(folder: Path, root: Path) -> dict[str, Any]:
    """
    Return the options of the nearest jupytext configuration that decide how a script is cut into cells.

    With ``comment_magics = false`` a commented magic or shell line stays a comment in Jupyter, so it must not run here.

    Args:
        folder: the folder of the script.
        root: the last folder above it to look in.
    """
    for candidate in (folder, *folder.parents):
        for _file, table in _configurations(candidate):
            return {key: table[key] for key, kind in _CELL_OPTIONS.items() if isinstance(table.get(key), kind)}
        if candidate == root or root not in candidate.parents:
            break
    return {}


def _configurations(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for name in (*_CONFIGURATIONS, _PROJECT):
        file = folder / name
        try:
            table: Any = (
                tomllib.loads(read_plain_text(file, most_bytes=MOST_SETTINGS_BYTES)) if file.is_file() else None
            )
        except (OSError, ValueError, RecursionError):
            continue
        if name == _PROJECT and table is not None:
            tool = table.get("tool")
            table = tool.get("jupytext") if isinstance(tool, dict) else None
        if isinstance(table, dict):
            yield file, table


FORMATS_WORD: Final = b'"formats"'
"""What a notebook's metadata contains if it names the other forms of the document."""


def paired_files(path: Path, configuration: Path | None, *, may_state_formats: bool) -> tuple[Path, ...]:
    """
    Return the other forms of a document, whether or not they exist.

    Args:
        path: the document.
        configuration: the configuration file in force, or ``None``; a notebook's own metadata takes precedence.
        may_state_formats: whether :data:`FORMATS_WORD` occurs in the file, so that it has to be read.
    """
    own = _own_formats(path) if may_state_formats and path.suffix.lower() == ".ipynb" else ""
    if not own and configuration is None:
        return ()
    from jupytext.config import load_jupytext_configuration_file  # noqa: PLC0415 - only where documents are paired
    from jupytext.formats import long_form_multiple_formats  # noqa: PLC0415 - as above
    from jupytext.paired_paths import InconsistentPath, paired_paths  # noqa: PLC0415 - as above

    text = str(path)
    try:
        if not own and configuration is not None:
            own = load_jupytext_configuration_file(str(configuration)).default_formats(text) or ""
        for form in long_form_multiple_formats(own):
            try:
                return tuple(Path(name) for name, _ in paired_paths(text, form, own) if name != text)
            except InconsistentPath:
                continue
    except Exception:  # noqa: BLE001 - a configuration that jupytext rejects pairs nothing
        return ()
    return ()


def _own_formats(path: Path) -> str:
    """Return the ``formats`` of a notebook's metadata if it names folders, else an empty string."""
    try:
        data = json.loads(read_plain_bytes(path))
        formats = data["metadata"]["jupytext"]["formats"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return ""
    return formats if isinstance(formats, str) and "/" in formats else ""
