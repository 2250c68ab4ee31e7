"""Work out the keys of the caches: one for each system, platform and set of installed packages."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

from files_of_actions import given, plain, set_outputs

FORMAT = "1"


def main() -> None:
    """Set the outputs ``key``, ``restore``, ``restore-book``, ``book``, ``history`` and ``label``."""
    label = _platform_label()
    packages = sorted({f"{item.name}=={item.version}" for item in distributions()})
    digest = hashlib.sha256("\n".join([platform.python_version(), *packages]).encode()).hexdigest()[:16]
    # "build-" and "jupyter-cache-" begin the keys of QuantEcon/actions, whose prefixes must not match these.
    base = f"lecturecheck-{FORMAT}-{sys.platform}-{platform.machine()}-{label}"
    ref = re.sub(r"[^A-Za-z0-9._-]", "_", os.environ.get("GITHUB_REF_NAME", ""))[:80]
    run = f"{os.environ.get('GITHUB_RUN_ID', '0')}-{os.environ.get('GITHUB_RUN_ATTEMPT', '1')}"
    prefixes = [f"{base}-{digest}-{ref}-", f"{base}-{digest}-", f"{base}-"]
    set_outputs(
        {
            "key": f"{base}-{digest}-{ref}-{run}",
            "restore": "\n".join(prefixes),
            # What a book shows depends on its packages: an entry of other ones is never restored.
            "restore-book": "\n".join(f"book-{prefix}" for prefix in prefixes[:2]),
            "book": book_cache(),
            "history": given("HISTORY", "lecture-history.jsonl" if given("HISTORY_BRANCH") else ""),
            "label": label,
        }
    )


def book_cache() -> str:
    """Return the book's cache if it is to be restored here; what another action has restored must not be replaced."""
    book = given("BOOK_CACHE")
    if book == "auto":
        # Only the session reads the book's configuration.
        return ""
    if book and Path(book).exists():
        sys.stdout.write(f"the book's cache {plain(book)!r} is there already, so it is not restored here\n")
        return ""
    return book


def _platform_label() -> str:
    if label := given("PLATFORM"):
        return re.sub(r"[^A-Za-z0-9._-]", "_", label)
    done = subprocess.run(
        [sys.executable, "-m", "pytest_lecturecheck.commands.main", "platform"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[0].strip()


if __name__ == "__main__":
    main()
