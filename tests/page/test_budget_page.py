"""What pages show of budgets, and the plugin that mystmd starts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_lecturecheck.page import budget_page
from pytest_lecturecheck.page.budget_page import (
    PageError,
    PageFact,
    find_root,
    format_duration,
    format_size,
    match_lecture,
    mystmd_nodes,
    page_table,
    parse_duration,
    parse_size,
    read_facts,
)
from pytest_lecturecheck.store.budget_file.files import load_folder

ROOT = Path(__file__).parents[2]
BUDGETS = """schema = 1
platform = "g4dn.2xlarge"
[lectures."lectures/intro.md"]
peak_footprint = { seen = ["3.2 GiB", "3.1 GiB"] }
wall = { seen = ["1 min 06 s"] }
[lectures."lectures/empty.md"]
"""
NO_BREAK = "\N{NO-BREAK SPACE}"
HEADS = ("Platform", "Peak memory", "Time", "Fits Binder (2\N{NO-BREAK SPACE}GB)")


@pytest.fixture
def book(tmp_path):
    (tmp_path / "lecture-budgets").mkdir()
    (tmp_path / "lecture-budgets" / "g4dn.2xlarge.toml").write_text(BUDGETS, encoding="utf-8")
    (tmp_path / "lectures").mkdir()
    return tmp_path


def history_line(lecture, ended, peak, **changes):
    line = {"ended": ended, "lecture": lecture, "platform": "p", "values": {"peak_footprint_bytes": {"value": peak}}}
    return json.dumps({**line, **changes})


def test_budgets_are_read_with_their_highest_values(book):
    empty, intro = read_facts(book)
    assert (intro.lecture, intro.platform) == ("lectures/intro.md", "g4dn.2xlarge")
    assert (intro.peak_bytes, intro.wall_seconds) == (3.2 * 2**30, 66)
    assert (empty.peak_bytes, empty.wall_seconds) == (None, None)


def test_real_budget_files_are_read_as_the_package_reads_them():
    folder = ROOT / "fixtures" / "budgets"
    (platform, budgets), *_others = load_folder(folder).items()
    path = folder / f"{platform}.toml"
    facts = {fact.lecture: fact for fact in budget_page._budgets(path)}
    for (lecture, _variant), budget in budgets.lectures.items():
        seen = {metric.value: max(item.seen) for metric, item in budget.metrics.items() if item.seen}
        assert facts[lecture].peak_bytes == pytest.approx(seen["peak_footprint_bytes"], rel=1e-3)
        assert facts[lecture].wall_seconds == pytest.approx(seen["wall_seconds"], rel=1e-3)


def test_the_history_adds_lectures_without_a_budget(book):
    lines = [
        history_line("lectures/b.md", "2026-12-02", 2e9),
        history_line("lectures/b.md", "2026-12-01", 9e9),
        history_line("lectures/b.md", "2026-12-03", 9e9, failed=True),
        history_line("lectures/b.md", "2026-12-03", 9e9, variant="small"),
        "[",
        "{}",
    ]
    (book / "lecture-history.jsonl").write_text("\n".join(lines), encoding="utf-8")
    found = {fact.lecture: fact.peak_bytes for fact in read_facts(book)}
    assert found == {"lectures/b.md": 2e9, "lectures/empty.md": None, "lectures/intro.md": 3.2 * 2**30}


def test_the_folder_of_budgets_is_looked_for_above_the_book(book, tmp_path_factory):
    assert find_root(book / "lectures") == book
    assert find_root(tmp_path_factory.mktemp("other")) is None


@pytest.mark.parametrize("text", ["x = [", "lectures = 1", '[lectures."a"]\nwall = { seen = ["soon"] }'])
def test_a_broken_budget_file_is_named(text, book):
    (book / "lecture-budgets" / "bad.toml").write_text(text, encoding="utf-8")
    with pytest.raises(PageError, match=r"bad\.toml is not a budget file: .*; 'lecturecheck validate' checks it"):
        read_facts(book)


@pytest.mark.parametrize(
    ("peak", "fits"), [(2_000_000_000, "yes"), (2_000_000_001, "no"), (None, "-")], ids=["at", "above", "unknown"]
)
def test_binder_has_two_gigabytes(peak, fits):
    fact = PageFact(lecture="a.md", platform="p", peak_bytes=peak, wall_seconds=5.29)
    assert page_table([fact], "a.md") == [
        HEADS,
        ("p", format_size(peak).replace(" ", NO_BREAK), f"5.3{NO_BREAK}s", fits),
    ]


def test_a_table_of_all_names_the_lectures(book):
    heads, *rows = page_table(read_facts(book), None)
    assert heads == ("Lecture", *HEADS)
    assert [row[0] for row in rows] == ["lectures/empty.md", "lectures/intro.md"]


def test_without_budgets_there_is_no_table(book):
    assert page_table(read_facts(book), "lectures/other.md") == []


@pytest.mark.parametrize("name", ["lectures/intro.md", "lectures/intro"])
def test_a_page_may_be_named_without_its_suffix(name, book):
    assert match_lecture(read_facts(book), book / name, book) == "lectures/intro.md"


@pytest.mark.parametrize(("text", "size"), [("0 B", 0), ("161.6 MiB", 161.6 * 2**20), ("3 GiB", 3 * 2**30)])
def test_sizes_are_parsed(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(("text", "seconds"), [("5.29 s", 5.29), ("1 min 06 s", 66), ("2 h 10 min", 7800)])
def test_durations_are_parsed(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(("seconds", "text"), [(None, "-"), (119, "119.0 s"), (150, "2.50 min"), (7200, "2.00 h")])
def test_durations_are_shown_with_three_digits(seconds, text):
    assert format_duration(seconds) == text


def plugin(folder, *arguments, data=None):
    """Start a copy of the plugin without any package, as mystmd does."""
    return subprocess.run(
        [sys.executable, "-I", "-S", budget_page.__file__, *arguments],
        cwd=folder,
        input=json.dumps(data),
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_plugin_describes_itself_with_the_standard_library_alone(book):
    done = plugin(book)
    assert [directive["name"] for directive in json.loads(done.stdout)["directives"]] == ["lecture-budget"]


def test_the_plugin_returns_a_table(book):
    done = plugin(book / "lectures", "--directive", "lecture-budget", data={"arg": "intro.md"})
    (table,) = json.loads(done.stdout)
    texts = [[cell["children"][0]["value"] for cell in row["children"]] for row in table["children"]]
    assert texts == [list(HEADS), ["g4dn.2xlarge", "3.20\N{NO-BREAK SPACE}GiB", "66.0\N{NO-BREAK SPACE}s", "no"]]


def test_the_plugin_needs_a_page_in_mystmd(book):
    done = plugin(book, "--directive", "lecture-budget", data={})
    assert done.returncode == 1
    assert done.stderr == (
        "lecture-budget needs the page's file in mystmd, as in {lecture-budget} intro.md; or the option :all:\n"
    )


def test_the_plugin_shows_nothing_where_nothing_is_known(book, tmp_path_factory):
    assert mystmd_nodes({"arg": "other.md"}, book) == []
    assert mystmd_nodes({"options": {"all": True}}, tmp_path_factory.mktemp("other")) == []
