"""Notice that one module has been imported, without importing it."""

from __future__ import annotations

import contextlib
import sys
from typing import Any


class ImportWatch:
    """
    A finder that delegates to the other finders and reports when one module has been executed.

    Args:
        name: full name of the module.
        on_executed: called with the module, also after a reload; its exceptions are suppressed.
    """

    def __init__(self, name: str, on_executed: Any) -> None:
        """Watch for ``name``."""
        self.name = name
        self.on_executed = on_executed

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the other finders' spec of the watched module, and ``None`` for any other module."""
        if name != self.name:
            return None
        finders = (getattr(finder, "find_spec", None) for finder in tuple(sys.meta_path) if finder is not self)
        specs = (find_spec(name, path, target) for find_spec in finders if find_spec is not None)
        spec = next((spec for spec in specs if spec is not None), None)
        original = getattr(getattr(spec, "loader", None), "exec_module", None)
        if spec is None or original is None:
            return spec

        def exec_module(module: Any) -> None:
            original(module)
            # The agent must never be the reason why an import fails.
            with contextlib.suppress(Exception):
                self.on_executed(module)

        # A loader that rejects attributes is left alone: the module is then noticed at the end of the cell.
        with contextlib.suppress(AttributeError, TypeError):
            spec.loader.exec_module = exec_module
        return spec
