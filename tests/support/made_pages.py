"""Short ways to write the inputs of these tests."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

CASES = Path(__file__).parent.parent / "cases"

HEADER = dedent(
    """\
    ---
    jupytext:
      text_representation:
        extension: .md
        format_name: myst
    kernelspec:
      display_name: Python 3
      name: python3
    ---
    """
)
"""Nine lines of front matter: the body starts on line 10."""


def page(folder: Path, body: str, *, header: str = HEADER, name: str = "lecture.md") -> Path:
    path = folder / name
    path.write_text(header + dedent(body), encoding="utf-8", newline="\n")
    return path


def notebook(folder: Path, *cells: dict, metadata: dict | None = None, name: str = "lecture.ipynb", **top) -> Path:
    path = folder / name
    data = {"cells": list(cells), "metadata": metadata or {}, "nbformat": 4, "nbformat_minor": 4, **top}
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return path


def code(*lines: str, **metadata) -> dict:
    source = [f"{line}\n" for line in lines[:-1]] + [*lines[-1:]]
    return {"cell_type": "code", "metadata": metadata, "source": source, "outputs": [], "execution_count": None}
