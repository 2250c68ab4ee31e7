"""Recognise notebooks in text with regular expressions only: collection must not load a parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# A fence of CommonMark or MyST: at most three spaces, three or more marks, then the info string.
FENCE: Final = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,}|:{3,})(?P<info>.*)$")
# mystmd accepts spaces and attributes in the braces.
DIRECTIVE: Final = re.compile(r"\{[ \t]*(?P<name>[^{}\s]+)(?:[ \t][^{}]*)?\}")
CODE_CELL: Final = "{code-cell}"
VERBATIM_DIRECTIVES: Final = frozenset(
    {
        "aafig", "any", "code", "code-block", "csv-table", "doctest", "dot", "eval-rst", "example", "graphviz",
        "highlight", "ipython", "list-table", "literal", "literalinclude", "math", "mermaid", "myst", "parsed-literal",
        "plantuml", "prompt", "raw", "raw-cell", "raw-html", "sourcecode", "table", "testcode", "testoutput", "tikz",
        "typst", "verbatim",
    }
)  # fmt: skip
"""Directives whose body is shown verbatim: a code-cell inside one is an example, not a cell."""

_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(?P<yaml>.*?)^(?:---+|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_MYST_HEADER: Final = re.compile(r"^(?:file_format[ \t]*:[ \t]*['\"]?mystnb\b)", re.MULTILINE)
_KERNELSPEC: Final = re.compile(r"^[ \t]*kernelspec[ \t]*:", re.MULTILINE)
_FORMAT_NAME: Final = re.compile(r"^[ \t]+format_name[ \t]*:[ \t]*['\"]?(?P<name>[\w-]+)", re.MULTILINE)
# Only blank lines and comments may precede a header: in a string of a program it is no header.
_SCRIPT_HEADER: Final = re.compile(
    r"\A(?:[ \t]*(?:#.*)?\n)*?# ---[ \t]*\n(?P<yaml>(?:#.*\n)*?)# ---[ \t]*$", re.MULTILINE
)
_SCRIPT_FORMAT: Final = re.compile(r"^#[ \t]+format_name[ \t]*:[ \t]*['\"]?(?P<name>[\w-]+)", re.MULTILINE)
_FORMATS: Final = re.compile(r"^#?[ \t]+formats[ \t]*:[ \t]*['\"]?(?P<formats>[^'\"\n]+)", re.MULTILINE)
_JUPYTEXT_FENCE: Final = re.compile(
    r"^`{3,}[ \t]*\{?[ \t]*(?:r|bash|c#|c\+\+|clojure|coconut|cs|csharp|cython|f#|fs|fsharp|gnuplot|go|groovy|haskell|"
    r"html|idl|java|javascript|jenner|js|julia|latex|logtalk|lua|markdown|matlab|maxima|ocaml|octave|perl|powershell|"
    r"pypy|python[23]?|robotframework|ruby|rust|sage|sas|scala|scheme|script|sh|sos|spark|sql|stata|svg|tcl|typescript|xonsh)(?![\w#+-])",
    re.MULTILINE | re.IGNORECASE,
)
"""A fence in one of the languages that jupytext executes in a Markdown or R Markdown page."""
_PERCENT_CELL: Final = re.compile(r"^[ \t]*#[ \t]*%%", re.MULTILINE)

SCRIPT_FORMATS: Final = frozenset({"percent", "light", "sphinx", "hydrogen"})


def split_front_matter(text: str) -> tuple[str, int] | None:
    """
    Split the front matter from a text.

    Returns:
        Its YAML, and its number of lines including the two delimiters; ``None`` if there is none.
    """
    match = _FRONT_MATTER.match(text)
    if match is None:
        return None
    return match["yaml"], match.group().count("\n") + (0 if match.group().endswith("\n") else 1)


def is_myst_page(text: str) -> bool:
    """
    Return True if a Markdown page is a MyST notebook, or holds code-cells although no header makes it one.

    These headers count, as in myst-nb and mystmd: ``file_format: mystnb``, jupytext's ``format_name: myst``, or a
    ``kernelspec``. A page in another jupytext format (``markdown``) is not MyST.
    """
    has_header = has_myst_header(text)
    if has_header is not None:
        return has_header
    return CODE_CELL in text and next(find_code_cells(text), None) is not None


def has_myst_header(text: str) -> bool | None:
    """Return True if a header makes a page a MyST notebook, False if it has another format, ``None`` if neither."""
    front = split_front_matter(text)
    if front is None:
        return None
    header = front[0]
    format_name = _FORMAT_NAME.search(header)
    if format_name is not None:
        return format_name["name"] == "myst"
    return True if _MYST_HEADER.search(header) or _KERNELSPEC.search(header) else None


def looks_like_header(text: str) -> bool:
    """Return True if the text contains a header key of a notebook anywhere."""
    return any(pattern.search(text) for pattern in (_MYST_HEADER, _KERNELSPEC, _FORMAT_NAME))


def late_header(text: str) -> int | None:
    """Return the line of a notebook header that follows blank lines: no reader recognises it there."""
    blank = len(text) - len(text.lstrip())
    if blank and split_front_matter(text[blank:]) is not None and looks_like_header(text):
        return text.count("\n", 0, blank) + 1
    return None


def is_markdown_notebook(text: str) -> bool:
    """Return True if a page is a jupytext notebook in a Markdown format other than MyST."""
    front = split_front_matter(text)
    format_name = _FORMAT_NAME.search(front[0]) if front is not None else None
    return format_name is not None and format_name["name"] != "myst"


def find_code_cells(text: str) -> Iterator[int]:
    """
    Yield the lines (1-based) that open a code-cell, including those inside a directive that renders its body.

    Verbatim text is skipped: plain fences, ``code-block`` and the like, indented text and comments. This is an
    approximation: lists and quotes are not parsed.
    """
    verbatim: str | None = None
    rendered: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        match = FENCE.match(line)
        if match is None:
            continue
        mark, info = match["mark"], match["info"].strip()
        if verbatim is not None:
            if _closes(mark, info, verbatim):
                verbatim = None
        elif rendered and _closes(mark, info, rendered[-1]):
            rendered.pop()
        elif info.startswith(CODE_CELL):
            yield number
            verbatim = mark
        elif (directive := DIRECTIVE.match(info)) and directive["name"] not in VERBATIM_DIRECTIVES:
            rendered.append(mark)
        elif mark[0] != ":" or directive:
            verbatim = mark


def _closes(mark: str, info: str, opened: str) -> bool:
    return not info and mark[0] == opened[0] and len(mark) >= len(opened)


def script_format(head: str) -> str:
    """Return jupytext's format name from a script's header, or an empty string if it has no notebook header."""
    header = _SCRIPT_HEADER.search(head)
    found = _SCRIPT_FORMAT.search(header["yaml"]) if header is not None else None
    return found["name"] if found is not None and found["name"] in SCRIPT_FORMATS else ""


def paired_suffixes(text: str) -> frozenset[str]:
    """
    Return the suffixes under which jupytext keeps a document in one folder (``formats: ipynb,md:myst``).

    Forms in other folders or with other names (``notebooks//ipynb``) are ignored.
    """
    front = split_front_matter(text)
    script = _SCRIPT_HEADER.search(text) if front is None else None
    header = front[0] if front is not None else script["yaml"] if script is not None else ""
    found = _FORMATS.search(header)
    names = [item.partition(":")[0].strip() for item in found["formats"].split(",")] if found is not None else []
    return frozenset(f".{name.lower()}" for name in names if name.isalnum())


def has_jupytext_fences(text: str) -> bool:
    """Return True if jupytext finds a code cell in a Markdown or R Markdown page."""
    return _JUPYTEXT_FENCE.search(text) is not None


def has_percent_cells(text: str) -> bool:
    """Return True if a script has ``# %%`` cells."""
    return _PERCENT_CELL.search(text) is not None
