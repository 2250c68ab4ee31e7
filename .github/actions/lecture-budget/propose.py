"""Write the budgets that the report would give as a patch for ``git apply``; the budget files stay as they are."""

from __future__ import annotations

import json
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
    patch = folder / NAME
    patch.unlink(missing_ok=True)
    report = folder / "report.json"
    found = without_good_runs(json.loads(report.read_text(encoding="utf-8"))) if report.is_file() else {}
    if not found.get("runs"):
        sys.stdout.write("no run asks for another budget\n")
        return 0
    with tempfile.TemporaryDirectory() as kept:
        chosen = Path(kept) / "report.json"
        chosen.write_text(json.dumps(found), encoding="utf-8")
        _record(chosen, patch)
    if patch.is_file():
        sys.stdout.write(f"apply {NAME} with `git apply` if you accept these budgets\n")
    return 0


def without_good_runs(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report without runs within their limits: one more run is no reason for another budget."""
    runs = [item for item in report.get("runs", []) if item.get("verdict", {}).get("kind") in PROPOSED]
    return {**report, "runs": runs}


def _record(report: Path, patch: Path) -> None:
    line = [sys.executable, "-m", "pytest_lecturecheck.commands.main", "record-from", str(report)]
    line += ["--least-runs", "1", "--patch", str(patch), "--root", "."]
    done = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
    for row in (done.stdout + done.stderr).splitlines():
        sys.stdout.write(f"{plain(row)}\n")


if __name__ == "__main__":
    sys.exit(main())
