"""The directive ``{lecture-budget}`` for Sphinx, and so for Jupyter Book 1. Loaded by Sphinx only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from pytest_lecturecheck import __version__
from pytest_lecturecheck.page.budget_page import DIRECTIVE, PageError, find_root, match_lecture, page_table, read_facts

_LOG = logging.getLogger(__name__)


class LectureBudget(SphinxDirective):  # type: ignore[misc]  # Sphinx is not there where types are checked
    """A table of what this page's lecture needs, or with ``:all:`` of all lectures; nothing where nothing is known."""

    has_content = False
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, Any]] = {"all": directives.flag}

    def run(self) -> list[Any]:
        """Return the table."""
        root = find_root(Path(self.env.srcdir))
        if root is None:
            return []
        for path in (*(root / "lecture-budgets").glob("*.toml"), root / "lecture-history.jsonl"):
            self.env.note_dependency(str(path))
        try:
            facts = read_facts(root)
            page = (
                Path(self.env.srcdir, self.arguments[0])
                if self.arguments
                else Path(self.env.doc2path(self.env.docname))
            )
            rows = page_table(facts, None if "all" in self.options else match_lecture(facts, page, root))
        except (PageError, ValueError) as exc:
            _LOG.warning("%s: %s", DIRECTIVE, exc, location=self.get_location(), type="lecturecheck")
            return []
        return [_table(rows)] if rows else []


def _table(rows: list[tuple[str, ...]]) -> Any:
    group = nodes.tgroup(cols=len(rows[0]))
    group += [nodes.colspec(colwidth=1) for _ in rows[0]]
    group += nodes.thead("", _row(rows[0]))
    group += nodes.tbody("", *(_row(row) for row in rows[1:]))
    return nodes.table("", group, classes=["lecture-budget"])


def _row(texts: tuple[str, ...]) -> Any:
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=text)) for text in texts))


def register(app: Any) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive(DIRECTIVE, LectureBudget)
    return {"version": __version__, "parallel_read_safe": True, "parallel_write_safe": True}
