"""Figures of lectures in budget files: numbers that read back as they were, faults with line and key."""

from dataclasses import replace
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.budget_samples import PLATFORM, budgets, entry
from support.examples import examples

from pytest_lecturecheck.budget.limits import ReportedValueBudget
from pytest_lecturecheck.errors import BudgetFileError
from pytest_lecturecheck.store.budget_file.files import load_budgets, save_budgets

FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBER = "expected a finite number without quotes, for example 1.5 or 1e-12"


@pytest.fixture
def path(tmp_path):
    return tmp_path / f"{PLATFORM}.toml"


def write(path, lines):
    path.write_text(f'schema = 1\n\n[lectures."a b.md"]\n{dedent(lines)}', encoding="utf-8", newline="\n")
    return path


def figures_of(path, variant=""):
    (found,) = [item.reported_values for key, item in load_budgets(path).lectures.items() if key[1] == variant]
    return found


def table(path):
    """The lines of the file that hold figures."""
    return [line for line in path.read_text("utf-8").splitlines() if line.startswith("figures.")]


def faults_of(path):
    with pytest.raises(BudgetFileError) as caught:
        load_budgets(path)
    return str(caught.value).replace(f"{path} ", "").split("\n")


def test_reported_values_stand_between_metrics_and_cells(path):
    held = {
        "speedup": ReportedValueBudget(name="speedup", at_least=1.5, seen=(1.67, 1.7), unit="x"),
        "distance": ReportedValueBudget(name="distance", limit=1e-9, seen=(1e-15, 0.0)),
        "both": ReportedValueBudget(name="both", at_least=-2.0, limit=3.0),
    }
    save_budgets(path, budgets(entry("a.md", reported_values=held)))
    lines = path.read_text("utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("wall = "))
    assert lines[start + 1 : start + 5] == [
        "figures.both = { at_least = -2.0, limit = 3.0 }",
        "figures.distance = { limit = 1e-9, seen = [1e-15, 0.0] }",
        'figures.speedup = { at_least = 1.5, seen = [1.67, 1.7], unit = "x" }',
        "heaviest_cells = [",
    ]
    assert figures_of(path) == held
    assert save_budgets(path, load_budgets(path)) is False


@settings(max_examples=examples(60), deadline=None)
@given(limits=st.tuples(FINITE, FINITE).map(sorted), seen=st.lists(FINITE, max_size=3))
def test_every_number_reads_back_as_it_was(tmp_path_factory, limits, seen):
    path = tmp_path_factory.mktemp("figures") / f"{PLATFORM}.toml"
    held = {"f": ReportedValueBudget(name="f", at_least=limits[0], limit=limits[1], seen=tuple(seen))}
    save_budgets(path, budgets(entry("a.md", reported_values=held)))
    (read,) = figures_of(path).values()
    assert [repr(value) for value in (read.at_least, read.limit, *read.seen)] == [repr(v) for v in (*limits, *seen)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0.0", -0.0),
        ("1e-15", 1e-15),
        ("5e-324", 5e-324),
        ("-1_000", -1000),
        ("200.0", 200.0),
        ("9007199254740992", 2**53),
        ("1.7976931348623157e308", 1.7976931348623157e308),
    ],
)
def test_numbers_as_people_write_them(path, text, value):
    write(path, f"figures.x = {{ at_least = {text} }}\n")
    assert repr(figures_of(path)["x"].at_least) == repr(value)


def test_variants_have_their_own_reported_values(path):
    path.write_text(
        'schema = 1\n[lectures."a.md"]\nfigures.x = { limit = 1 }\n'
        '[lectures."a.md".variants."gpu"]\nfigures.x = { limit = 2 }\n'
    )
    assert (figures_of(path)["x"].limit, figures_of(path, "gpu")["x"].limit) == (1.0, 2.0)


def test_comments_and_spelling_of_limits_survive_recording(path):
    write(
        path,
        """\
        recorded = 2025-01-31
        # agreed with the editors
        figures.speedup = { at_least = 2, seen = [3.0] }  # on two devices
        figures.gone = { seen = [1.0] }
        figures.same = { limit = 1.50, seen = [1.0] }
        """,
    )
    before = load_budgets(path)
    key = ("a b.md", "")
    old = before.lectures[key].reported_values
    new = {
        "speedup": replace(old["speedup"], seen=(4.0,)),
        "same": old["same"],
        "added": ReportedValueBudget(name="added", seen=(7.0,)),
    }
    changed = replace(before, lectures={key: replace(before.lectures[key], reported_values=new)})
    assert save_budgets(path, changed) is True
    assert path.read_text("utf-8") == (
        'schema = 1\n\n[lectures."a b.md"]\n'
        "recorded = 2025-01-31\n"
        "figures.added = { seen = [7.0] }\n"
        "# agreed with the editors\n"
        "figures.speedup = { at_least = 2, seen = [4.0] }  # on two devices\n"
        "figures.same = { limit = 1.50, seen = [1.0] }\n"
    )
    assert load_budgets(path) == changed


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "figures.x = 1.5",
            "figures.x: found 1.5; expected a table, for example { at_least = 1.5 } or { limit = 1e-12 }",
        ),
        ("figures.x = { limit = nan }", f"figures.x.limit: found nan; {NUMBER}"),
        ("figures.x = { limit = inf }", f"figures.x.limit: found inf; {NUMBER}"),
        ("figures.x = { at_least = true }", f"figures.x.at_least: found true; {NUMBER}"),
        ('figures.x = { at_least = "1.5" }', f"figures.x.at_least: found '1.5'; {NUMBER}"),
        ("figures.x = { at_least = 9007199254740993 }", f"figures.x.at_least: found 9007199254740993; {NUMBER}"),
        (f"figures.x = {{ limit = 1{'0' * 400} }}", f"figures.x.limit: found 1{'0' * 59}; {NUMBER}"),
        ("figures.x = { seen = [1.0, nan] }", f"figures.x.seen: found nan; {NUMBER}"),
        ("figures.x = { seen = 1.0 }", "figures.x.seen: found 1.0; expected a list of the recorded values"),
        (
            "figures.x = { minimum = 1.5, limit = 2 }",
            "figures.x.minimum: unknown key; expected one of at_least, limit, seen, unit",
        ),
        ("figures.x = { }", "figures.x: neither a limit nor recorded values; expected at_least, limit or seen"),
        (
            'figures.x = { unit = "s" }',
            "figures.x: neither a limit nor recorded values; expected at_least, limit or seen",
        ),
        (
            'figures.x = { limit = 1, unit = "\\u001B[31m" }',
            "figures.x.unit: found '\\x1b[31m'; expected a short text such as 's' or 'x'",
        ),
        ("figures.x = { at_least = 2, limit = 1 }", "figures.x: x: at_least = 2 is above limit = 1"),
        (
            "figures.Speed-Up = { limit = 1 }",
            (
                "figures.Speed-Up: 'Speed-Up' cannot name a reported value; expected lower-case letters, digits and "
                "underscores, a letter first, at most 41 characters"
            ),
        ),
        ("figures.x.limit = 1", "figures.x.limit: dotted key; write figures.x = { limit = ... }"),
        ('"figures.x" = { limit = 1 }', '"figures.x": one key in quotes; write figures.NAME without quotes'),
        ('"figures.NAME" = { limit = 1 }', '"figures.NAME": one key in quotes; write figures.NAME without quotes'),
    ],
)
def test_a_fault_names_line_and_key(path, line, problem):
    write(path, f"{line}\n")
    assert faults_of(path) == [f'line 4: lectures."a b.md".{problem}']


def test_an_inline_table_is_refused_with_the_right_form(path):
    write(path, "figures = { x = { limit = 1 } }\n")
    (fault,) = faults_of(path)
    assert fault.startswith('line 4: lectures."a b.md".figures: unknown key; expected one of recorded, runs, ')
    assert fault.endswith(", major_faults, figures.NAME")


def test_a_duplicate_reported_value_is_a_fault(path):
    write(path, "figures.x = { limit = 1 }\nfigures.x = { limit = 2 }\n")
    assert faults_of(path) == [
        'line 5: lectures."a b.md".figures.x: this key is defined twice (first in line 4); keep one'
    ]


def test_reported_values_belong_to_lectures_only(path):
    path.write_text("schema = 1\nfigures.x = { limit = 1 }\n")
    assert faults_of(path) == ["line 2: figures.x: dotted key; write a table, or figures = { x = ... }"]


def test_every_fault_of_a_table_is_listed_at_once(path):
    write(path, "figures.x = { limit = nan }\nfigures.y = { seen = [] }\npeak_footprint = 3\n")
    assert [fault.split(": ", 2)[1] for fault in faults_of(path)] == [
        'lectures."a b.md".figures.x.limit',
        'lectures."a b.md".figures.y',
        'lectures."a b.md".peak_footprint',
    ]
