"""A lecture's own figures from end to end: recorded, given a limit by hand, and held to it on both sides."""

from textwrap import dedent

from support.real_sessions import PLATFORM

SWEEP = """
from pathlib import Path
from IPython.display import update_display

speedup = float(Path("speedup.txt").read_text())
figures = {"speedup": {"value": speedup, "unit": "x", "better": "higher"}, "distance": 1e-15}
update_display({"application/vnd.lecturecheck+json": figures}, display_id="lecturecheck", raw=True)
"""
HAND_SET = 'figures.speedup = { at_least = 1.5, seen = [1.67, 1.67], unit = "x" }'


def write_speedup(project, value):
    (project.folder / "speedup.txt").write_text(value, encoding="utf-8")


def test_a_limit_set_by_hand_applies_after_recording(own_project):
    own_project.notebook("sweep.ipynb", "a = 1", SWEEP)
    write_speedup(own_project, "1.67")
    recorded = own_project.pytest("--lecture-record", "--lecture-runs=2", "sweep.ipynb")
    assert (recorded.code, recorded.outcomes()) == (0, {"passed": 1})
    assert "  speedup: seen 1.67 x; no limit: set at_least by hand" in recorded.lines
    assert "  distance: seen 1e-15; no limit: set at_least or limit by hand" in recorded.lines
    path = own_project.folder / "lecture-budgets" / f"{PLATFORM}.toml"
    text = path.read_text(encoding="utf-8")
    assert 'figures.speedup = { seen = [1.67, 1.67], unit = "x" }\n' in text
    path.write_text(
        text.replace('figures.speedup = { seen = [1.67, 1.67], unit = "x" }', f"# acceptance: 75 %\n{HAND_SET}"),
        encoding="utf-8",
    )

    write_speedup(own_project, "1.5")
    passing = own_project.pytest("--lecture-budget", "--lecture-strict", "sweep.ipynb")
    assert (passing.code, passing.verdict("sweep.ipynb")["kind"]) == (0, "within")
    assert "  speedup 1.5 x (>= 1.5 x), distance 1e-15" in passing.lines

    write_speedup(own_project, "1.49")
    failing = own_project.pytest("--lecture-budget", "--junitxml=junit.xml", "sweep.ipynb")
    headline = (
        "speedup 1.49 x, at least 1.5 x wanted: 0.01 x under (-0.67 %), in code cell 2; recorded: 1.67 x (2 runs)"
    )
    assert (failing.code, failing.verdict("sweep.ipynb")["kind"]) == (1, "under")
    assert failing.failure("sweep.ipynb").split("\n")[0] == headline
    properties = {item.get("name"): item.get("value") for item in failing.junit.iter("property")}
    assert properties["lecturecheck.figure.speedup"] == "1.49"
    assert properties["lecturecheck.figure.speedup.at_least"] == "1.5"

    again = own_project.pytest("--lecture-record", "sweep.ipynb")
    assert again.code == 0
    warning = "    these runs are under the limit set by hand: speedup 1.49, at_least 1.5"
    assert warning in again.lines
    kept = path.read_text(encoding="utf-8")
    assert "# acceptance: 75 %\nfigures.speedup = { at_least = 1.5, seen = [1.49" in kept


def test_a_missing_reported_value_fails_under_strict_only(own_project):
    own_project.notebook("silent.ipynb", "a = 1")
    own_project.write(
        f"lecture-budgets/{PLATFORM}.toml",
        dedent("""\
            schema = 1

            [lectures."silent.ipynb"]
            figures.distance = { limit = 1e-12 }
            """),
    )
    lenient = own_project.pytest("--lecture-budget", "silent.ipynb")
    assert (lenient.code, lenient.verdict("silent.ipynb")["kind"]) == (0, "not measured")
    strict = own_project.pytest("--lecture-budget", "--lecture-strict", "silent.ipynb")
    assert strict.code == 1
    headline = "distance not measured (the lecture did not report it), limit 1e-12"
    assert strict.failure("silent.ipynb").split("\n")[0] == headline


def test_an_invalid_reported_value_limit_stops_the_session(own_project):
    own_project.notebook("silent.ipynb", "a = 1")
    own_project.write(
        f"lecture-budgets/{PLATFORM}.toml",
        'schema = 1\n\n[lectures."silent.ipynb"]\nfigures.distance = { limti = 1e-12 }\n',
    )
    session = own_project.pytest("--lecture-budget", "silent.ipynb")
    assert (session.code, session.runs) == (4, {})
    key = 'lectures."silent.ipynb".figures.distance.limti'
    assert f"{PLATFORM}.toml line 4: {key}: unknown key; expected one of at_least, limit, seen, unit" in session.text
