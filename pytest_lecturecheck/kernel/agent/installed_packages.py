"""
What is installed in the kernel's environment, and what an install line changes.

Compiled when the first shell line runs, or after the last cell. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator


def installed_versions() -> dict[str, tuple[str, str]]:
    """Return version and metadata folder of each installed distribution, from the names of those folders."""
    found: dict[str, tuple[str, str]] = {}
    for stem, folder in _metadata_folders():
        distribution, dash, version = stem.partition("-")
        if dash:
            found.setdefault(distribution.lower(), (version, folder))
    return found


def _metadata_folders() -> Iterator[tuple[str, str]]:
    """Yield the name of each distribution's metadata without its ending, and its path."""
    for folder in sys.path:
        with contextlib.suppress(OSError):
            for name in os.listdir(folder or "."):  # noqa: PTH208 - the agent imports no more than it needs
                stem, dot, kind = name.rpartition(".")
                if dot and kind in {"dist-info", "egg-info"}:
                    yield stem, f"{folder}/{name}"


def replaced_modules(before: dict[str, tuple[str, str]]) -> list[str]:
    """
    Return the distributions whose version an install line has changed although a module of theirs was imported.

    Args:
        before: what :func:`installed_versions` returned before the line ran; empty for any other line.
    """
    after = installed_versions() if before else {}
    replaced = []
    for name, (version, _) in before.items():
        new, folder = after.get(name, ("", ""))
        if new and new != version and any(module in sys.modules for module in _modules_of(name, folder)):
            replaced.append(f"{name} {version} -> {new}")
    return replaced


def _modules_of(name: str, folder: str) -> list[str]:
    # Many wheels list their modules; of others the module is mostly named like the distribution.
    return [*_text(f"{folder}/top_level.txt").split(), name.replace("-", "_")]


def distributions_of(modules: Iterable[str]) -> dict[str, tuple[str, str]]:
    """
    Return name and version of the distributions that provide modules of another name (``PIL``: ``pillow``).

    As ``importlib.metadata.packages_distributions`` finds them, which takes half a second in a large environment,
    because it parses the list of files of every distribution. A module of several distributions is left out.
    """
    wanted, found = set(modules), dict[str, set[tuple[str, str]]]()
    if not wanted:
        return {}
    names = "|".join(map(re.escape, sorted(wanted)))
    in_record = re.compile(rf"^({names})(?:/|\.py,|\.[\w.-]+\.(?:so|pyd),)", re.MULTILINE)
    for _, folder in _metadata_folders():
        listed = _text(f"{folder}/top_level.txt").split()
        provided = wanted.intersection(listed or in_record.findall(_text(f"{folder}/RECORD")))
        if provided and (described := _described(folder)) is not None:
            for module in provided:
                found.setdefault(module, set()).add(described)
    return {module: next(iter(items)) for module, items in found.items() if len(items) == 1}


def _described(folder: str) -> tuple[str, str] | None:
    header = (_text(f"{folder}/METADATA") or _text(f"{folder}/PKG-INFO")).partition("\n\n")[0]
    name, version = (re.search(rf"^{key}: *(\S+)", header, re.MULTILINE) for key in ("Name", "Version"))
    return None if name is None or version is None else (name[1], version[1])


def _text(path: str) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:  # noqa: PTH123 - as above
        return file.read()
    return ""


def installed_stamp() -> dict[str, int]:
    """
    Return the times at which the folders of installed packages changed last.

    Every installer adds or removes an entry there: pip and uv the folder of a distribution's metadata, conda a file in
    ``conda-meta``.
    """
    folders = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    stamp = {}
    for path in (*folders, os.path.join(sys.prefix, "conda-meta")):  # noqa: PTH118 - the agent loads next to nothing
        try:
            stamp[path] = os.stat(path).st_mtime_ns  # noqa: PTH116 - as above
        except OSError:
            continue
    return stamp
