"""A lecture that runs until a cell only."""


def test_a_lecture_runs_until_a_cell_only(own_project):
    own_project.notebook("a.ipynb", "a = 1", "b = 2", "c = 3")
    own_project.budgets({"a.ipynb": '"1 MiB"'})
    session = own_project.pytest("--lecture-budget", "--lecture-until=2", "a.ipynb")
    assert (session.code, session.verdict("a.ipynb")["kind"]) == (0, "partial")
    assert session.statuses("a.ipynb") == ["ok", "ok", "skipped"]
    assert "  partial: run until code cell 2 only: not compared with its limits" in session.lines
