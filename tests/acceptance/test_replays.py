"""A lecture whose state is saved before a cell, and the replay of that cell."""

import json
import subprocess
import sys

from support.real_sessions import session_environment

CELLS = (
    """
    import numpy as np
    A = np.ones((300, 300))
    def total(n):
        return A[:n].sum()
    """,
    "held = bytearray(48 << 20); held[:] = bytes([1]) * len(held)\nprint(total(2))\nraise ValueError('no')",
    "1 + 1",
)


def replay(folder, *arguments, **variables):
    command = [sys.executable, "-m", "pytest_lecturecheck.commands.main", "replay", *arguments]
    environment = session_environment(**variables)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def test_a_failing_cell_is_saved_and_runs_alone(own_project, tmp_path):
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    own_project.notebook("a.ipynb", *CELLS)
    session = own_project.pytest("--lecture-budget", "--lecture-replay-capture=2", "a.ipynb", **state)

    assert (session.code, session.verdict("a.ipynb")["kind"]) == (1, "failed")
    assert session.run("a.ipynb")["captured_cell"] == 2
    (folder,) = (own_project.folder / ".lecturecheck" / "replay").glob("a.ipynb-*/cell-2")
    record = json.loads((folder / "replay.json").read_text())
    # The capture is no part of the cell: what it raised is its own.
    assert record["original"]["peak_bytes"] - record["original"]["start_bytes"] >= 48 << 20
    assert set(record["saved"]) | set(record["missing"]) == {"total", "A"}

    trusted = replay(own_project.folder, "--trust", str(folder), **state)
    assert trusted.returncode == 0, trusted.stdout + trusted.stderr
    first, *rows = trusted.stdout.splitlines()
    assert first.startswith("replay of code cell 2 of a.ipynb")
    assert rows[1].split() == ["end", "failed", "failed"]
    assert float(rows[4].split()[4]) >= 48

    if not record["missing"]:
        assert rows[-1].startswith("the replay: ValueError: no")

    foreign = replay(own_project.folder, str(folder), XDG_STATE_HOME=str(tmp_path / "other"))
    assert foreign.returncode == 2
    assert "is not known to be yours: this user has stamped no folder here" in foreign.stderr


def test_a_lecture_runs_until_a_cell_only(own_project):
    own_project.notebook("a.ipynb", "a = 1", "b = 2", "c = 3")
    own_project.budgets({"a.ipynb": '"1 MiB"'})
    session = own_project.pytest("--lecture-budget", "--lecture-until=2", "a.ipynb")
    assert (session.code, session.verdict("a.ipynb")["kind"]) == (0, "partial")
    assert session.statuses("a.ipynb") == ["ok", "ok", "skipped"]
    assert "  partial: run until code cell 2 only: not compared with its limits" in session.lines
