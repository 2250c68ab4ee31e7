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

from files_of_actions import given, set_outputs

FORMAT = "1"


def main() -> None:
    """Set the outputs ``key``, ``restore`` and ``paths``."""
    label = _platform_label()
    packages = sorted({f"{item.name}=={item.version}" for item in distributions()})
    digest = hashlib.sha256("\n".join([platform.python_version(), *packages]).encode()).hexdigest()[:16]
    # "build-" and "jupyter-cache-" begin the keys of QuantEcon/actions, whose prefixes must not match these.
    base = f"lecturecheck-{FORMAT}-{sys.platform}-{platform.machine()}-{label}"
    ref = re.sub(r"[^A-Za-z0-9._-]", "_", os.environ.get("GITHUB_REF_NAME", ""))[:80]
    run = f"{os.environ.get('GITHUB_RUN_ID', '0')}-{os.environ.get('GITHUB_RUN_ATTEMPT', '1')}"
    set_outputs(
        {
            "key": f"{base}-{digest}-{ref}-{run}",
            "restore": "\n".join([f"{base}-{digest}-{ref}-", f"{base}-{digest}-", f"{base}-"]),
            "paths": "\n".join(cached_paths()),
            "label": label,
        }
    )


def cached_paths() -> list[str]:
    """Return what is kept between jobs: compile cache, memory of failures, history, and the book's cache."""
    paths = [".lecturecheck", given("HISTORY"), given("BOOK_CACHE")]
    book = paths[-1]
    if book and Path(book).exists():
        # Another action has restored it; what it restored must not be written over.
        sys.stdout.write(f"the book's cache {book!r} is there already, so it is not restored here\n")
        paths.pop()
    return [path for path in paths if path]


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
