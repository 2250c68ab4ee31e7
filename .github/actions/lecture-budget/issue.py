"""Open one issue for a workflow that fails on its schedule, or refresh the one that is open."""

from __future__ import annotations

import json
import os
import re
import sys

from files_of_actions import given
from github_api import call, every, is_own


def main() -> int:
    """Open or refresh the issue; with ``STATE: passed`` close it."""
    workflow = re.sub(r"[^A-Za-z0-9 ._()\[\]-]", "_", os.environ.get("GITHUB_WORKFLOW", "workflow"))[:100]
    mark = f"<!-- lecturecheck failing: {workflow} -->"
    opened = (item for item in every("issues", state="open") if "pull_request" not in item)
    own = next((item for item in opened if is_own(item, mark)), None)
    if given("STATE") == "passed":
        if own is not None:
            call("PATCH", f"issues/{int(own['number'])}", {"state": "closed", "state_reason": "completed"})
            sys.stdout.write(f"issue {own['number']} is closed\n")
        return 0
    values = {"title": f"Scheduled run fails: {workflow}", "body": f"{mark}\n{body()}"}
    method, path = ("POST", "issues") if own is None else ("PATCH", f"issues/{int(own['number'])}")
    found = call(method, path, values)
    sys.stdout.write(f"issue {found['number']} is {'new' if own is None else 'refreshed'}\n")
    return 0


def body() -> str:
    """Return the text of the issue: which jobs failed, and whether the gate came to an end."""
    server, repository = os.environ.get("GITHUB_SERVER_URL", ""), os.environ["GITHUB_REPOSITORY"]
    run = f"{server}/{repository}/actions/runs/{int(os.environ.get('GITHUB_RUN_ID', '0'))}"
    lines = [f"The last run that failed: {run}", "", "| job | result | lectures that failed |", "|---|---|---|"]
    for name, job in sorted(json.loads(given("NEEDS", "{}")).items()):
        failed = str((job.get("outputs") or {}).get("failed") or "")
        count = failed if failed.isdecimal() else "unknown: the job ended before the gate had written a report"
        result = job.get("result", "")
        shown = "0" if result == "success" else count
        lines.append(f"| {_cell(name)} | {_cell(result)} | {shown} |")
    lines += ["", "This text is replaced by the next run that fails. Close the issue when a run has passed."]
    return "\n".join(lines)


def _cell(text: object) -> str:
    return re.sub(r"[^A-Za-z0-9 ._-]", "_", str(text))[:100]


if __name__ == "__main__":
    sys.exit(main())
