"""Describe the software installed for a kernel from file names only, without importing or starting anything."""

from __future__ import annotations

import os
import platform
import shutil
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_lecturecheck.errors import KernelStartError
from pytest_lecturecheck.kernel.process.specs import find_spec

_DISTRIBUTION_SUFFIXES: Final = (".dist-info", ".egg-info", ".egg-link")


def describe_kernel(spec_name: str | None) -> tuple[str, ...]:
    """
    Describe the environment of a kernel. Equal descriptions mean equal installed software.

    For the running interpreter: its version and the metadata folders of all distributions, whose names hold the
    version. For any other kernel: the kernelspec's command and the modification time of its program.

    Args:
        spec_name: kernelspec; ``None`` for the running interpreter's own.
    """
    name = spec_name or "python3"
    try:
        spec = find_spec(name)
    except KernelStartError:
        return (name, "not to be started")
    argv = [resolve_program(str(word)) if not position else str(word) for position, word in enumerate(spec.argv)]
    if argv and is_running_interpreter(argv[0]):
        return (name, *argv[1:], *describe_interpreter(os.environ))
    return (name, *argv, *_program_time(argv))


def resolve_program(program: str) -> str:
    """Resolve a kernelspec's program as jupyter_client does: a bare ``python`` means the running interpreter."""
    major, minor = sys.version_info[:2]
    if program in {"python", f"python{major}", f"python{major}.{minor}"}:
        return sys.executable
    return shutil.which(program) or program


def is_running_interpreter(program: str) -> bool:
    """Compare folder and target: interpreters of virtual environments are links to a shared one."""
    mine, its = Path(sys.executable), Path(program)
    return its.parent.resolve() == mine.parent.resolve() and its.resolve() == mine.resolve()


def _program_time(argv: Sequence[str]) -> tuple[str, ...]:
    try:
        return (str(Path(argv[0]).stat().st_mtime_ns),)
    except (IndexError, OSError):
        return ("no such program",)


def describe_interpreter(environ: Mapping[str, str]) -> tuple[str, ...]:
    """
    Describe the running interpreter: its version and the distributions on the path of a new process.

    Args:
        environ: the environment, for ``PYTHONPATH``; only names found in those folders are returned.
    """
    return (sys.implementation.name, platform.python_version(), *sorted(set(_distributions(environ))))


def _distributions(environ: Mapping[str, str]) -> Iterator[str]:
    for folder in package_folders(environ):
        yield from (name for name in _names(folder) if name.endswith(_DISTRIBUTION_SUFFIXES))
    # conda packages that are no Python distributions.
    yield from (name for name in _names(Path(sys.prefix) / "conda-meta") if name.endswith(".json"))


def package_folders(environ: Mapping[str, str]) -> list[str]:
    """Return the folders in which a new process of the running interpreter looks for installed packages."""
    # Not sys.path, because pytest and conftest files add to it.
    folders = [*site.getsitepackages(), *environ.get("PYTHONPATH", "").split(os.pathsep)]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return [folder for folder in folders if folder]


def _names(folder: str | Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - only the names of thousands of files are needed
    except OSError:
        return []
