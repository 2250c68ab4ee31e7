"""A declared package that fails at a library's limit: three caps, one inference, one diagnosis, one replay."""

import json
import platform
import subprocess
import sys

import pytest
from support.kept_documents import call
from support.real_sessions import session_environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="on other processors the number that is too large does not turn negative, and the call may go on",
)
CELLS = (
    """
    import numpy as np
    import scipy.sparse as sp
    from scipy.sparse.linalg import splu

    class Hessian(sp.csc_array):
        nnz = property(lambda self: len(self.data))

        def __reduce__(self):
            return build, ()

    def build():
        # One entry above the wall. Nobody touches the pages of most of them, so they take no memory.
        hessian = Hessian(sp.eye_array(200, format="csc"))
        data, indices = np.zeros(71_582_789), np.zeros(71_582_789, np.int32)
        data[:200], indices[:200] = hessian.data, hessian.indices
        hessian.data, hessian.indices, hessian.has_sorted_indices = data, indices, True
        return hessian
    """,
    "hessian = build()",
    "work = np.ones(6 << 20)\nfactors = splu(hessian, permc_spec='NATURAL')",
    "print(factors.nnz)",
)
DECLARED = ("--lecture-declared-memory", "300 MB", "--lecture-declared-time", "12 hours")
WALL = "71,582,789 stored entries are above the 71,582,788 of SuperLU's 32-bit work space"


def test_the_incident_from_the_declared_check_to_the_replay(own_project, tmp_path, monkeypatch, capsys):
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    monkeypatch.chdir(own_project.folder)
    own_project.notebook("solve.ipynb", *CELLS)
    check = ("--lecture-budget", "--lecture-rerun-failed")

    declared = own_project.pytest(*check, *DECLARED, "--lecture-enforce-declared", "solve.ipynb")
    own_project.pytest(*check, *DECLARED, "--lecture-memory-cap", "1 GB", "solve.ipynb")
    last = own_project.pytest(
        *check, "--lecture-memory-cap", "3 GB", "--lecture-replay-capture", "failing", "solve.ipynb", **state
    )

    assert (declared.code, declared.verdict("solve.ipynb")["kind"]) == (1, "failed")
    assert declared.verdict("solve.ipynb")["cause"]["kind"] == "limit inside a library"
    assert WALL in declared.verdict("solve.ipynb")["headline"]
    (note,) = last.verdict("solve.ipynb")["notes"]
    assert note.startswith("over several runs: 3 runs failed in code cell 3 at the same peak of about")
    assert "while the limit grew from 286 MiB to 2.79 GiB: an internal limit" in note

    (failure,) = json.loads(call(capsys, "explain", "last~1", "--json")[1])["failures"]
    assert (failure["cell"], failure["cause"]) == (3, "limit inside a library")
    assert failure["evidence"][0].startswith("over several runs: 2 runs failed in code cell 3 at the same peak")
    assert "pytest --lecture-budget --lecture-replay-capture failing ./solve.ipynb" in [
        item["command"] for item in failure["next"]
    ]

    (folder,) = (own_project.folder / ".lecturecheck" / "replay").glob("solve.ipynb-*/cell-3")
    record = json.loads((folder / "replay.json").read_text("utf-8"))
    assert {"hessian", "splu", "np"} <= set(record["saved"]) | set(record["missing"])
    # The capture is no part of the cell: what it raised is its own.
    assert 48 << 20 <= record["original"]["peak_bytes"] - record["original"]["start_bytes"] < 80 << 20

    replayed = subprocess.run(
        [sys.executable, "-m", "pytest_lecturecheck.commands.main", "replay", str(folder)],
        cwd=own_project.folder,
        capture_output=True,
        text=True,
        check=False,
        env=session_environment(**state),
    )
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    lines = replayed.stdout.splitlines()
    assert lines[0].startswith("replay of code cell 3 of solve.ipynb")
    assert lines[2].split() == ["end", "failed", "failed"]
    # Without cloudpickle in the kernel's environment the class of the notebook is named as missing.
    if not record["missing"]:
        assert float(lines[5].split()[4]) >= 48
        assert WALL in " ".join(line.strip() for line in lines)

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    status, _, err = call(capsys, "replay", str(folder))
    assert status == 2
    assert "is not known to be yours: this user has stamped no folder here" in err
