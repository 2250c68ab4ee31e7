"""Files beside a lecture that a kernel takes for the modules they are named like."""

from __future__ import annotations

import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

_MOST_FILES: Final = 500


def find_shadowing_files(folder: Path) -> tuple[str, ...]:
    """
    List Python files of a kernel's folder that are named like a standard or an installed module.

    A kernel's own folder stands first on its module path. Installed packages are those of this interpreter.
    """
    try:
        files = sorted(path for path in folder.glob("*.py"))[:_MOST_FILES]
    except OSError:
        return ()
    libraries = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    return tuple(
        path.name
        for path in files
        if path.stem in sys.stdlib_module_names or PathFinder.find_spec(path.stem, libraries) is not None
    )
