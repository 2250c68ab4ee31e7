"""
Recognise replay folders that this user made: a stamp over all files, keyed with a secret of this user's state folder.

A folder from somebody else, or one that was changed since, has no stamp that fits. Loading one runs code from it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_lecturecheck.files import open_plain, read_plain_bytes
from pytest_lecturecheck.store.atomic import write_text_atomically

STAMP_FILE: Final = "stamp.json"
_SECRET_BYTES: Final = 32
_MOST_STAMP_BYTES: Final = 1 << 24
_MOST_FILES: Final = 10_000
_BLOCK_BYTES: Final = 1 << 20


def secret_path(environ: Mapping[str, str], home: Path) -> Path:
    """Return the file of this user's secret, in the state folder of the XDG specification, or in LOCALAPPDATA."""
    given = environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_STATE_HOME", "")
    base = Path(given) if given and Path(given).is_absolute() else home / ".local" / "state"
    return base / "pytest-lecturecheck" / "replay-secret"


def stamp_folder(folder: Path, secret_file: Path) -> None:
    """
    Write the stamp of a folder; the secret is made at the first call.

    Raises:
        OSError: a file or the secret cannot be read or written.
    """
    files = _digests(folder)
    document = {"files": files, "mac": _mac(files, _secret(secret_file))}
    write_text_atomically(folder / STAMP_FILE, json.dumps(document, indent=1) + "\n")


def why_foreign(folder: Path, secret_file: Path) -> str:
    """
    Return why a folder is not known to be as this user made it; empty if it is.

    Raises:
        OSError: a file of the folder cannot be read.
    """
    try:
        document = json.loads(read_plain_bytes(folder / STAMP_FILE, most_bytes=_MOST_STAMP_BYTES, follow_links=False))
        stated, mac = dict(document["files"]), str(document["mac"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "it has no stamp that can be read"
    if not secret_file.is_file():
        return "this user has stamped no folder here"
    if not hmac.compare_digest(mac.encode(), _mac(stated, _secret(secret_file)).encode()):
        return "its stamp is not this user's"
    found = _digests(folder)
    changed = sorted(name for name in {*found, *stated} if found.get(name) != stated.get(name))
    return f"{changed[0]!r} was changed, added or removed since it was made" if changed else ""


def _mac(files: Mapping[str, str], secret: bytes) -> str:
    text = json.dumps(dict(sorted(files.items())), sort_keys=True)
    return hmac.new(secret, text.encode("ascii"), hashlib.sha256).hexdigest()


def _secret(path: Path) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SECRET_BYTES))
    found = read_plain_bytes(path, most_bytes=_SECRET_BYTES, follow_links=False)
    if len(found) != _SECRET_BYTES:
        # Cut short: whoever could guess the rest could stamp folders.
        msg = f"{path} has {len(found)} bytes; expected {_SECRET_BYTES}. Remove it; folders made before need --trust"
        raise OSError(msg)
    return found


def _digests(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        name = path.relative_to(folder).as_posix()
        if name == STAMP_FILE:
            continue
        with open_plain(path, most_bytes=None, follow_links=False) as file:
            digest = hashlib.sha256()
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
            found[name] = digest.hexdigest()
        if len(found) > _MOST_FILES:
            msg = f"{folder} has more than {_MOST_FILES:,} files; expected those of one replay"
            raise OSError(msg)
    return found
