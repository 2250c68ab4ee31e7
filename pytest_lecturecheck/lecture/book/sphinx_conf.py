"""Read the constants of a Sphinx ``conf.py`` without executing it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

# Names of myst-nb before version 0.14.
_LEGACY: Final = {
    "jupyter_execute_notebooks": "nb_execution_mode",
    "execution_timeout": "nb_execution_timeout",
    "execution_excludepatterns": "nb_execution_excludepatterns",
    "execution_in_temp": "nb_execution_in_temp",
    "execution_allow_errors": "nb_execution_allow_errors",
    "jupyter_cache": "nb_execution_cache_path",
}
_NBSPHINX: Final = {
    "nbsphinx_timeout": "nb_execution_timeout",
    "nbsphinx_allow_errors": "nb_execution_allow_errors",
}
# Names that tell a Sphinx configuration from another file called conf.py.
_MARKS: Final = frozenset({"extensions", "exclude_patterns", "html_theme", "source_suffix", "master_doc", "root_doc"})


def current_names(values: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Map each ``nb_execution_*`` name to (name as written, value); a current name overrides a legacy one."""
    named = {new: (old, values[old]) for old, new in (_LEGACY | _NBSPHINX).items() if old in values}
    if values.get("nbsphinx_execute") == "never":
        named.setdefault("nb_execution_mode", ("nbsphinx_execute", "off"))
    own = ("nb_execution_", "nb_kernel_rgx_aliases")
    named.update({key: (key, value) for key, value in values.items() if key.startswith(own)})
    return named


def read_constants(text: str) -> tuple[dict[str, Any], dict[str, int]] | None:
    """
    Read the constant assignments of a ``conf.py``.

    Args:
        text: the file; it is parsed, never executed.

    Returns:
        Values and 1-based lines by name, without computed values; ``None`` if the file is not a Sphinx configuration.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for statement in tree.body:
        for name, node in _assigned(statement):
            try:
                values[name] = ast.literal_eval(node)
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                values.pop(name, None)
                continue
            lines[name] = statement.lineno
    known = _MARKS | _LEGACY.keys() | {"nbsphinx_execute"}
    if not any(name in known or name.startswith(("nb_", "nbsphinx_")) for name in values):
        return None
    return values, lines


def _assigned(statement: ast.stmt) -> list[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        return [(target.id, statement.value) for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and statement.value is not None and isinstance(statement.target, ast.Name):
        return [(statement.target.id, statement.value)]
    return []
