"""The folder in which a profiler keeps the record of one cell."""

from __future__ import annotations

from pathlib import Path

from pytest_lecturecheck.files import remove_tree


def make_cell_folder(folder: Path, root: Path) -> Path:
    """
    Create the empty folder of one cell's record, and return it.

    Args:
        folder: the folder; what it held before is removed.
        root: pytest's rootdir. The folder must be below it even if the lecture created links.

    Raises:
        OSError: the folder would lie outside of ``root``, or cannot be created.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not folder.parent.resolve().is_relative_to(root.resolve()):
        msg = "it would lie outside of pytest's rootdir"
        raise OSError(msg)
    if folder.exists():
        remove_tree(folder)
    folder.mkdir()
    return folder
