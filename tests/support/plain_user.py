"""Run a command as a user without privileges, where the tests themselves run as root."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import pytest_lecturecheck

NOBODY = 65534
"""User and group that own nothing."""

# In a mount namespace of its own, each closed folder ($1, up to "--") is covered by an empty one that everybody may
# enter. What is needed of it is put back: first beside, and then where it was.
_OPEN_FOLDERS = """
set -e
beside=$1; shift
while [ "$1" != -- ]; do
    closed=$1; shift
    mount -t tmpfs -o mode=755 lecturecheck-test "$beside"
    count=0
    for needed in $(printf %s "$1" | tr : ' '); do
        count=$((count + 1)); mkdir "$beside/$count"; mount --bind "$needed" "$beside/$count"
    done
    mount -t tmpfs -o mode=755 lecturecheck-test "$closed"
    count=0
    for needed in $(printf %s "$1" | tr : ' '); do
        count=$((count + 1)); mkdir -p "$needed"; mount --move "$beside/$count" "$needed"
    done
    umount "$beside"
    shift
done
shift
exec "$@"
"""


def is_root() -> bool:
    """Return True if the tests run as root, and have to make a plain user."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def as_plain_user(command: Sequence[str]) -> list[str]:
    """
    Return the command that runs ``command`` as another user than root, without any capability.

    The interpreter may be below a folder that only root can enter. The user then has a view of the file system, in a
    mount namespace, in which the way to it is open. Where root may not make one, the user keeps the capability to read
    files. Programs that set their user (sudo) work as for any user.
    """
    if not is_root():
        pytest.skip("these tests run as a plain user already")
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.fail("setpriv (util-linux) is needed to run a test as a plain user")
    opened = _opening_command()
    capabilities = "-all" if opened is not None else "-all,+dac_read_search"
    return [
        *(opened or ()),
        setpriv,
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        f"--inh-caps={capabilities}",
        f"--ambient-caps={capabilities}",
        *command,
    ]


@functools.cache
def _opening_command() -> tuple[str, ...] | None:
    """Return the command that opens the way to the interpreter for all users; ``None`` if there can be none."""
    closed: dict[Path, list[Path]] = {}
    package = Path(pytest_lecturecheck.__file__).parent.parent
    for needed in sorted({Path(sys.prefix), Path(sys.base_prefix), package}):
        folders = [folder for folder in reversed((needed, *needed.parents)) if not folder.stat().st_mode & 0o005]
        if not folders:
            continue
        inner = closed.setdefault(folders[0], [])
        if folders[0] == needed or " " in str(needed):
            return None
        if not any(needed.is_relative_to(other) for other in inner):
            inner.append(needed)
    if not closed:
        return ()
    words = [word for folder, inner in closed.items() for word in (str(folder), ":".join(map(str, inner)))]
    opening = ("unshare", "--mount", "--propagation=private", "sh", "-c", _OPEN_FOLDERS, "sh", "/mnt", *words, "--")
    tried = subprocess.run([*opening, "true"], capture_output=True, check=False) if shutil.which("unshare") else None
    return opening if tried is not None and tried.returncode == 0 else None


def give_to_plain_user(*folders: Path) -> None:
    """Make the plain user the owner of test's folders and of what is in them."""
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def open_to_all(folder: Path) -> None:
    """Let every user write to a test's folder, and reach it."""
    folder.chmod(0o777)
    for parent in folder.parents[:3]:
        if parent.stat().st_uid == os.geteuid() and parent != Path(parent.anchor):
            parent.chmod(parent.stat().st_mode | 0o055)
