"""Folders for JAX's compile cache that are empty when a lecture is first run, and gone when the session ends."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pytest_lecturecheck.config.environment import CACHE_VARIABLE

COLD: Final = "cold"
"""The compile cache was empty when the run began."""
WARM: Final = "warm"
"""An earlier run of the same session has filled it."""
_KEEP_ALL: Final = {
    # By default JAX keeps only what took a second to compile.
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


class CompileCaches:
    """
    One folder for each lecture and variant, made when it is first asked for.

    Args:
        guard: receives the folder of all, and removes it when the session ends, however that happens.
    """

    def __init__(self, guard: Callable[[Path], None]) -> None:
        """Make no folder yet."""
        self._guard = guard
        self._root: Path | None = None
        self._folders: dict[tuple[str, str], Path] = {}

    def variables(self, lecture: str, variant: str) -> tuple[dict[str, str], str]:
        """
        Return the variables for the kernel of the next run, and whether its compile cache is cold or warm.

        Args:
            lecture: the lecture's name.
            variant: the name of its variant or cohort.
        """
        is_first = (lecture, variant) not in self._folders
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="lecturecheck-compiled-"))
            self._guard(self._root)
        folder = self._folders.setdefault((lecture, variant), self._root / f"{len(self._folders) + 1}")
        folder.mkdir(exist_ok=True)
        return {CACHE_VARIABLE: str(folder), **_KEEP_ALL}, COLD if is_first else WARM
