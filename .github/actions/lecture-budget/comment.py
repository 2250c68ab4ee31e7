"""
Write the comment on a pull request, or update the one that is there.

It runs in a workflow on ``workflow_run``, which has a token that may write, and never runs code of the pull request.
What the pull request made is its report, which is read as data: it is rendered here, by a version of lecturecheck that
the pull request does not choose, and lecturecheck escapes whatever a lecture has printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from files_of_actions import given, plain
from github_api import call, every, is_own

MOST_CHARS = 60_000
"""GitHub takes 65,536."""
MOST_REPORTS = 20


def main() -> int:
    """Write or update the comment."""
    number = pull_request()
    if number is None:
        sys.stdout.write("no open pull request has this commit at its tip, so nothing is written\n")
        return 0
    mark = f"<!-- lecturecheck: {re.sub(r'[^A-Za-z0-9 ._-]', '_', given('TITLE', 'lectures'))} -->"
    text = f"{mark}\n{body(Path(given('REPORTS', 'reports')))}"
    own = next((item for item in every(f"issues/{number}/comments") if is_own(item, mark)), None)
    if own is None:
        call("POST", f"issues/{number}/comments", {"body": text})
    else:
        call("PATCH", f"issues/comments/{int(own['id'])}", {"body": text})
    sys.stdout.write(f"the comment on pull request {number} is {'new' if own is None else 'updated'}\n")
    return 0


def pull_request() -> int | None:
    """Return the open pull request whose tip is the commit of the run; names of branches alone decide nothing."""
    sha, owner, branch = os.environ["HEAD_SHA"], os.environ["HEAD_OWNER"], os.environ["HEAD_BRANCH"]
    for item in every("pulls", state="open", head=f"{owner}:{branch}"):
        if item.get("head", {}).get("sha") == sha:
            return int(item["number"])
    return None


def body(folder: Path) -> str:
    """Return the text of the comment: every report, as lecturecheck renders it."""
    repository = f"{os.environ.get('GITHUB_SERVER_URL', '')}/{os.environ['GITHUB_REPOSITORY']}"
    run = f"{repository}/actions/runs/{_number('RUN_ID')}"
    reports = sorted(folder.rglob("report.json"))[:MOST_REPORTS]
    parts = [text for path in reports if (text := _rendered(path))]
    if not parts:
        return f"## Lecture check\n\nThe job ended before the gate had written a report: [log of the run]({run}).\n"
    room = MOST_CHARS - len(run)
    return f"{cut(chr(10).join(parts), room)}\n\n[Log and reports of the run]({run})\n"


def _number(name: str) -> int:
    return int(os.environ.get(name, "0") or 0)


def _rendered(path: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "comment.md"
        line = [sys.executable, "-m", "pytest_lecturecheck.commands.main", "report", str(path), "-o", str(target)]
        done = subprocess.run(line, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0 or not target.is_file():
            sys.stdout.write(f"a report cannot be rendered: {plain(done.stderr)}\n")
            return ""
        return target.read_text(encoding="utf-8")


def cut(text: str, most: int) -> str:
    """Return at most so many characters of Markdown, cut between lines, with no block left open."""
    if len(text) <= most:
        return text
    kept: Any = text[: most - 200].rsplit("\n", 1)[0]
    fences = re.findall(r"^(`{3,}|~{3,})", kept, re.MULTILINE)
    closing = f"\n{fences[-1]}" if len(fences) % 2 else ""
    closing += "\n</details>" * max(0, kept.count("<details") - kept.count("</details"))
    return f"{kept}{closing}\n\nThe rest is cut; the report of the run has all of it."


if __name__ == "__main__":
    sys.exit(main())
