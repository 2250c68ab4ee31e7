"""Sessions of pytest inside a test, and doctests in files that are lectures."""


def test_several_sessions_of_one_process(own_project):
    """pytester forgets what its sessions import, but not the plugin: two generations of a class must not meet."""
    own_project.put("T13", flat=True)
    session = own_project.pytest("test_twice.py", "-Wignore", apart=True)
    assert session.outcomes() == {"passed": 3}, session.text


def test_doctests_of_pages_stay_and_those_of_scripts_are_reported(own_project):
    own_project.put("T14", flat=True)
    session = own_project.pytest("--lecture-budget", "--doctest-modules", "--doctest-glob=*.md", "-v")
    results = dict(line.split()[:2] for line in session.lines if "::" in line and line.split()[-1].endswith("%]"))
    assert results == {
        "lec.py::lecture": "PASSED",
        # The closing fence counts as expected output, here as without this plugin.
        "page.md::page.md": "FAILED",
        "page.md::lecture": "PASSED",
        "test_unit.py::test_one": "PASSED",
    }
    assert (
        "doctests are not collected from 'lec.py': importing a script would run the lecture in pytest" in session.lines
    )
    assert (own_project.folder / "ran.txt").read_text() == "x"
