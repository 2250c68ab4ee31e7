"""
Describe the environment of an interpreter: its build and origin, BLAS and LAPACK, and all distributions.

Runs in the kernel's interpreter, as a program of its own or, where that is this one, as a function. It imports the
standard library only and loads neither NumPy nor SciPy: what ``show_config`` prints stands in a file of theirs.
"""

from __future__ import annotations

import ast
import json
import os
import platform
import re
import sys
import sysconfig
from typing import Any

_NOT_SYSTEM = re.compile(r"site-packages")
_ORIGINS = (
    (r"[/\\]uv[/\\]python[/\\]", "uv (python-build-standalone)"),
    (r"[/\\]\.pyenv[/\\]|[/\\]pyenv[/\\]", "pyenv"),
    (r"/opt/homebrew/|/Cellar/|/linuxbrew/", "Homebrew"),
    (r"hostedtoolcache", "GitHub's tool cache"),
    (r"/Library/Frameworks/Python\.framework", "python.org"),
    (r"/Library/Developer/|/Applications/Xcode", "Xcode"),
    (r"WindowsApps", "Microsoft Store"),
)
_BLAS_KEYS = ("blas", "lapack")


def describe_environment(folders: Any = None) -> dict[str, Any]:
    """
    Return facts of this interpreter, and its distributions.

    Args:
        folders: folders in which modules are looked for, instead of ``sys.path``.

    Returns:
        ``facts``: text by name; ``distributions``: version and installer by name.
    """
    paths = [str(path) for path in (sys.path if folders is None else folders) if path]
    facts = {
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "Python build": f"{' '.join(platform.python_build()[:1])}, {platform.python_compiler()}".strip(", "),
        "Python from": _origin(),
        "C library": _libc(),
    }
    for package, title in (("numpy", "NumPy"), ("scipy", "SciPy")):
        found = _built_with(paths, package)
        for key in _BLAS_KEYS:
            facts[f"{key.upper()} that {title} was built with"] = found.get(key, "")
    return {"facts": {name: text for name, text in facts.items() if text}, "distributions": _distributions(paths)}


def _origin() -> str:
    base = sys.base_prefix
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")) or os.path.isdir(os.path.join(base, "conda-meta")):  # noqa: PTH112, PTH118 - also of old interpreters
        origin = "conda"
    else:
        origin = next((name for pattern, name in _ORIGINS if re.search(pattern, f"{base}{os.sep}")), "")
        if not origin:
            layout = sysconfig.get_default_scheme() if hasattr(sysconfig, "get_default_scheme") else ""
            packaged = "deb_system" in sysconfig.get_scheme_names() or layout == "posix_local"
            is_system = base in {"/usr", "/"} and packaged
            origin = "system package" if is_system or base == "/usr" else "built or unpacked by hand"
    return f"{origin}, in a virtual environment" if sys.prefix != base else origin


def _libc() -> str:
    name, version = platform.libc_ver()
    return f"{name} {version}".strip()


def _built_with(paths: list[str], package: str) -> dict[str, str]:
    """Return name and version of BLAS and LAPACK from ``package/__config__.py``, by key."""
    for folder in paths:
        try:
            with open(os.path.join(folder, package, "__config__.py"), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - as above
                return parse_build_config(file.read())
        except (OSError, UnicodeDecodeError):
            continue
    return {}


def parse_build_config(text: str) -> dict[str, str]:
    """
    Return BLAS and LAPACK that a package was built with, from the text of its ``__config__.py``.

    Packages built by Meson have a table "Build Dependencies"; those built by distutils one table per library.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values):  # noqa: B905 - also of old interpreters
                name = getattr(key, "value", None)
                if name in _BLAS_KEYS and isinstance(value, ast.Dict):
                    entry = _constants(value)
                    words = (str(entry.get("name", "")), str(entry.get("version", "")))
                    found[name] = " ".join(word for word in words if word and word != "unknown")
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            name = str(getattr(node.targets[0], "id", ""))
            if name.endswith("_opt_info"):
                libraries = " ".join(dict.fromkeys(map(str, _constants(node.value).get("libraries", []))))
                found[name.partition("_")[0]] = found.get(name.partition("_")[0]) or libraries
    return {name: value for name, value in found.items() if value}


def _constants(node: ast.Dict) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for key, value in zip(node.keys, node.values):  # noqa: B905 - as above
        try:
            entry[str(getattr(key, "value", ""))] = ast.literal_eval(value)
        except ValueError:
            continue
    return entry


def _distributions(paths: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in paths:
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208 - as above
        except OSError:
            continue
        for entry in names:
            stem, dot, kind = entry.rpartition(".")
            name, dash, version = stem.partition("-")
            if dot and dash and kind in {"dist-info", "egg-info"}:
                version = re.sub(r"-py[0-9.]+$", "", version)
                origin = _installer(os.path.join(folder, entry), folder)  # noqa: PTH118 - as above
                found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), f"{version} ({origin})")
    return found


def _installer(metadata: str, folder: str) -> str:
    """Return what installed a distribution: "pip", "conda", "system", with "local folder" or "version control"."""
    installer = _first_line(os.path.join(metadata, "INSTALLER"))  # noqa: PTH118 - as above
    if not installer or (installer == "debian" and not _NOT_SYSTEM.search(folder)):
        installer = "system" if "dist-packages" in folder else installer or "unknown installer"
    try:
        with open(os.path.join(metadata, "direct_url.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - as above
            direct = json.load(file)
    except (OSError, ValueError):
        return installer
    if not isinstance(direct, dict):
        return installer
    # Its address may name a user or a host.
    kind = "version control" if "vcs_info" in direct else "local folder" if "dir_info" in direct else "archive"
    return f"{installer}, {kind}"


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - as above
            return file.readline(100).strip()
    except (OSError, UnicodeDecodeError):
        return ""


if __name__ == "__main__":
    json.dump(describe_environment(), sys.stdout)
