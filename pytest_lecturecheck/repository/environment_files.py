"""Which files of a repository decide about the environment of all lectures. Pure."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

_NAMES: Final = frozenset(
    {
        "apt.txt", "conda-lock.yml", "containerfile", "default.nix", "description", "dockerfile", "flake.lock",
        "flake.nix", "install.r", "manifest.toml", "pdm.lock", "pipfile", "pipfile.lock", "pixi.lock", "pixi.toml",
        "poetry.lock", "postbuild", "project.toml", "renv.lock", "runtime.txt", "setup.cfg", "setup.py", "start",
        "uv.lock", ".python-version",
    }
)  # fmt: skip
_PATTERN: Final = re.compile(
    r"(?:.*[-_.])?(?:requirements?|constraints?)(?:[-_.].*)?\.(?:txt|in)"
    r"|(?:.*[-_.])?environment(?:[-_.].*)?\.ya?ml"
    r"|(?:conda|pixi)[-_.].*\.lock|pylock(?:\..*)?\.toml"
)
_FOLDERS: Final = frozenset({"requirements", "binder", ".binder", ".devcontainer"})
_PROSE_ENDINGS: Final = (".md", ".rst", ".png", ".svg")


def decides_environment(relative: str) -> bool:
    """
    Return True if a file may change the environment of lectures: packages, locks, images, workflows.

    Args:
        relative: the path from the top of the repository.
    """
    path = PurePosixPath(relative)
    name = path.name.lower()
    if name in _NAMES or _PATTERN.fullmatch(name):
        return True
    if name.endswith(_PROSE_ENDINGS):
        return False
    parts = path.parts[:-1]
    return bool(_FOLDERS & set(parts)) or parts[:2] in {(".github", "workflows"), (".github", "actions")}
