"""Find files beside a lecture that shadow a module of the same name."""

from __future__ import annotations

import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

_MOST_FILES: Final = 500


def find_shadowing_files(folder: Path) -> tuple[str, ...]:
    """
    Return the Python files in a kernel's folder that have the name of a standard or an installed module.

    A kernel's folder comes first on its module path. Installed packages are those of this interpreter.
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
