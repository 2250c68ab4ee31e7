"""Set the outputs of the action from the report of the gate; say so where there is none."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from files_of_actions import append, given, set_outputs

MOST_BYTES = 256 * 1024**2
GIB = 1024**3
SPARE_FRACTION = 0.1
"""Memory that is left to the system, the build and everything else."""


def main() -> None:
    """Set ``failed``, ``heaviest``, ``heaviest-bytes`` and ``safe-concurrency``."""
    path = Path(given("OUTPUT_DIR", "lecture-report")) / "report.json"
    report = read(path)
    if report is None:
        append(
            "GITHUB_STEP_SUMMARY",
            "\n## Lecture check\n\nThe job ended before the gate had written a report. The log has its last lines: a "
            "line for each lecture that was running names it.\n",
        )
        sys.stdout.write("::error::the gate ended before it had written a report\n")
        set_outputs({"failed": "", "heaviest": "", "heaviest-bytes": "", "safe-concurrency": ""})
        return
    totals = report.get("totals", {})
    peak = totals.get("highest_peak_footprint_bytes")
    set_outputs(
        {
            "failed": str(totals.get("failed", "")),
            "heaviest": str(totals.get("highest_peak_footprint_lecture") or ""),
            "heaviest-bytes": "" if peak is None else str(int(peak)),
            "safe-concurrency": str(safe_concurrency(report)),
        }
    )


def read(path: Path) -> dict[str, Any] | None:
    """Return the report, or ``None`` if there is none that can be read."""
    try:
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def safe_concurrency(report: dict[str, Any]) -> int:
    """
    Return how many lectures may run at once here, whichever they are: the heaviest one as often as it fits.

    It is 1 where a value is missing, and where lectures use a GPU, whose memory cannot be divided like this.
    """
    peak = report.get("totals", {}).get("highest_peak_footprint_bytes")
    runs = [item.get("run", {}) for item in report.get("runs", [])]
    machine = next((run["machine"] for run in runs if isinstance(run.get("machine"), dict)), {})
    usable = min(
        (size for key in ("ram_bytes", "memory_limit_bytes") if (size := machine.get(key))), default=_total_memory()
    )
    if not peak or not usable or any(run.get("devices") for run in runs):
        return 1
    cores = machine.get("core_count") or 1
    return max(1, min(int(cores), int(usable * (1 - SPARE_FRACTION) // peak)))


def _total_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0


if __name__ == "__main__":
    main()
