"""
Describe what a kernel has at the end of a lecture: its software, and errors of tasks that nobody awaited.

Compiled after the last cell, because it imports modules that a bare kernel has not imported.
"""

from __future__ import annotations

import asyncio
import platform
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

_MOST_ERRORS = 10
_ERROR_CHARS = 300


def lost_task_errors() -> list[str]:
    """
    Return the errors of asyncio tasks that have ended and that the lecture still holds without having awaited them.

    Python prints such an error when the task is deleted. The kernel ends without deleting what the lecture holds.
    """
    # Tasks that exist, by the name of Python 3.12 or that of earlier versions.
    tasks: Any = getattr(asyncio.tasks, "_scheduled_tasks", None) or getattr(asyncio.tasks, "_all_tasks", ())
    errors = []
    for task in list(tasks):
        if task.done() and not task.cancelled() and getattr(task, "_log_traceback", False):
            error = task.exception()
            errors.append(f"{type(error).__name__}: {error}"[:_ERROR_CHARS])
    return errors[:_MOST_ERRORS]


def describe_software(
    baseline_modules: frozenset[str],
    variables: dict[str, str],
    distributions_of: Callable[[list[str]], dict[str, tuple[str, str]]],
) -> dict[str, Any]:
    """
    Return interpreter, packages imported since ``baseline_modules``, BLAS libraries and the given variables.

    Versions come from the distribution, or from the module's ``__version__`` if there is none.

    Args:
        baseline_modules: modules that the kernel had loaded before the lecture.
        variables: environment variables to report.
        distributions_of: finds the distributions of modules with another name.
    """
    packages, others = {}, []
    names = {name.partition(".")[0] for name in set(sys.modules) - baseline_modules}
    for name in sorted(names - sys.stdlib_module_names):
        if name.startswith("_"):
            continue
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            others.append(name)
    found = distributions_of(others)
    for name in others:
        version = found[name][1] if name in found else getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            packages[name] = version
    return {
        "distributions": {name: distribution for name, (distribution, _) in found.items()},
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": packages,
        "variables": dict(variables),
        "blas": _blas_libraries() if "numpy" in sys.modules else [],
    }


def _blas_libraries() -> list[str]:
    """Return the libraries as threadpoolctl sees them, or those that NumPy and SciPy were built with."""
    try:
        from threadpoolctl import threadpool_info  # noqa: PLC0415 - after the last cell, where it is installed
    except ImportError:
        return _built_with()
    lines = []
    for library in threadpool_info():
        parts = [str(library.get(key)) for key in ("internal_api", "version", "architecture") if library.get(key)]
        lines.append(f"{' '.join(parts)}, {library.get('num_threads')} threads")
    # It does not know all libraries: Accelerate of macOS is none of them.
    return sorted(set(lines)) or _built_with()


def _built_with() -> list[str]:
    """Return the BLAS and LAPACK libraries that imported packages name in their build configuration."""
    lines: dict[str, list[str]] = {}
    for package in ("numpy", "scipy"):
        show: Any = getattr(sys.modules.get(package), "show_config", None)
        try:
            # Before NumPy 1.26 and SciPy 1.11 there was no such mode.
            built = show(mode="dicts")["Build Dependencies"]
            named = [built[kind] for kind in ("blas", "lapack") if built[kind].get("name")]
        except Exception:  # noqa: BLE001, S112 - other programs' configuration: whatever it is, it is left out
            continue
        for library in named:
            version = str(library.get("version", ""))
            text = library["name"] + (f" {version}" if version[:1].isdigit() else "")
            if package not in lines.setdefault(text, []):
                lines[text].append(package)
    return [f"{text} ({' and '.join(packages)} built with it), threads unknown" for text, packages in lines.items()]
