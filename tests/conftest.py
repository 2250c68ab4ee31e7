"""Marks that follow from a test's folder."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
KERNEL_FOLDERS = frozenset({"acceptance", "kernel", "plugin"})
"""Folders whose tests may start kernels or whole sessions; ``make test-fast`` leaves them out."""


def pytest_collection_modifyitems(items):
    """Mark the tests of folders that start kernels, so that no test has to say it itself."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.relative_to(HERE).parts[0] in KERNEL_FOLDERS:
            item.add_marker(pytest.mark.kernel)
