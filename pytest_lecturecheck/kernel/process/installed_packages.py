"""Look up the packages of a kernel's environment from files, without starting the kernel."""

from __future__ import annotations

import functools
import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.kernel.process.installed import is_running_interpreter, resolve_program
from pytest_lecturecheck.kernel.process.specs import find_spec

_LIBRARY: Final = re.compile(r"python(?P<version>\d+\.\d+)t?")


class InstalledPackages:
    """
    The packages of one interpreter.

    Args:
        python: its implementation and version; for another interpreter than this one only the first two parts.
        paths: the folders of its packages; ``None`` for this interpreter's own.
    """

    def __init__(self, python: str, paths: list[str] | None = None) -> None:
        """Look nothing up yet."""
        self.python = python
        self._paths = paths
        self._by_module: dict[str, str] | None = None

    def version(self, module: str) -> str | None:
        """Return the version of the package that a module of this name belongs to, or ``None``."""
        where: Any = {} if self._paths is None else {"path": self._paths}
        for found in metadata.distributions(name=module, **where):
            return str(found.version)
        # The package has another name than its module.
        if self._by_module is None:
            self._by_module = self._read_modules()
        return self._by_module.get(module)

    def _read_modules(self) -> dict[str, str]:
        found: dict[str, str] = {}
        where: Any = {} if self._paths is None else {"path": self._paths}
        for distribution in metadata.distributions(**where):
            listed = distribution.read_text("top_level.txt")
            names = (
                listed.split() if listed else {file.parts[0].removesuffix(".py") for file in distribution.files or ()}
            )
            for name in names:
                found.setdefault(name, distribution.version)
        return found


@functools.cache
def find_packages(spec_name: str | None) -> InstalledPackages | None:
    """Return the packages of a kernel's environment; ``None`` if it is no Python kernel, or not to be found."""
    try:
        spec = find_spec(spec_name or "python3")
    except KernelStartError:
        return None
    program = resolve_program(str(spec.argv[0]))
    if is_running_interpreter(program):
        return InstalledPackages(f"{platform.python_implementation()} {platform.python_version()}")
    prefix = Path(program).parent.parent
    folders = [prefix / "Lib"] if sys.platform == "win32" else sorted((prefix / "lib").glob("python*"))
    for folder in folders:
        match = _LIBRARY.fullmatch(folder.name)
        if (folder / "site-packages").is_dir():
            python = f"{platform.python_implementation()} {match['version']}" if match else ""
            return InstalledPackages(python, [str(folder / "site-packages")])
    return None
