"""Several lectures at once: keys, order, and one budget file."""

import tomllib

import pytest
from support.real_sessions import PLATFORM, LectureProject, parse_size_text

LECTURES = ["ch1/intro.md", "ch2/intro.ipynb", "ch2/intro.md", *(f"l{number}.ipynb" for number in range(8))]


@pytest.fixture(scope="module")
def recorded(project):
    project.put("F01", "F02", flat=True)
    return project.pytest("--lecture-record", "--lecture-runs=1", "-n", "2", ".")


def budget_of(project: LectureProject) -> dict:
    return tomllib.loads((project.folder / "lecture-budgets" / f"{PLATFORM}.toml").read_text(encoding="utf-8"))


def test_recorded_at_once_into_one_file(recorded, project):
    assert (recorded.code, recorded.outcomes()) == (0, {"passed": 11}), recorded.text
    assert "Different tests were collected" not in recorded.text
    assert list(budget_of(project)["lectures"]) == LECTURES
    assert [path.name for path in (project.folder / "lecture-budgets").iterdir()] == [f"{PLATFORM}.toml"]


@pytest.mark.usefixtures("recorded")
def test_same_names_in_two_folders_are_three_lectures(project):
    assert project.node_ids("ch1", "ch2") == [f"{name}::lecture" for name in LECTURES[:3]]
    session = project.pytest("--lecture-budget", "-n", "2", "--dist=loadfile", "ch1", "ch2")
    assert (session.code, session.outcomes()) == (0, {"passed": 3})
    assert {session.verdict(name)["kind"] for name in LECTURES[:3]} == {"within"}


@pytest.mark.usefixtures("recorded")
def test_recording_one_by_one_gives_the_same_measurements(project):
    at_once = budget_of(project)["lectures"]
    again = project.pytest("--lecture-record", "--lecture-runs=1", "l1.ipynb", "l7.ipynb")
    assert (again.code, again.outcomes()) == (0, {"passed": 2})
    assert list(budget_of(project)["lectures"]) == LECTURES
    for name, block in (("l1.ipynb", 20e6), ("l7.ipynb", 80e6)):
        parallel, serial = parse_size_text(at_once[name]["peak_footprint"]["seen"][0]), again.peak(name)
        assert abs(parallel - serial) < 0.05 * serial
        assert block + 40e6 < serial < block + 80e6
