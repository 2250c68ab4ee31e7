"""Sessions with --lecture-profile: cells that were named, and cells over their limits."""

SET_UP = """
    import jax, jax.numpy as jnp
    step = jax.jit(lambda a: a + 1)
    y = step(jnp.ones(10))
    """
SMALL = "for _ in range(1500): y = step(y)"
HELD = "held = bytearray(64 << 20); held[:] = bytes([1]) * len(held)"


def traced_cells(session, lecture):
    return [cell["number"] for cell in session.run(lecture)["cells"] if "profile" in cell]


def test_named_cells_are_traced_in_the_run_itself(own_project):
    own_project.notebook("a.ipynb", SET_UP, SMALL)
    own_project.budgets({"a.ipynb": '"1 MiB"'})
    session = own_project.pytest(
        "--lecture-budget", "--lecture-strict", "--lecture-profile=2", "a.ipynb", JAX_PLATFORMS="cpu"
    )
    assert (session.code, session.verdict("a.ipynb")["kind"]) == (0, "profiled")
    assert session.run("a.ipynb")["is_profiled"] is True
    assert traced_cells(session, "a.ipynb") == [2]
    (device,) = session.run("a.ipynb")["cells"][1]["profile"]["devices"]
    assert (device["device"], device["launch_count"]) == ("CPU", 1500)
    assert "Traced cells" in session.lines
    assert "  profiled: cells were traced, which takes time and memory: not compared with its limits" in session.lines


def test_what_is_over_runs_once_more_with_a_trace(own_project):
    own_project.notebook("over.ipynb", SET_UP, f"{HELD}\n{SMALL}", "1 + 1")
    own_project.notebook("within.ipynb", SET_UP)
    own_project.budgets({"over.ipynb": '"1 MiB"', "within.ipynb": '"100 GiB"'})
    session = own_project.pytest("--lecture-budget", "--lecture-profile=over", "--lecture-runs=2", JAX_PLATFORMS="cpu")
    first, second = session.runs["over.ipynb"]
    assert session.code == 1
    assert (first["verdict"]["kind"], second["verdict"]["kind"]) == ("over", "over")
    assert "in code cell 2" in first["verdict"]["headline"]
    # Its figures are those of the run without a trace.
    assert "is_profiled" not in first["run"]
    profiles = [[cell["number"] for cell in item["run"]["cells"] if "profile" in cell] for item in (first, second)]
    assert profiles == [[2], []]
    assert first["run"]["cells"][1]["profile"]["devices"][0]["launch_count"] == 1500
    assert all("profile" not in cell for item in session.runs["within.ipynb"] for cell in item["run"]["cells"])
    trace = first["run"]["cells"][1]["profile"]["trace"]
    assert (own_project.folder / trace).is_file()
    assert len(list((own_project.folder / ".lecturecheck" / "traces").iterdir())) == 1


def test_what_is_over_runs_once_more_with_a_record_of_memory(own_project):
    own_project.notebook("over.ipynb", "before = 1", "kept = bytearray(64 << 20); gone = bytearray(32 << 20); del gone")
    own_project.budgets({"over.ipynb": '"80 MiB"'})
    session = own_project.pytest("--lecture-budget", "--lecture-profile=memory")
    assert (session.code, session.verdict("over.ipynb")["kind"]) == (1, "over")
    assert "is_profiled" not in session.run("over.ipynb")
    profile = session.run("over.ipynb")["cells"][1]["memory_profile"]
    assert [(line["cell_line"], line["size_bytes"] >> 20) for line in profile["lines"]] == [(1, 96)]
    failure = session.failure("over.ipynb")
    rows = failure.splitlines()
    at = rows.index("Memory at the peak of code cell 2")
    assert rows[at + 1] == "      96 MiB 100 %  code cell 2, line 13"
    assert " MiB stayed after code cell 2: `kept` 64 MiB" in failure
    assert (own_project.folder / profile["flame_graph"]).is_file()


def test_a_failure_names_what_is_in_memory_without_being_asked(own_project):
    own_project.notebook("over.ipynb", "early = bytearray(16 << 20)", "kept = bytearray(64 << 20)", "1 + 1")
    own_project.budgets({"over.ipynb": '"60 MiB"'})
    session = own_project.pytest("--lecture-budget")
    failure = session.failure("over.ipynb")
    assert "in code cell 2" in failure.splitlines()[0]
    (row,) = (line for line in failure.splitlines() if "was in memory" in line)
    assert " MiB was in memory after code cell 2: `kept` 64 MiB, `early` 16 MiB" in row
    assert ["memory_levels" in cell for cell in session.run("over.ipynb")["cells"]] == [False, True, False]
