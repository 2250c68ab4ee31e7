import os
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_lecturecheck.config.options import DEFAULTS
from pytest_lecturecheck.kernel.process.installed import describe_interpreter, describe_kernel
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Cell, Lecture, LectureFormat
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.session.fingerprint import take_fingerprint

GIB = 1024**3
MACHINE = Machine(system="Linux 6.18", architecture="x86_64", cpu="Example", core_count=4, ram_bytes=16 * GIB)
CELLS = (
    Cell(index=1, number=1, source="a = 1", line=5),
    Cell(index=3, number=2, source="1 / 0", line=9, tags=frozenset({"hide-input"})),
)


@pytest.fixture
def lecture(tmp_path):
    path = tmp_path / "intro.md"
    path.touch()
    return Lecture(
        path=path,
        name="intro.md",
        format=LectureFormat.MYST,
        kernel_name=None,
        language="python",
        cells=CELLS,
        settings=RunSettings(),
        findings=(),
        document=None,
    )


def key(lecture, settings=DEFAULTS, **more):
    arguments = {"platform": "linux-x86_64-cpu", "machine": MACHINE, **more}
    return take_fingerprint(lecture, settings, **arguments).key()


def changed_cell(lecture, **change):
    return replace(lecture, cells=(lecture.cells[0], replace(lecture.cells[1], **change)))


def test_the_same_state_has_the_same_key(lecture):
    assert key(lecture) == key(replace(lecture, cells=tuple(CELLS)))


@pytest.mark.parametrize(
    "change",
    [
        {"source": "1 / 1"},
        {"line": 10},
        {"skip_reason": "tag skip-execution"},
        {"expects_error": True},
    ],
)
def test_a_change_of_a_cell_that_changes_the_run_changes_the_key(lecture, change):
    assert key(changed_cell(lecture, **change)) != key(lecture)


def test_what_only_changes_the_page_does_not(lecture):
    noticed = (Finding(kind=FindingKind.NO_KERNELSPEC, message="no kernelspec"),)
    shown = replace(changed_cell(lecture, tags=frozenset({"remove-input"})), findings=noticed, metadata={"title": "x"})
    assert key(shown) == key(lecture)


@pytest.mark.parametrize(
    "settings",
    [
        replace(DEFAULTS, timeout_seconds=3.0),
        replace(DEFAULTS, total_timeout_seconds=3.0),
        replace(DEFAULTS, allow_errors=True),
        replace(DEFAULTS, run_in_temp=True),
        replace(DEFAULTS, kernel_name="another"),
        replace(DEFAULTS, declared_memory_bytes=8 * GIB),
        replace(DEFAULTS, memory_cap_bytes=8 * GIB),
    ],
)
def test_a_setting_that_matters_changes_the_key(lecture, settings):
    assert key(lecture, settings) != key(lecture)


def test_the_origin_of_a_setting_does_not_matter(lecture):
    assert key(lecture, replace(DEFAULTS, origins={"timeout_seconds": "--lecture-timeout"})) == key(lecture)


def test_another_platform_or_a_larger_machine_changes_the_key(lecture):
    assert key(lecture, platform="linux-x86_64-tesla_t4") != key(lecture)
    assert key(lecture, machine=replace(MACHINE, core_count=8)) != key(lecture)
    assert key(lecture, machine=replace(MACHINE, memory_limit_bytes=7 * GIB)) != key(lecture)
    assert key(lecture, machine=replace(MACHINE, cpu="Other", system="Linux 6.19")) == key(lecture)
    assert key(lecture, machine=replace(MACHINE, ram_bytes=16 * GIB - 4096 * 1000)) == key(lecture)


def test_a_module_beside_the_lecture_counts_by_its_content(lecture):
    module = lecture.path.with_name("tools.py")
    module.write_text("a = 1\n")
    before = key(lecture)
    module.write_text("a = 2\n")
    assert key(lecture) != before


def test_a_data_file_that_is_added_or_grows_changes_the_key(lecture):
    without = key(lecture)
    data = lecture.path.parent / "data" / "rates.csv"
    data.parent.mkdir()
    data.write_text("1\n")
    first = key(lecture)
    data.write_text("1\n2\n")
    assert len({without, first, key(lecture)}) == 3


def test_what_a_run_cannot_read_from_its_folder_does_not_count(lecture):
    in_temp = replace(DEFAULTS, run_in_temp=True)
    before = key(lecture), key(lecture, in_temp)
    for name in ("junit.xml", "other.ipynb", "other.md", ".hidden.csv", "_build/x.csv", ".cache/x.py", "fig.png"):
        path = lecture.path.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1\n")
    assert (key(lecture), key(lecture, in_temp)) == before
    lecture.path.with_name("rates.csv").write_text("1\n")
    assert key(lecture, in_temp) == before[1]


def test_reports_of_the_session_are_not_inputs(lecture):
    report = lecture.path.with_name("report.json")
    before = key(lecture, outputs=frozenset({report}))
    report.write_text("{}")
    assert key(lecture, outputs=frozenset({report})) == before
    assert key(lecture) != before


def test_files_left_by_the_failing_run_are_part_of_the_state(lecture):
    state = take_fingerprint(lecture, DEFAULTS, platform="linux-x86_64-cpu", machine=MACHINE)
    before = state.key()
    lecture.path.with_name("out.csv").write_text("1\n")
    assert state.key() != before
    assert state.key() == key(lecture)


def test_a_module_changed_during_the_run_changes_the_key(lecture):
    module = lecture.path.with_name("tools.py")
    module.write_text("a = 1\n")
    state = take_fingerprint(lecture, DEFAULTS, platform="linux-x86_64-cpu", machine=MACHINE)
    module.write_text("a = 2\n")
    assert state.key() != key(lecture)


def test_names_that_are_not_unicode_have_a_key(lecture):
    assert len(key(replace(lecture, name="bad\udcff.md"))) == 64


def test_the_running_interpreter_is_described_by_its_distributions(tmp_path):
    (tmp_path / "tools-1.0.dist-info").mkdir()
    (tmp_path / "tools").mkdir()
    without = describe_interpreter({})
    assert set(describe_interpreter({"PYTHONPATH": str(tmp_path)})) - set(without) == {"tools-1.0.dist-info"}
    assert any(name.startswith("pytest-") and name.endswith(".dist-info") for name in without)


def test_the_default_kernel_is_the_running_interpreter():
    words = describe_kernel(None)
    assert words[:3] == ("python3", "-m", "ipykernel_launcher")
    assert set(describe_interpreter(os.environ)) <= set(words)


def test_a_kernel_that_is_not_installed_is_described_as_such():
    assert describe_kernel("no-such-kernel") == ("no-such-kernel", "not to be started")


def test_another_kernel_is_described_by_its_program(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "interpreter"
    program.parent.mkdir()
    program.touch(mode=0o755)
    os.utime(program, ns=(5, 5))
    spec = tmp_path / "share" / "kernels" / "other" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(f'{{"argv": ["{program.as_posix()}", "-f"], "display_name": "Other", "language": "other"}}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share"))
    assert describe_kernel("other") == ("other", str(Path(program)), "-f", "5")
    program.unlink()
    assert describe_kernel("other") == ("other", program.as_posix(), "-f", "no such program")
