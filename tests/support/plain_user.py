"""Run a command as a user without privileges, where the tests themselves run as root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

NOBODY = 65534
"""User and group that own nothing."""


def as_plain_user(command: Sequence[str]) -> list[str]:
    """
    Return the command that runs ``command`` as another user than root.

    The user keeps one capability, to read files: the interpreter may be below a folder that only root can enter.
    """
    setpriv = shutil.which("setpriv")
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("these tests run as a plain user already")
    if setpriv is None:
        pytest.fail("setpriv (util-linux) is needed to run a test as a plain user")
    capabilities = "-all,+dac_read_search"
    return [
        setpriv,
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        f"--inh-caps={capabilities}",
        f"--ambient-caps={capabilities}",
        f"--bounding-set={capabilities}",
        *command,
    ]


def open_to_all(folder: Path) -> None:
    """Let every user write to a test's folder, and reach it."""
    folder.chmod(0o777)
    for parent in folder.parents[:3]:
        if parent.stat().st_uid == os.geteuid() and parent != Path(parent.anchor):
            parent.chmod(parent.stat().st_mode | 0o055)
