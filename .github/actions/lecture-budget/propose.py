"""Write the budgets that the report would give as a patch for ``git apply``; the budget files stay as they are."""

from __future__ import annotations

import difflib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from files_of_actions import given, plain

NAME = "proposed-budgets.patch"
PROPOSED = frozenset({"no budget", "over", "improved"})


def main() -> int:
    """Write the patch, if there is anything to propose."""
    folder = Path(given("OUTPUT_DIR", "lecture-report"))
    report = folder / "report.json"
    (folder / NAME).unlink(missing_ok=True)
    if not report.is_file():
        sys.stdout.write("no report, so no budgets are proposed\n")
        return 0
    budgets = Path(given("BUDGET_DIR", "lecture-budgets"))
    with tempfile.TemporaryDirectory() as kept:
        before = Path(kept) / "before"
        existed = budgets.is_dir()
        if existed:
            shutil.copytree(budgets, before)
        else:
            before.mkdir()
        chosen = Path(kept) / "report.json"
        chosen.write_text(
            json.dumps(without_good_runs(json.loads(report.read_text(encoding="utf-8")))), encoding="utf-8"
        )
        try:
            _record(chosen)
            text = difference(before, budgets)
        finally:
            shutil.rmtree(budgets, ignore_errors=True)
            if existed:
                shutil.copytree(before, budgets)
    if text:
        (folder / NAME).write_text(text, encoding="utf-8", newline="\n")
        sys.stdout.write(f"{NAME}: apply it with `git apply {NAME}` if you accept these budgets\n")
    else:
        sys.stdout.write("the report would change no budget\n")
    return 0


def without_good_runs(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report without runs within their limits: one more run is no reason for another budget."""
    runs = [item for item in report.get("runs", []) if item.get("verdict", {}).get("kind") in PROPOSED]
    return {**report, "runs": runs}


def _record(report: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_lecturecheck.commands.main", "record", str(report)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    for line in (done.stdout + done.stderr).splitlines():
        sys.stdout.write(f"{plain(line)}\n")


def difference(before: Path, after: Path) -> str:
    """Return the difference of two folders of budget files in the format of git."""
    names = sorted({path.name for folder in (before, after) if folder.is_dir() for path in folder.glob("*.toml")})
    text = ""
    for name in names:
        old, new = (_lines(folder / name) for folder in (before, after))
        if old == new:
            continue
        shown = f"{after.as_posix()}/{name}"
        head = f"diff --git a/{shown} b/{shown}\n" + ("new file mode 100644\n" if not old else "")
        source = f"a/{shown}" if old else "/dev/null"
        text += head + "".join(difflib.unified_diff(old, new, source, f"b/{shown}"))
    return text


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []


if __name__ == "__main__":
    sys.exit(main())
