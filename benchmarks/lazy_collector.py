"""The least a collector of notebooks can do (``-p lazy_collector``): one item for each file name, no file opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


class NotebookItem(pytest.Item):
    """An item that does nothing."""

    def runtest(self) -> None:
        """Do nothing."""


class NotebookFile(pytest.File):
    """A file that is not read."""

    def collect(self) -> Iterator[NotebookItem]:
        """Give one item."""
        yield NotebookItem.from_parent(self, name="notebook")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> NotebookFile | None:
    """Take every notebook."""
    return NotebookFile.from_parent(parent, path=file_path) if file_path.suffix == ".ipynb" else None
