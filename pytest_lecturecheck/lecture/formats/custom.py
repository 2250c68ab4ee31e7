"""Parse the pages that a book reads with jupytext, as it configures in ``nb_custom_formats``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupytext.formats import divine_format, long_form_one_format

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.book.custom_formats import CustomFormat
from pytest_lecturecheck.lecture.formats.jupytext import is_myst, parse_markdown, parse_script
from pytest_lecturecheck.lecture.formats.myst import parse_myst
from pytest_lecturecheck.lecture.formats.myst_dialect import MystDialect
from pytest_lecturecheck.lecture.formats.parsed import Parsed


def parse_custom(text: str, custom: CustomFormat, *, path: Path, name: str, root: Path) -> Parsed | None:
    r"""
    Parse a page as its book reads it.

    Args:
        text: the file, with ``\n`` line ends.
        custom: the book's setting.
        path: the file.
        name: the file as the user knows it.
        root: the folder that loaded files must be in.

    Returns:
        The page, or ``None`` if another program than jupytext reads it.

    Raises:
        LectureReadError: the format is not one that is supported, or the file cannot be read in it.
    """
    if not custom.is_jupytext:
        return None
    fmt = _format(text, custom, name=name)
    extension = fmt.get("extension")
    if extension == ".py":
        return parse_script(text, name=name, fmt=fmt)
    if extension in {".md", ".myst", ".mystnb", ".mnb"} and is_myst(text, fmt, name=name):
        return parse_myst(text, path=path, name=name, root=root, dialect=MystDialect.JUPYTEXT)
    if extension in {".md", ".Rmd"}:
        return parse_markdown(text, name=name, fmt=fmt)
    msg = f"is read by jupytext as {extension!r} ({custom.origin}); expected .md, .Rmd, .py or MyST"
    raise LectureReadError(name, None, msg)


def _format(text: str, custom: CustomFormat, *, name: str) -> dict[str, Any]:
    try:
        given = custom.options.get("fmt")
        return dict(long_form_one_format(given or divine_format(text)))
    except Exception as exc:
        # jupytext raises errors of many kinds for a format that it does not know.
        msg = f"has the jupytext format {custom.options.get('fmt')!r} ({custom.origin}): {type(exc).__name__}: {exc}"
        raise LectureReadError(name, None, msg) from exc
