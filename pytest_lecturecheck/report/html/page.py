"""
Assemble the page: template, style, scripts, data, and the policy that keeps everything else out.

Jinja2 escapes everything that comes from lectures, and the scripts read their data from blocks that are never executed.
The policy names the style and the two scripts by their hashes, so that nothing else on the page can run or be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.report.entry import Entry
from pytest_lecturecheck.report.html.charts import lecture_data, points_for
from pytest_lecturecheck.report.html.detail import detail_of
from pytest_lecturecheck.report.html.overview import overview_of

_TEMPLATE: Final = "page.html.jinja"
_NOTHING: Final = (
    "default-src 'none'",
    "base-uri 'none'",
    "connect-src 'none'",
    "form-action 'none'",
    "frame-src 'none'",
    "img-src 'none'",
    "object-src 'none'",
)
# Characters that could end a script block or begin a comment in it. ASCII output already escapes U+2028 and U+2029.
_DATA_ESCAPES: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def render_html(
    entries: Sequence[Entry], *, title: str = "Lecture check", platform: str = "", machine: Machine | None = None
) -> str:
    """
    Render the session's entries as one self-contained page; text from lectures cannot become markup or code.

    Args:
        entries: the session's entries, in the order of the session.
        title: heading of the page.
        platform: platform label.
        machine: the machine, or ``None`` if it is unknown.
    """
    style, scripts = _style(), _scripts()
    most_points = points_for(len(entries))
    lectures = [(detail_of(entry), data_block(lecture_data(entry, most_points))) for entry in entries]
    return (
        _environment()
        .get_template(_TEMPLATE)
        .render(
            title=title,
            policy=content_policy(style, scripts),
            style=Markup(style),  # noqa: S704 - a file of this package
            scripts=[Markup(script) for script in scripts],  # noqa: S704 - files of this package
            overview=overview_of(entries, platform=platform, machine=machine),
            lectures=lectures,
        )
    )


def content_policy(style: str, scripts: Sequence[str]) -> str:
    """Return the content security policy of a page with this one style block and these script blocks."""
    script_hashes = " ".join(_hash_source(script) for script in scripts)
    return "; ".join((*_NOTHING, f"script-src {script_hashes}", f"style-src {_hash_source(style)}"))


def _hash_source(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def data_block(value: Any) -> Markup:
    """
    Return a value as the content of a ``<script type="application/json">`` that it cannot leave.

    Raises:
        ValueError: the value holds NaN or an infinite number, which JSON does not allow.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, escaped in _DATA_ESCAPES.items():
        text = text.replace(character, escaped)
    return Markup(text)  # noqa: S704 - it holds nothing that HTML could act on


@cache
def _environment() -> Environment:
    return Environment(
        autoescape=True,
        loader=FunctionLoader(_asset),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


def _style() -> str:
    return f"{_asset('uplot/uPlot.min.css').strip()}\n{_asset('style.css')}"


def _scripts() -> tuple[str, str]:
    licence = _asset("uplot/LICENSE").strip()
    return f"/*!\nuPlot\n\n{licence}\n*/\n{_asset('uplot/uPlot.iife.min.js').strip()}\n", _asset("report.js")
