from __future__ import annotations

import pytest
from support.made_pages import code, notebook, page

from pytest_lecturecheck.errors import LectureReadError
from pytest_lecturecheck.lecture.own_settings import OWN_KEYS
from pytest_lecturecheck.lecture.reading import read_lecture
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.settings import NO_LIMIT, RunSettings

CELL = "```{code-cell}\n1\n```\n"


def _settings(folder, header: str) -> RunSettings:
    path = page(folder, CELL, header=f"---\nfile_format: mystnb\n{header}---\n")
    return read_lecture(path, name="lecture.md").settings


def _fault(folder, header: str) -> str:
    with pytest.raises(LectureReadError) as caught:
        _settings(folder, header)
    return str(caught.value)


def test_every_key_of_our_own_table(tmp_path):
    settings = _settings(
        tmp_path,
        "lecturecheck:\n  timeout: 90\n  total-timeout: 2 min\n  startup-timeout: 0\n  allow-errors: true\n"
        "  run-in-temp: true\n  kernel: julia\n  skip: needs a GPU\n"
        "  declared-memory: 24 GB\n  declared-time: 12 hours\n  memory-cap: 2 GB\n",
    )
    names = {
        "timeout_seconds": "timeout",
        "total_timeout_seconds": "total-timeout",
        "startup_timeout_seconds": "startup-timeout",
        "allow_errors": "allow-errors",
        "run_in_temp": "run-in-temp",
        "kernel_name": "kernel",
        "skip_reason": "skip",
        "declared_memory_bytes": "declared-memory",
        "declared_time_seconds": "declared-time",
        "memory_cap_bytes": "memory-cap",
    }
    assert settings == RunSettings(
        timeout_seconds=90.0,
        total_timeout_seconds=120.0,
        startup_timeout_seconds=NO_LIMIT,
        allow_errors=True,
        run_in_temp=True,
        kernel_name="julia",
        skip_reason="needs a GPU",
        declared_memory_bytes=24_000_000_000,
        declared_time_seconds=43_200.0,
        memory_cap_bytes=2_000_000_000,
        origins={name: f"front matter lecturecheck.{key}" for name, key in names.items()},
    )


@pytest.mark.parametrize(
    ("header", "attribute", "value", "origin"),
    [
        ("lecturecheck:\n  concurrency: 2\n", "concurrency", (2,), "lecturecheck.concurrency"),
        ("lecturecheck:\n  concurrency: 1,3\n", "concurrency", (1, 3), "lecturecheck.concurrency"),
        ("lecturecheck:\n  concurrency: [3, 1]\n", "concurrency", (1, 3), "lecturecheck.concurrency"),
        (
            "lecturecheck:\n  strict-except: [install]\n",
            "strict_except",
            (FindingKind.INSTALL,),
            "lecturecheck.strict-except",
        ),
        ("execution:\n  timeout: 30\n", "timeout_seconds", 30.0, "execution.timeout"),
        ("execution:\n  timeout: -1\n", "timeout_seconds", NO_LIMIT, "execution.timeout"),
        ("execution:\n  timeout: null\n", "timeout_seconds", NO_LIMIT, "execution.timeout"),
        ("execution:\n  allow_errors: true\n", "allow_errors", True, "execution.allow_errors"),
        ("mystnb:\n  execution_timeout: 7.5\n", "timeout_seconds", 7.5, "mystnb.execution_timeout"),
        ("mystnb:\n  execution_allow_errors: true\n", "allow_errors", True, "mystnb.execution_allow_errors"),
        ("mystnb:\n  execution_in_temp: true\n", "run_in_temp", True, "mystnb.execution_in_temp"),
        ("nbsphinx:\n  timeout: 5\n", "timeout_seconds", 5.0, "nbsphinx.timeout"),
        ("nbsphinx:\n  allow_errors: false\n", "allow_errors", False, "nbsphinx.allow_errors"),
        (
            "mystnb:\n  execution_timeout: 1\nexecution:\n  timeout: 2\n",
            "timeout_seconds",
            2.0,
            "execution.timeout",
        ),
        (
            "execution:\n  timeout: 2\nlecturecheck:\n  timeout: 3\n",
            "timeout_seconds",
            3.0,
            "lecturecheck.timeout",
        ),
    ],
)
def test_conventions(tmp_path, header, attribute, value, origin):
    settings = _settings(tmp_path, header)
    assert getattr(settings, attribute) == value
    assert settings.origins == {attribute: f"front matter {origin}"}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("lecturecheck:\n  skip: true\n", "lecturecheck.skip is true"),
        ("lecturecheck:\n  skip: false\nexecute:\n  skip: true\n", ""),
        ("execute:\n  skip: true\n", "execute.skip is true"),
        ("execute:\n  skip: false\n", None),
        ("skip_execution: true\n", "skip_execution is true"),
        ("tags: [skip-execution]\n", "the notebook is tagged skip-execution"),
        ("tags: economics\n", None),
        ("nbreg:\n  skip: true\n", "nbreg.skip is true"),
        ("nbreg:\n  skip: true\n  skip_reason: too slow\n", "too slow"),
        ("nbsphinx:\n  execute: never\n", "nbsphinx.execute is never"),
        ("nbsphinx:\n  execute: auto\n", None),
        ("mystnb:\n  execution_mode: off\n", "mystnb.execution_mode is off"),
        ("mystnb:\n  execution_mode: 'off'\n", "mystnb.execution_mode is off"),
        ("mystnb:\n  execution_mode: force\n", ""),
        ("mystnb:\n  execution_mode: force\nexecute:\n  skip: true\n", "execute.skip is true"),
    ],
)
def test_reasons_to_skip(tmp_path, header, reason):
    assert _settings(tmp_path, header).skip_reason == reason


KEYS = ", ".join(OWN_KEYS)


def test_all_faults_are_reported_in_file_order(tmp_path):
    header = (
        "mystnb:\n  execution_mode: sometimes\n"
        "lecturecheck:\n  Total_Timeout: 3\n  timeout: soon\n  colour: blue\n  kernel: julia\n"
        "nbreg:\n  skip: 'yes'\n"
    )
    assert _fault(tmp_path, header) == (
        "lecture.md:4: front matter mystnb.execution_mode is 'sometimes'; expected one of off, auto, force, cache, "
        "inline\n"
        "lecture.md:6: front matter lecturecheck.Total_Timeout is not known; did you mean total-timeout? expected one "
        f"of {KEYS}\n"
        "lecture.md:7: front matter lecturecheck.timeout cannot be used: duration 'soon' is not understood; expected "
        "numbers with units (ms, s, min, h, days) or m:ss or h:mm:ss\n"
        f"lecture.md:8: front matter lecturecheck.colour is not known; expected one of {KEYS}\n"
        "lecture.md:11: front matter nbreg.skip is 'yes'; expected true or false"
    )


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (
            "lecturecheck:\n  timeot: 3\n",
            f"4: front matter lecturecheck.timeot is not known; did you mean timeout? expected one of {KEYS}",
        ),
        (
            "lecturecheck: 3\n",
            f"3: front matter lecturecheck is 3; expected a table with {KEYS}",
        ),
        (
            "lecturecheck:\n  timeout: [90]\n",
            (
                "4: front matter lecturecheck.timeout cannot be used: [90] is not a duration; "
                "expected a number of seconds or for example '10 min'"
            ),
        ),
        (
            "lecturecheck:\n  allow-errors: 'yes'\n",
            "4: front matter lecturecheck.allow-errors cannot be used: 'yes' is neither true nor false",
        ),
        ("lecturecheck:\n  kernel: 3\n", "4: front matter lecturecheck.kernel cannot be used: 3 is not text"),
        (
            "lecturecheck:\n  skip: 3\n",
            "4: front matter lecturecheck.skip cannot be used: 3 is not true, false or a reason",
        ),
        (
            "execution:\n  timeout: soon\n",
            (
                "4: front matter execution.timeout is 'soon'; "
                "expected a number of seconds (0, a negative number or null for no limit)"
            ),
        ),
        (
            "execution:\n  timeout: true\n",
            (
                "4: front matter execution.timeout is True; "
                "expected a number of seconds (0, a negative number or null for no limit)"
            ),
        ),
        (
            "execution:\n  timeout: .nan\n",
            (
                "4: front matter execution.timeout is nan; "
                "expected a number of seconds (0, a negative number or null for no limit)"
            ),
        ),
        (
            "lecturecheck:\n  concurrency: 0\n",
            (
                "4: front matter lecturecheck.concurrency cannot be used: concurrency 0 is not understood: expected "
                "numbers of kernels from 1 to 64, as in '1,2,3'"
            ),
        ),
        (
            "mystnb:\n  execution_mode: sometimes\n",
            "4: front matter mystnb.execution_mode is 'sometimes'; expected one of off, auto, force, cache, inline",
        ),
    ],
)
def test_bad_values_name_file_line_and_key(tmp_path, header, fault):
    assert _fault(tmp_path, header) == f"lecture.md:{fault}"


@pytest.mark.parametrize(("key", "kind"), [("declared-memory", "size"), ("declared-time", "duration")])
def test_declared_values_without_unit_are_refused(tmp_path, key, kind):
    start = f"lecture.md:4: front matter lecturecheck.{key} cannot be used: {kind} 24 is not "
    assert _fault(tmp_path, f"lecturecheck:\n  {key}: 24\n").startswith(start)


def test_malformed_sections_of_other_tools_are_ignored(tmp_path):
    assert _settings(tmp_path, "execution: yes\nmystnb: [a]\nexecute: 3\nnbsphinx:\n") == RunSettings()


def test_lines_of_settings_are_kept(tmp_path):
    settings = _settings(
        tmp_path, "lecturecheck:\n  timeout: 3\n  memory-cap: 1 GB\nmystnb:\n  execution_in_temp: true\n"
    )
    assert settings.lines == {"timeout_seconds": 4, "memory_cap_bytes": 5, "run_in_temp": 7}


def test_notebook_metadata(tmp_path):
    path = notebook(tmp_path, code("1"), metadata={"lecturecheck": {"timeout": 5}, "tags": ["skip-execution"]})
    assert read_lecture(path, name="lecture.ipynb").settings == RunSettings(
        timeout_seconds=5.0,
        skip_reason="the notebook is tagged skip-execution",
        origins={
            "timeout_seconds": "notebook metadata lecturecheck.timeout",
            "skip_reason": "notebook metadata tags",
        },
    )


def test_nan_in_notebook_metadata_names_the_file(tmp_path):
    path = notebook(tmp_path, code("1"), metadata={"execution": {"timeout": float("nan")}})
    with pytest.raises(LectureReadError) as caught:
        read_lecture(path, name="lecture.ipynb")
    assert str(caught.value) == (
        "lecture.ipynb:15: notebook metadata execution.timeout is nan; "
        "expected a number of seconds (0, a negative number or null for no limit)"
    )
