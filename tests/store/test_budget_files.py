import difflib
import errno
import os
import re
import tempfile
import threading
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.budget_samples import (
    MACHINE,
    PLATFORM,
    SOFTWARE,
    budgets,
    entry,
    entry_keys,
    many_budgets,
    metric_budget,
    printed,
)
from support.examples import examples

from pytest_lecturecheck.budget.limits import MetricBudget, PlatformBudgets, Tolerance
from pytest_lecturecheck.errors import BudgetFileError, SettingsError
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.store.budget_file.files import budget_path, load_budgets, load_folder, save_budgets
from pytest_lecturecheck.units import GIB, MIB

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "reference" / "budget-files.md"
EXAMPLE = """\
# Limits of each lecture on linux-x86_64-cpu. Written by: pytest --lecture-record
# Later recordings keep comments, and limits that were changed by hand.
# Values that a lecture reports (figures.*) get their limits by hand: at_least, limit, or both.

schema = 1
platform = "linux-x86_64-cpu"

[rules]
# size limit = max(highest * (1 + memory_fraction), highest + memory_slack)
# time limit = highest * time_factor + time_slack
memory_fraction = 0.1
memory_slack = "64 MiB"
time_factor = 2.0
time_slack = "10 s"

[lectures."intro/kalman.md"]
recorded = 2025-01-31
runs = 2
machine = "mfdd3576"
software = "s41725f6"
peak_footprint = { limit = "464 MiB", seen = ["400 MiB", "398.5 MiB"], method = "exact" }
wall = { limit = "34.88 s", seen = ["12.34 s", "12.44 s"], method = "exact" }
heaviest_cells = [
  { cell = 3, line = 41, peak_footprint = "400 MiB" },
]

[lectures."étude.md".variants."gpu-f32"]
recorded = 2025-01-31
runs = 2
machine = "mfdd3576"
software = "s41725f6"
peak_footprint = { limit = "1.173 GiB", seen = ["1.066 GiB", "1.065 GiB"], method = "exact" }
wall = { limit = "34.88 s", seen = ["12.34 s", "12.44 s"], method = "exact" }
heaviest_cells = [
  { cell = 3, line = 41, peak_footprint = "1.066 GiB" },
]

[machines.mfdd3576]
system = "Linux 6.8"
architecture = "x86_64"
cpu = "AMD EPYC 7763"
cores = 2
ram = "7.755 GiB"
swap = "0 B"

[software.s41725f6]
python = "3.12.1"
blas = [
  "openblas 0.3.27, 2 threads",
]
packages = [
  "numpy==2.1.0",
]
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / f"{PLATFORM}.toml"


def write(path, text):
    path.write_bytes(text.encode("utf-8"))
    return path


def faults_of(path):
    with pytest.raises(BudgetFileError) as caught:
        load_budgets(path)
    return str(caught.value).replace(f"{path} ", "").split("\n")


def test_a_new_file_is_sorted_readable_and_complete(path):
    assert save_budgets(path, budgets(entry("étude.md", 1091.1, "gpu-f32"), entry("intro/kalman.md"))) is True
    assert path.read_bytes().decode("utf-8") == EXAMPLE


def test_the_example_of_the_documentation_is_what_is_written(path):
    text = DOCUMENTATION.read_text("utf-8")
    example = text.split("```toml\n", 1)[1].split("```", 1)[0]
    held = load_budgets(write(path, example))
    by_hand = [metric for item in held.lectures.values() for metric, value in item.metrics.items() if value.hand_set]
    assert by_hand == [Metric.WALL]
    assert save_budgets(path, held) is False
    path.unlink()
    save_budgets(path, held)
    comments = re.compile(r"^# (?!Limits|Later|Values|size limit|time limit).*\n|  # .*", re.MULTILINE)
    assert path.read_text("utf-8") == comments.sub("", example)


def test_the_file_is_read_as_it_was_meant(path):
    given_budgets = budgets(entry("intro/kalman.md"), entry("étude.md", 1091.1, "gpu-f32"))
    write(path, EXAMPLE)
    assert load_budgets(path) == printed(given_budgets)


def test_a_missing_file_holds_no_budgets(path):
    assert load_budgets(path) == PlatformBudgets(platform=PLATFORM)


@settings(max_examples=examples(50), deadline=None)
@example(budgets(entry("a.md", variant="\ud800")))
@example(budgets(entry("\udcff.md", variant="\udcff")))
@given(many_budgets())
def test_budgets_survive_the_store(given_budgets):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{PLATFORM}.toml")
        assert save_budgets(path, given_budgets)
        found = load_budgets(path)
        assert found == printed(given_budgets)
        before = path.read_bytes()
        assert not save_budgets(path, found)
        assert not save_budgets(path, given_budgets)
        assert path.read_bytes() == before
        assert list(Path(folder).iterdir()) == [path]
        assert b"\r" not in before


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_saving_over_a_commented_file_keeps_the_comments(data):
    keys = data.draw(entry_keys)
    first, second = data.draw(many_budgets(keys)), data.draw(many_budgets(keys))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{PLATFORM}.toml")
        save_budgets(path, first)
        lines, comments, is_lecture, is_open = [], [], False, False
        for line in path.read_text("utf-8").split("\n"):
            is_lecture = line.startswith("[lectures") or (
                is_lecture and not line.startswith(("[machines", "[software"))
            )
            if is_lecture and not is_open and line and data.draw(st.booleans()):
                comments.append(f"# comment {len(comments)}")
                lines.append(comments[-1])
            is_open = line.endswith("[") or (is_open and line != "]")
            lines.append(line)
        write(path, "\n".join(lines))
        save_budgets(path, second)
        assert load_budgets(path) == printed(second)
        kept = re.findall(r"^# comment \d+$", path.read_text("utf-8"), re.MULTILINE)
        assert sorted(kept) == sorted(comments)


@settings(max_examples=examples(15), deadline=None)
@given(st.data())
def test_the_order_of_recording_does_not_matter(data):
    given_budgets = data.draw(many_budgets())
    order = data.draw(st.permutations(list(given_budgets.lectures)))
    with tempfile.TemporaryDirectory() as folder:
        at_once, one_by_one = Path(folder, "a", f"{PLATFORM}.toml"), Path(folder, "b", f"{PLATFORM}.toml")
        save_budgets(at_once, given_budgets)
        save_budgets(one_by_one, replace(given_budgets, lectures={}))
        for count in range(1, len(order) + 1):
            part = {key: given_budgets.lectures[key] for key in order[:count]}
            save_budgets(one_by_one, replace(given_budgets, lectures=part))
        assert one_by_one.read_bytes() == at_once.read_bytes()


def test_comments_and_limits_set_by_hand_survive_recording(path):
    write(
        path,
        """\
# Ask the editors before raising a limit.
schema = 1

# --- first part ---

# the runner has 7 GB
[lectures."b.md"] # slow
# agreed in May
peak_footprint = "2 GB"   # not more
wall = { limit = "1 min" } # patience
# the end
""",
    )
    held = load_budgets(path).lectures["b.md", ""]
    recorded = {
        metric: replace(metric_budget(metric, 400 * MIB if metric.is_memory else 12), limit=item.limit, hand_set=True)
        for metric, item in held.metrics.items()
    }
    save_budgets(
        path, budgets(replace(held, metrics=recorded, run_count=1), entry("a.md", machine=None, software=None))
    )
    assert (
        path.read_text("utf-8")
        == """\
# Ask the editors before raising a limit.
schema = 1

[lectures."a.md"]
recorded = 2025-01-31
runs = 2
peak_footprint = { limit = "464 MiB", seen = ["400 MiB", "398.5 MiB"], method = "exact" }
wall = { limit = "34.88 s", seen = ["12.34 s", "12.44 s"], method = "exact" }
heaviest_cells = [
  { cell = 3, line = 41, peak_footprint = "400 MiB" },
]

# --- first part ---

# the runner has 7 GB
[lectures."b.md"] # slow
runs = 1
# agreed in May
peak_footprint = { limit = "2 GB", seen = ["400 MiB"], method = "exact" }   # not more
wall = { limit = "1 min", seen = ["12 s"], method = "exact" } # patience
# the end
"""
    )


def test_tables_that_did_not_change_keep_their_bytes(path):
    odd = '[lectures."b.md"]\n  wall={limit="1:30"}\n\n\n'
    write(path, f'schema = 1\n{odd}[lectures."c.md"]\nwall = "2 min"\n')
    held = load_budgets(path)
    changed = {**held.lectures, ("c.md", ""): entry("c.md", machine=None, software=None)}
    save_budgets(path, replace(held, lectures=changed))
    assert odd in path.read_text("utf-8")
    assert load_budgets(path).lectures == printed(replace(held, lectures=changed)).lectures


def test_comments_inside_a_replaced_value_move_above_it(path):
    text = 'schema = 1\n[lectures."a.md"]\npeak_rss = { seen = [\n  "1 GiB", # warm\n  "2 GiB", # cold\n] } # both\n'
    write(path, text)
    held = load_budgets(path).lectures["a.md", ""]
    seen = MetricBudget(metric=Metric.PEAK_RSS, seen=(GIB,))
    save_budgets(path, budgets(replace(held, metrics={Metric.PEAK_RSS: seen})))
    expected = '[lectures."a.md"]\n# warm\n# cold\npeak_rss = { seen = ["1 GiB"] } # both\n'
    assert path.read_text("utf-8").endswith(expected)


def test_a_removed_entry_takes_only_its_own_comment(path):
    write(
        path,
        'schema = 1\n\n# section\n\n# about a\n[lectures."a.md"]\nwall = "1 s"\n\n'
        '# about b\n[lectures."b.md"]\nwall = "2 s"\n',
    )
    held = load_budgets(path)
    save_budgets(path, replace(held, lectures={("b.md", ""): held.lectures["b.md", ""]}))
    assert path.read_text("utf-8") == 'schema = 1\n\n# section\n\n# about b\n[lectures."b.md"]\nwall = "2 s"\n'


def test_removing_the_last_entry_keeps_floating_comments(path):
    write(path, 'schema = 1\n\n# section\n\n# about a\n[lectures."a.md"]\nwall = "1 s"\n')
    save_budgets(path, replace(load_budgets(path), lectures={}))
    assert path.read_text("utf-8") == "schema = 1\n\n# section\n"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_an_unchanged_file_is_not_touched_whatever_its_line_ends(path, line_end, mark):
    write(path, mark + EXAMPLE.rstrip("\n").replace("\n", line_end))
    held = load_budgets(path)
    assert held == printed(budgets(entry("intro/kalman.md"), entry("étude.md", 1091.1, "gpu-f32")))
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert save_budgets(path, held) is False
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_a_file_with_crlf_gets_lf_when_it_changes(path):
    write(path, EXAMPLE.replace("\n", "\r\n"))
    save_budgets(path, replace(load_budgets(path), lectures={("a.md", ""): entry("a.md")}))
    assert b"\r" not in path.read_bytes()


def test_keys_in_nfd_match_and_become_nfc(path):
    write(path, f'schema = 1\n[lectures."{unicodedata.normalize("NFD", "été.md")}"] # summer\nwall = "3 s"\n')
    held = load_budgets(path)
    assert list(held.lectures) == [("été.md", "")]
    assert held.find("été.md").lecture == "été.md"
    changed = replace(held.lectures["été.md", ""], run_count=4)
    save_budgets(path, budgets(changed))
    assert path.read_text("utf-8") == 'schema = 1\n[lectures."été.md"] # summer\nruns = 4\nwall = "3 s"\n'


def test_names_that_are_no_unicode_survive(path):
    given_budgets = budgets(entry("caf\udce9.md"))
    save_budgets(path, given_budgets)
    assert '[lectures."caf\\\\udce9.md"]' in path.read_text("utf-8")
    assert load_budgets(path) == printed(given_budgets)


def test_machines_and_software_go_with_their_last_entry(path):
    other = replace(MACHINE, cpu="Intel Xeon")
    save_budgets(path, budgets(entry("a.md"), entry("b.md"), entry("c.md", machine=other)))
    text = path.read_text("utf-8")
    assert (text.count("[machines."), text.count("[software.")) == (2, 1)
    save_budgets(path, budgets(entry("a.md"), entry("b.md"), entry("c.md")))
    text = path.read_text("utf-8")
    assert (text.count("[machines."), text.count("[software."), "Xeon" in text) == (1, 1, False)
    save_budgets(path, budgets(entry("a.md", machine=None, software=None)))
    assert "[machines." not in path.read_text("utf-8")
    assert "[software." not in path.read_text("utf-8")


def test_an_edited_machine_table_is_not_reused_for_its_old_content(path):
    save_budgets(path, budgets(entry("a.md")))
    write(path, path.read_text("utf-8").replace("AMD EPYC 7763", "the blue one"))
    held = load_budgets(path).lectures["a.md", ""]
    assert held.machine.cpu == "the blue one"
    save_budgets(path, budgets(held, entry("b.md")))
    found = load_budgets(path)
    assert found.find("a.md").machine.cpu == "the blue one"
    assert found.find("b.md").machine.cpu == "AMD EPYC 7763"


def test_new_rules_are_written_and_the_derived_limits_with_them(path):
    save_budgets(path, budgets(entry("a.md")))
    text = path.read_text("utf-8").replace("[rules]\n", "[rules] # ours\n")
    write(path, text)
    save_budgets(path, budgets(entry("a.md"), tolerance=Tolerance(memory_fraction=0.5, time_slack_seconds=2.5)))
    assert path.read_text("utf-8") == text.replace("memory_fraction = 0.1", "memory_fraction = 0.5").replace(
        'time_slack = "10 s"', 'time_slack = "2.5 s"'
    ).replace('limit = "464 MiB"', 'limit = "600 MiB"').replace('limit = "34.88 s"', 'limit = "27.38 s"')
    assert not any(item.hand_set for item in load_budgets(path).find("a.md").metrics.values())


def test_only_an_edited_limit_counts_as_set_by_hand(path):
    write(path, EXAMPLE.replace('limit = "464 MiB"', 'limit = "465 MiB"'))
    metrics = load_budgets(path).find("intro/kalman.md").metrics
    assert metrics[Metric.PEAK_FOOTPRINT].hand_set
    assert metrics[Metric.PEAK_FOOTPRINT].limit == 465 * MIB
    assert not metrics[Metric.WALL].hand_set


def test_a_derived_limit_in_another_unit_is_still_derived(path):
    write(path, EXAMPLE.replace('limit = "464 MiB"', 'limit = "475136 KiB"'))
    assert not load_budgets(path).find("intro/kalman.md").metrics[Metric.PEAK_FOOTPRINT].hand_set


def test_two_recordings_of_different_lectures_change_different_lines(path):
    save_budgets(path, budgets(entry("a.md"), entry("b.md"), entry("c.md")))
    base = path.read_text("utf-8").split("\n")
    touched = []
    for changed in (entry("a.md", 500), entry("b.md", 900, seconds=2)):
        save_budgets(path, budgets(*{item.lecture: item for item in map(entry, ("a.md", "b.md", "c.md"))}.values()))
        held = load_budgets(path)
        save_budgets(path, replace(held, lectures={**held.lectures, (changed.lecture, ""): changed}))
        steps = difflib.SequenceMatcher(None, base, path.read_text("utf-8").split("\n"), autojunk=False).get_opcodes()
        # One line on each side is counted in: a merge tool takes adjacent changes for a conflict.
        touched.append({line for tag, low, high, _, _ in steps if tag != "equal" for line in range(low - 1, high + 1)})
    assert all(touched)
    assert not touched[0] & touched[1]


def test_writing_needs_the_platforms_own_file(tmp_path):
    with pytest.raises(BudgetFileError) as caught:
        save_budgets(tmp_path / "darwin-arm64-cpu.toml", budgets(entry("a.md")))
    expected = (
        f"{tmp_path}/darwin-arm64-cpu.toml: budgets of {PLATFORM} belong in another file; expected {PLATFORM}.toml"
    )
    assert str(caught.value).replace(os.sep, "/") == expected.replace(os.sep, "/")
    assert list(tmp_path.iterdir()) == []


def test_a_platform_label_cannot_leave_the_folder(tmp_path):
    assert budget_path(tmp_path, "g4dn.2xlarge") == tmp_path / "g4dn.2xlarge.toml"
    with pytest.raises(SettingsError):
        budget_path(tmp_path, "../x")


def test_folders_are_read_whole(tmp_path):
    assert load_folder(tmp_path / "none") == {}
    save_budgets(tmp_path / "a.toml", budgets(entry("a.md"), platform="a"))
    save_budgets(tmp_path / "b.toml", budgets(entry("b.md"), platform="b"))
    write(tmp_path / ".b.toml.1234.toml", "left over")
    write(tmp_path / "README.md", "words")
    found = load_folder(tmp_path)
    assert {name: list(item.lectures) for name, item in found.items()} == {"a": [("a.md", "")], "b": [("b.md", "")]}


def test_the_faults_of_all_files_of_a_folder_are_listed(tmp_path):
    write(tmp_path / "a.toml", "schema = 2\n")
    write(tmp_path / "b.toml", "schema = 1\nx = 1\n")
    with pytest.raises(BudgetFileError) as caught:
        load_folder(tmp_path)
    assert str(caught.value).split("\n") == [
        (
            f"{tmp_path / 'a.toml'} line 1: schema: 2 was written by a newer version, and this one reads "
            "schema 1; update pytest-lecturecheck"
        ),
        f"{tmp_path / 'b.toml'} line 2: x: unknown key; expected schema, platform, or a table",
    ]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    save_budgets(path, budgets(entry("a.md")))
    before = path.read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BudgetFileError) as caught:
        save_budgets(path, budgets(entry("a.md", 900)))
    assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_in_the_place_of_the_file_is_named(path):
    path.mkdir()
    with pytest.raises(BudgetFileError) as caught:
        load_budgets(path)
    assert str(caught.value).startswith(f"{path}: cannot be read: ")


def test_writers_at_the_same_time_leave_one_whole_file(path):
    wanted = [budgets(entry("a.md", 100 * (index + 1))) for index in range(4)]

    def save_often(item):
        for _ in range(10):
            save_budgets(path, item)

    threads = [threading.Thread(target=save_often, args=(item,)) for item in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load_budgets(path) in [printed(item) for item in wanted]
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(os.name == "nt", reason="permissions and symbolic links of POSIX")
def test_permissions_and_symbolic_links_stay(tmp_path):
    real = tmp_path / "real" / "budgets.txt"
    real.parent.mkdir()
    link = tmp_path / f"{PLATFORM}.toml"
    link.symlink_to(real)
    save_budgets(link, budgets(entry("a.md")))
    real.chmod(0o640)
    save_budgets(link, budgets(entry("b.md")))
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert list(load_budgets(link).lectures) == [("b.md", "")]


def test_packages_of_odd_names_do_not_stop_a_recording(path):
    odd = replace(SOFTWARE, packages={"numpy": "2.1.0", "a b==c": "1", "": "2"})
    save_budgets(path, budgets(entry("a.md", software=odd)))
    assert load_budgets(path).find("a.md").software.packages == {"numpy": "2.1.0"}
