"""Put the source of a module of the agent together with the modules of the agent that it imports."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Final

_FUTURE: Final = "from __future__ import annotations\n"
_IMPORT: Final = re.compile(
    r"^from (pytest_lecturecheck\.kernel\.agent\.\w+) import (?:\([^)]*\)|[^\n(]*)\n", re.MULTILINE
)


@functools.cache
def agent_source(module: ModuleType) -> str:
    """
    Return source that runs in a kernel whose environment does not have this package.

    What the module imports of the agent stands in front of it, once. All names are then in one namespace.
    """
    return _FUTURE + "".join(_sources(module, set()))


def _sources(module: ModuleType, seen: set[str]) -> list[str]:
    seen.add(module.__name__)
    text = Path(str(module.__file__)).read_text(encoding="utf-8")
    names = [name for name in _IMPORT.findall(text) if name not in seen]
    needed = [part for name in names if name not in seen for part in _sources(importlib.import_module(name), seen)]
    return [*needed, _IMPORT.sub("", text).replace(_FUTURE, "", 1)]
