"""The nbformat side of text notebooks: cells without ids, format 4.4, as myst-nb makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import nbformat


def to_node(data: Mapping[str, Any]) -> Any:
    """Turn plain types into nbformat's ``NotebookNode``."""
    from_dict: Any = nbformat.from_dict  # nbformat publishes no types for it
    return from_dict(dict(data))


def convert(node: object, major: int) -> Any:
    """Upgrade a notebook of an older major version."""
    upgrade: Any = nbformat.convert
    return upgrade(node, major)


def make_notebook(metadata: Mapping[str, Any], cells: Iterable[Mapping[str, Any]]) -> Any:
    """Make a notebook of cells."""
    return to_node({"nbformat": 4, "nbformat_minor": 4, "metadata": dict(metadata), "cells": list(cells)})


def make_code_cell(source: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Make a code cell without outputs."""
    metadata = dict(metadata)
    return {"cell_type": "code", "metadata": metadata, "source": source, "outputs": [], "execution_count": None}


def make_text_cell(source: str, metadata: Mapping[str, Any], *, kind: str = "markdown") -> dict[str, Any]:
    """Make a markdown or raw cell."""
    return {"cell_type": kind, "metadata": dict(metadata), "source": source}
