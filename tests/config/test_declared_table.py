"""The table [declared] of the settings file."""

import pytest

from pytest_lecturecheck.config.options import resolve
from pytest_lecturecheck.config.settings_check import find_settings_faults
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.settings import RunSettings

WHOLE = """
[declared]
memory = "24 GB"
time = "12 hours"
cores = 16
disk = "50 GB"
enforce = true
"""


def settings(folder, text, **given):
    (folder / "lecturecheck.toml").write_text(text, encoding="utf-8")
    return resolve(given, folder, folder).for_lecture(RunSettings())


def test_the_table_sets_the_options_of_its_keys(tmp_path):
    found = settings(tmp_path, WHOLE)
    assert (found.declared_memory_bytes, found.declared_time_seconds) == (24 * 10**9, 12 * 3600)
    assert (found.declared_core_count, found.declared_disk_bytes) == (16, 50 * 10**9)
    # What follows from it: the cap, and no cell is stopped before the declared time.
    assert (found.memory_cap_bytes, found.timeout_seconds) == (24e9, 12 * 3600)
    assert find_settings_faults(tmp_path) == ("lecturecheck.toml", ())


def test_the_command_line_replaces_a_key(tmp_path):
    assert settings(tmp_path, WHOLE, **{"declared-memory": 5}).declared_memory_bytes == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "declared = 3",
            "declared: declared = 3 is not a table; expected [declared] with lines such as memory = '24 GB'",
        ),
        ("[declared]\nmemroy = '1 GB'", "declared: [declared] has the unknown key 'memroy'; did you mean memory?"),
        ("[declared]\nmemory = '1 Gb'", "declared: [declared] memory: *'1 Gb'*"),
        ("[declared]\ncores = 0", "declared: [declared] cores: *0*"),
        (
            "declared-time = '1 h'\n[declared]\ntime = '2 h'",
            "declared-time and [declared] both state it; expected one of them",
        ),
    ],
)
def test_wrong_tables_are_refused_before_anything_runs(tmp_path, text, message):
    with pytest.raises(SettingsError) as caught:
        settings(tmp_path, text)
    shown = str(caught.value)
    assert shown.startswith("lecturecheck.toml: ")
    parts = message.split("*")
    assert all(part in shown for part in parts), shown
