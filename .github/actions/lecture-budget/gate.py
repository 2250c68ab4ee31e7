"""Run the gate: pytest with the options that the inputs of the action stand for. Its exit code is the step's."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from files_of_actions import given, is_on, plain

KEPT = Path(".lecturecheck", "history-of-jobs.jsonl")


def command(folder: Path) -> list[str]:
    """Return the command line; nothing of it is read by a shell."""
    line = [sys.executable, "-m", "pytest", "--lecture-budget"]
    line += ["--lecture-strict"] if is_on("STRICT") else []
    for name, option in (
        ("CHANGED", "--lecture-changed"),
        ("PLATFORM", "--lecture-platform"),
        ("HISTORY", "--lecture-history"),
        ("BOOK_CACHE", "--lecture-cache"),
        ("PROFILE", "--lecture-env-profile"),
    ):
        line += [f"{option}={given(name)}"] if given(name) else []
    line += ["-n", given("WORKERS")] if given("WORKERS") else []
    for name in ("report.json", "report.html", "report.md"):
        line.append(f"--lecture-report={folder / name}")
    line.append(f"--junitxml={folder / 'junit.xml'}")
    line += shlex.split(given("ARGS"))
    # A name that begins with a dash is no option.
    return [*line, *(path if not path.startswith("-") else f"./{path}" for path in shlex.split(given("LECTURES", ".")))]


def bring_history(path: Path) -> None:
    """Take the history of earlier jobs out of the cache; a history that is committed is newer, and stays."""
    if path.name and not path.exists() and KEPT.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(KEPT, path)


def keep_history(path: Path) -> None:
    """Put the history where the cache is taken from."""
    if path.name and path.is_file():
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, KEPT)


def main() -> int:
    """Run the gate and return its exit code."""
    folder = Path(given("OUTPUT_DIR", "lecture-report")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # A report of an earlier step must not be taken for this one's.
    for name in ("report.json", "report.html", "report.md", "junit.xml"):
        (folder / name).unlink(missing_ok=True)
    line = command(folder)
    sys.stdout.write(f"{plain(shlex.join(line), 2000)}\n")
    sys.stdout.flush()
    bring_history(Path(given("HISTORY")))
    done = subprocess.run(line, check=False, env={**os.environ, "CI": "true"})
    keep_history(Path(given("HISTORY")))
    # A process that a signal ended has a negative status, which a shell cannot return.
    return max(done.returncode, 0) or (1 if done.returncode else 0)


if __name__ == "__main__":
    sys.exit(main())
