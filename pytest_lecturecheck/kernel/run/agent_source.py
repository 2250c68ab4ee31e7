"""
Read the source of modules of the agent. They run in kernels; here they are not imported, which would take time.

A module is known by its name below :mod:`pytest_lecturecheck.kernel.agent`.
"""

from __future__ import annotations

import functools
import re
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Final

from pytest_lecturecheck.kernel import agent

_FOLDER: Final = Path(agent.__file__).parent
_FUTURE: Final = "from __future__ import annotations\n"
_IMPORT: Final = re.compile(
    r"^from pytest_lecturecheck\.kernel\.agent\.(\w+) import (?:\([^)]*\)|[^\n(]*)\n", re.MULTILINE
)


@functools.cache
def module_source(name: str) -> str:
    """Return the source of one module as it stands in its file."""
    return (_FOLDER / f"{name}.py").read_text(encoding="utf-8")


def module_code(name: str, file: str) -> CodeType:
    """
    Return one module compiled for this interpreter, from the cache of compiled modules where it is there.

    Args:
        name: the module.
        file: the file name that tracebacks show.
    """
    path = str(_FOLDER / f"{name}.py")
    code = SourceFileLoader(f"{agent.__name__}.{name}", path).get_code(f"{agent.__name__}.{name}")
    assert code is not None  # noqa: S101 - for the type checker; a source file has code
    return _named(code, file)


def _named(code: CodeType, file: str) -> CodeType:
    constants = tuple(_named(item, file) if isinstance(item, CodeType) else item for item in code.co_consts)
    return code.replace(co_filename=file, co_consts=constants)


@functools.cache
def agent_source(name: str) -> str:
    """
    Return source that runs in a kernel whose environment does not have this package.

    What the module imports of the agent stands in front of it, once. All names are then in one namespace.
    """
    return _FUTURE + "".join(_sources(name, set()))


def _sources(name: str, seen: set[str]) -> list[str]:
    seen.add(name)
    text = module_source(name)
    needed = [part for other in _IMPORT.findall(text) if other not in seen for part in _sources(other, seen)]
    return [*needed, _IMPORT.sub("", text).replace(_FUTURE, "", 1)]
