"""Repositories of git in temporary folders."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PAGE = """\
---
kernelspec:
  name: python3
  display_name: Python 3
---
# A page

Prose.

```{code-cell}
%s
```
"""


def page(code: str, prose: str = "Prose.") -> str:
    """Return a MyST page with one code cell."""
    return (PAGE % code).replace("Prose.", prose)


def git(folder: Path, *arguments: str) -> str:
    """Call git, with a name and no configuration of the user."""
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True)
    return done.stdout.decode()


def write(folder: Path, files: dict[str, str]) -> None:
    """Write text files below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def make_repository(folder: Path, files: dict[str, str]) -> Path:
    """Make a repository with one commit, which is tagged ``base``."""
    write(folder, files)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "base")
    git(folder, "tag", "base")
    return folder
