"""The rules by which programs find the code-cells of a MyST page."""

from __future__ import annotations

from enum import StrEnum


class MystDialect(StrEnum):
    """
    A program that reads MyST pages.

    myst-nb executes top-level fences only. mystmd executes code-cells at any depth, in colon fences and in included
    files, in the order of the document. jupytext executes top-level fences too, but knows no colon fences: a fence
    inside one is at the top level for it.
    """

    MYST_NB = "myst-nb"
    MYSTMD = "mystmd"
    JUPYTEXT = "jupytext"
