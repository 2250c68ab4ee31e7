import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from pytest_lecturecheck.errors import BudgetFileError, SettingsError
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.platform import Machine, parse_platform_label
from pytest_lecturecheck.store.budget_file.budget_reader import parse_budget_text
from pytest_lecturecheck.store.budget_file.files import load_budgets, save_budgets
from pytest_lecturecheck.units import GIB

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "reference" / "budget-files.md"
SIZE = 'expected text with a unit, for example "512 MiB"'
ONE = "expected one number and one unit, for example '24 GB' or '512 MiB'"
UNITS = "expected one of B, kB, KB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB"
TIMES = "expected numbers with units (ms, s, min, h, days) or m:ss or h:mm:ss"
ENTRY_KEYS = (
    "recorded, runs, machine, software, relations, heaviest_cells, peak_footprint, peak_rss, peak_swap, "
    "peak_compressed, gpu_used, gpu_live, gpu_pool, wall, cpu, compile, disk_written, disk_read, read_calls, "
    "major_faults, figures.NAME"
)
NOT_TOML = 'expected for example peak_footprint = "512 MiB"'
ASCII = "(only the digits 0-9 and the letters of the units are read)"
POINT = "(write decimals with a point, and no separators inside the number)"
CELL = '{ cell = 3, line = 41, peak_footprint = "412.3 MiB" }'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "linux.toml"


def faults_of(path, text):
    path.write_bytes(text.encode("utf-8"))
    with pytest.raises(BudgetFileError) as caught:
        load_budgets(path)
    return str(caught.value).replace(f"{path} ", "").split("\n")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("peak_footprint = nan", f"peak_footprint: found nan; {SIZE}"),
        ("peak_footprint = inf", f"peak_footprint: found inf; {SIZE}"),
        ("peak_footprint = -1", f"peak_footprint: found -1; {SIZE}"),
        ("peak_footprint = 0", f"peak_footprint: found 0; {SIZE}"),
        ("peak_footprint = 500000000", f"peak_footprint: found 500000000; {SIZE}"),
        ("peak_footprint = true", f"peak_footprint: found true; {SIZE}"),
        ("peak_footprint = []", f"peak_footprint: found a list; {SIZE}"),
        ("peak_footprint = 2025-01-31", f"peak_footprint: found 2025-01-31; {SIZE}"),
        ('peak_footprint = "500000000"', f"peak_footprint: size '500000000' has no unit; {UNITS}"),
        ('peak_footprint = "nan"', f"peak_footprint: size 'nan' is not understood; {ONE}"),
        ('peak_footprint = "-1 GiB"', f"peak_footprint: size '-1 GiB' is not understood (it is negative); {ONE}"),
        (
            'peak_footprint = "0 B"',
            "peak_footprint: the limit is zero; expected more: every run has a peak footprint",
        ),
        (
            'peak_footprint = "0,5 GB"',
            f"peak_footprint: size '0,5 GB' is not understood {POINT}; {ONE}",
        ),
        ('peak_footprint = "about 24GB"', f"peak_footprint: size 'about 24GB' is not understood; {ONE}"),
        ('peak_footprint = "4 GB per core"', f"peak_footprint: size '4 GB per core' is not understood; {ONE}"),
        (
            'peak_footprint = "\uff15\uff10 MB"',
            f"peak_footprint: size '\uff15\uff10 MB' is not understood {ASCII}; {ONE}",
        ),
        ('peak_footprint = "4 parsecs"', f"peak_footprint: size '4 parsecs' has an unknown unit 'parsecs'; {UNITS}"),
        ('peak_footprint = { limit = nan, seen = ["1 GiB"] }', f"peak_footprint.limit: found nan; {SIZE}"),
        ('peak_footprint = { seen = ["1 GiB", inf] }', f"peak_footprint.seen: found inf; {SIZE}"),
        (
            'peak_footprint = { seen = "1 GiB" }',
            "peak_footprint.seen: found '1 GiB'; expected a list of the recorded values",
        ),
        (
            'peak_footprint = { limit = "1 GiB", method = "guess" }',
            "peak_footprint.method: found 'guess'; expected one of exact, bracket, sampled, agent",
        ),
        (
            'peak_footprint = { limit = "1 GiB", by_hand = false }',
            "peak_footprint.by_hand: found false; expected true, or no such key",
        ),
        (
            'peak_footprint = { limt = "1 GiB", limit = "1 GiB" }',
            "peak_footprint.limt: unknown key; expected one of limit, seen, method, by_hand",
        ),
        (
            'peak_footprint = { method = "exact" }',
            "peak_footprint: neither a limit nor recorded values; expected at least one of them",
        ),
        ("wall = 90", 'wall: found 90; expected text with a unit, for example "90 s"'),
        (
            'wall = "9,5 s"',
            f"wall: duration '9,5 s' is not understood {POINT}; {TIMES}",
        ),
        ('wall = "0 s"', "wall: the limit is zero; expected more: every run has a wall time"),
        ("major_faults = { seen = [1.5] }", "major_faults.seen: found 1.5; expected a whole number, at least 0"),
        ('major_faults = "3"', "major_faults: found '3'; expected a whole number, at least 0"),
        ('peak_footprint_bytes = "1 GiB"', f"peak_footprint_bytes: unknown key; expected one of {ENTRY_KEYS}"),
        ("runs = 0", "runs: found 0; expected a whole number, at least 1"),
        ("runs = true", "runs: found true; expected a whole number, at least 1"),
        (
            'recorded = "2025-01-31"',
            "recorded: found '2025-01-31'; expected a day without quotes, for example 2025-01-31",
        ),
        (
            "recorded = 2025-01-31T10:00:00",
            "recorded: found 2025-01-31 10:00:00; expected a day without quotes, for example 2025-01-31",
        ),
        ('machine = "m1"', "machine: found 'm1'; expected the name of a table [machines.*] of this file"),
        ('software = "s1"', "software: found 's1'; expected the name of a table [software.*] of this file"),
        ("machine = 1", "machine: found 1; expected text in quotes"),
        ('heaviest_cells = "3"', f"heaviest_cells: found '3'; expected a list of {CELL}"),
        ("heaviest_cells = [3]", f"heaviest_cells: found 3; expected {CELL}"),
        ('heaviest_cells = [{ cell = 3, size = "1 B" }]', f"heaviest_cells: found a table; expected {CELL}"),
        (
            "peak_footprint.limit = 3",
            "peak_footprint.limit: dotted key; write a table, or peak_footprint = { limit = ... }",
        ),
    ],
)
def test_a_bad_value_is_named_with_line_and_key(path, line, problem):
    assert faults_of(path, f'schema = 1\n\n[lectures."a b.md"]\n{line}\n') == [f'line 4: lectures."a b.md".{problem}']


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("wall = 0,5", "Expected newline or end of document after a statement"),
        ("wall = 2 GiB", "Expected newline or end of document after a statement"),
        ("wall =", "Invalid value"),
        ("wall = about", "Invalid value"),
        ('wall = { limit = "1 s", limit = "2 s" }', "Duplicate inline table key 'limit'"),
        ("wall = [", "Invalid value"),
    ],
)
def test_what_is_not_toml_is_shown(path, line, reason):
    expected = f'line 3: lectures."a.md": {line!r} is not TOML ({reason}); {NOT_TOML}'
    assert faults_of(path, f'schema = 1\n[lectures."a.md"]\n{line}\n') == [expected]


def test_a_conflict_is_named_and_nothing_else(path):
    text = """\
[lectures."big.md"]
<<<<<<< main
peak_footprint = "400 MiB"
=======
peak_footprint = "900 MiB"
>>>>>>> record-july
"""
    todo = "resolve the merge, or take one side and record again"
    assert faults_of(path, text) == [
        f"line 2: merge conflict marker '<<<<<<< main'; {todo}",
        f"line 4: merge conflict marker '======='; {todo}",
        f"line 6: merge conflict marker '>>>>>>> record-july'; {todo}",
    ]


@pytest.mark.parametrize("text", ["<<<<<<< main\n", "schema = 1\nschema = 1\n", "not toml\n"])
def test_a_file_with_faults_is_never_overwritten(path, text):
    faults_of(path, text)
    budgets = load_budgets(path.with_name("other.toml"))
    path = path.rename(path.with_name("other.toml"))
    with pytest.raises(BudgetFileError):
        save_budgets(path, budgets)
    assert path.read_text("utf-8") == text
    assert list(path.parent.iterdir()) == [path]


def test_all_faults_are_listed_in_the_order_of_the_file(path):
    text = """\
schema = 2
platform = "darwin"
color = "red"
[rules]
memory_fraction = -0.5
memory_slack = "64"
time_factor = 0.5
time_slack = nan
speed = 1
[lectures."a.md"]
wall = 3
wall = "3 s"
[lectures."a.md"]
[lectures."a.md".limits]
[lectures]
"b.md" = { wall = "3 s" }
[lectures."c.md"
wall = 4
[machines.m1]
system = "Linux"
cores = "two"
[software.s1]
packages = ["numpy 2.1"]
[[lectures]]
[extra]
"""
    known = (
        '[rules], [lectures."intro.md"], [machines.m3f9a2c1], [software.s81bc02d], [lectures."intro.md".variants."gpu"]'
    )
    bracket = "Expected ']' at the end of a table declaration"
    assert faults_of(path, text) == [
        "line 1: schema: 2 was written by a newer version, and this one reads schema 1; update pytest-lecturecheck",
        "line 2: platform: found 'darwin'; expected 'linux', as the file is named",
        "line 3: color: unknown key; expected schema, platform, or a table",
        "line 5: rules.memory_fraction: found -0.5; expected a number, at least 0",
        f"line 6: rules.memory_slack: size '64' has no unit; {UNITS}",
        "line 7: rules.time_factor: found 0.5; expected a number, at least 1",
        'line 8: rules.time_slack: found nan; expected text with a unit, for example "90 s"',
        "line 9: rules.speed: unknown key; expected one of memory_fraction, memory_slack, time_factor, time_slack",
        'line 11: lectures."a.md".wall: found 3; expected text with a unit, for example "90 s"',
        'line 12: lectures."a.md".wall: this key is defined twice (first in line 11); keep one',
        'line 13: lectures."a.md": this table is defined twice (first in line 10); keep one of them',
        f'line 14: lectures."a.md".limits: unknown table; expected {known}',
        'line 16: lectures."b.md": expected a table of its own, [lectures."b.md"]',
        f"line 17: '[lectures.\"c.md\"' is not TOML ({bracket}); {NOT_TOML}",
        "line 20: machines.m1: architecture, cpu, ram missing; expected system, architecture, cpu, cores, ram",
        "line 21: machines.m1.cores: found 'two'; expected a whole number, at least 0",
        "line 23: software.s1.packages: found 'numpy 2.1'; expected name and version, for example \"numpy==2.1.0\"",
        f"line 24: '[[lectures]]' is not TOML (Arrays of tables are not used here); {NOT_TOML}",
        f"line 25: extra: unknown table; expected {known}",
    ]


def test_one_lecture_in_two_spellings_is_there_twice(path):
    text = 'schema = 1\n[lectures."\u00e9.md"]\nwall = "1 s"\n[lectures."e\u0301.md"]\nwall = "2 s"\n'
    expected = 'line 4: lectures."\u00e9.md": this table is defined twice (first in line 2); keep one of them'
    assert faults_of(path, text) == [expected]


def test_a_variant_may_stand_before_its_lecture(path):
    text = 'schema = 1\n[lectures."a.md".variants."x"]\nwall = "1 s"\n[lectures."a.md"]\nwall = "1 s"\n[lectures]\n'
    path.write_text(text, "utf-8")
    assert set(load_budgets(path).lectures) == {("a.md", ""), ("a.md", "x")}


def test_a_control_character_in_a_comment_is_found_too(path):
    expected = "line 2: not TOML: Found invalid character '\\x00'"
    assert faults_of(path, "schema = 1\n# \x00\n") == [expected]


def test_numbers_without_end(path):
    digits = "1" + "0" * 400
    expected = f"line 3: rules.memory_fraction: found {digits[:60]}; expected a number, at least 0"
    assert faults_of(path, f"schema = 1\n[rules]\nmemory_fraction = {digits}\n") == [expected]
    (found,) = faults_of(path, f"schema = 1\n[rules]\nmemory_fraction = 1{'0' * 5000}\n")
    assert found.startswith("line 3: rules: ")
    assert "(Exceeds the limit (4300 digits) for integer string conversion" in found


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_a_damaged_file_is_read_as_tomllib_does_or_refused(data):
    lines = DOCUMENTATION.read_text("utf-8").split("```toml\n", 1)[1].split("```", 1)[0].split("\n")
    index = data.draw(st.integers(0, len(lines) - 1))
    column = data.draw(st.integers(0, len(lines[index])))
    inserted = data.draw(st.sampled_from(["", lines[0], *"\"'[]{}.,=#\r\\\x00\n 0\u00e9", "\n[lectures]\n"]))
    dropped = data.draw(st.integers(0, 3))
    lines[index] = lines[index][:column] + inserted + lines[index][column + dropped :]
    text = "\n".join(lines)
    lectures, faults = None, []
    try:
        lectures = {lecture for lecture, _ in parse_budget_text(text, "x", "linux-x86_64-cpu").budgets.lectures}
    except BudgetFileError as error:
        faults = str(error).split("\n")
    assert all(re.match(r"x line \d+: ", fault) for fault in faults)
    assert bool(faults) or lectures == set(tomllib.loads(text)["lectures"])


def test_a_missing_schema_is_a_fault(path):
    expected = "line 1: schema: missing; expected schema = 1 before the first table"
    assert faults_of(path, "") == [expected]
    assert faults_of(path, '[lectures."a.md"]\nwall = "1 s"\n') == [expected]


@pytest.mark.parametrize("schema", ["true", "1.0", '"1"', "0"])
def test_the_schema_is_the_number_1(path, schema):
    shown = repr("1") if schema == '"1"' else schema
    assert faults_of(path, f"schema = {schema}\n") == [
        f"line 1: schema: found {shown}; expected 1, all that this version reads"
    ]


def test_what_is_not_utf_8_is_named(path):
    path.write_bytes(b"schema = 1\n# caf\xe9\n")
    with pytest.raises(BudgetFileError) as caught:
        load_budgets(path)
    assert str(caught.value) == f"{path} line 2: byte 0xe9 is not UTF-8; save the file as UTF-8"


def test_a_file_not_named_after_a_platform_is_refused(tmp_path):
    path = tmp_path / "my machine.toml"
    path.write_text("schema = 1\n", "utf-8")
    with pytest.raises(BudgetFileError) as caught:
        load_budgets(path)
    with pytest.raises(SettingsError) as reason:
        parse_platform_label("my machine")
    assert str(caught.value) == f"{path}: the file must be named after its platform: {reason.value}"


def test_control_characters_of_a_file_do_not_reach_the_message(path):
    faults = faults_of(path, 'schema = 1\n[lectures."\\u001b[31m.md"]\nwall = "\\u001b[2J"\n')
    assert faults == [f"line 3: lectures.\"\\u001B[31m.md\".wall: duration '\\x1b[2J' is not understood; {TIMES}"]


def test_short_forms_are_limits_set_by_hand(path):
    path.write_text(
        'schema = 1\n[lectures."a.md"]\npeak_footprint = "2 GiB"\nwall = { limit = "1 h" }\npeak_swap = "0 B"\n'
        "major_faults = 7\n",
        "utf-8",
    )
    metrics = load_budgets(path).find("a.md").metrics
    assert {metric: (item.limit, item.hand_set) for metric, item in metrics.items()} == {
        Metric.PEAK_FOOTPRINT: (2 * GIB, True),
        Metric.WALL: (3600, True),
        Metric.PEAK_SWAP: (0, True),
        Metric.MAJOR_FAULTS: (7, True),
    }


def test_a_machine_is_read(path):
    path.write_text(
        'schema = 1\n[lectures."a.md"]\nwall = "1 s"\nmachine = "lab"\n[machines.lab]\nsystem = "Linux"\n'
        'architecture = "arm64"\ncpu = "M"\ncores = 8\nram = "16 GiB"\naccelerators = ["T4"]\ndriver = "550"\n'
        'cuda = "12.4"\n',
        "utf-8",
    )
    assert load_budgets(path).find("a.md").machine == Machine(
        system="Linux",
        architecture="arm64",
        cpu="M",
        core_count=8,
        ram_bytes=16 * GIB,
        accelerators=("T4",),
        driver="550",
        cuda="12.4",
    )
