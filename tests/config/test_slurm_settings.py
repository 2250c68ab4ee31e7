"""What Slurm is asked for: settings, memory of a step, lines for sbatch."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.budget.limits import LectureBudget, MetricBudget
from pytest_lecturecheck.config.slurm_settings import (
    LEAST_STEP_BYTES,
    SlurmSettings,
    job_name,
    mebibytes,
    parse_slurm,
    sbatch_line,
    step_memory_bytes,
)
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.settings import AUTOMATIC_CAP, NO_LIMIT, GpuNeed, RunSettings
from pytest_lecturecheck.units import GIB, MIB

METRIC = Metric.PEAK_FOOTPRINT


def budget(limit_bytes):
    return LectureBudget(lecture="a.md", metrics={METRIC: MetricBudget(metric=METRIC, limit=limit_bytes)})


def test_a_whole_table():
    settings = parse_slurm(
        {
            "partition": "short",
            "account": "econ",
            "time": "1:30:00",
            "gres": "gpu:1",
            "mem-default": "2 GiB",
            "cpus": 2,
            "extra": ["--nodelist=n1,n2", "-v"],
            "sbatch-extra": ["--constraint=avx512"],
        }
    )
    assert settings == SlurmSettings(
        partition="short",
        account="econ",
        time="1:30:00",
        gres="gpu:1",
        mem_default_bytes=2 * GIB,
        cpus=2,
        extra=("--nodelist=n1,n2", "-v"),
        sbatch_extra=("--constraint=avx512",),
    )


@pytest.mark.parametrize("time", [5, "90", "10:00", "1:00:00", "1-12", "1-12:30", "1-12:30:00"])
def test_times(time):
    assert parse_slurm({"time": time}).time == str(time)


KEYS = "partition, account, time, gres, mem-default, cpus, extra, sbatch-extra"
OWN = "is set by lecturecheck itself and cannot be given here"
WORD = "is not an option with its value in one word, such as '--nodelist=n1'"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("short", "'short' is not a table"),
        ({"queue": "short"}, f"unknown key 'queue'; expected one of {KEYS}"),
        ({"partition": "a b"}, "partition: 'a b' is not a word without spaces"),
        ({"account": ""}, "account: '' is not a word without spaces"),
        ({"gres": 1}, "gres: 1 is not a word without spaces"),
        (
            {"time": "an hour"},
            "time: 'an hour' is not a time as Slurm writes it; expected for example 90 (minutes), '1:30:00' or '1-12'",
        ),
        (
            {"time": True},
            "time: True is not a time as Slurm writes it; expected for example 90 (minutes), '1:30:00' or '1-12'",
        ),
        ({"mem-default": "10 MiB"}, "mem-default: '10 MiB' is less than a kernel needs; expected at least '256 MiB'"),
        ({"cpus": 0}, "cpus: 0 is not a whole number of at least 1"),
        ({"cpus": True}, "cpus: True is not a whole number of at least 1"),
        ({"extra": "--x"}, "extra: '--x' is not a list of options such as [\"--nodelist=n1\"]"),
        ({"extra": ["--nodelist", "n1"]}, f"extra: 'n1' {WORD}"),
        ({"extra": ["--"]}, f"extra: '--' {WORD}"),
        ({"extra": ["-v\nrm"]}, f"extra: '-v\\nrm' {WORD}"),
        ({"extra": [3]}, f"extra: 3 {WORD}"),
        ({"extra": ["--mem=1G"]}, f"extra: '--mem=1G' {OWN}"),
        ({"extra": ["-n4"]}, f"extra: '-n4' {OWN}"),
        ({"sbatch-extra": ["-J"]}, f"sbatch-extra: '-J' {OWN}"),
    ],
)
def test_tables_that_cannot_be_used(table, message):
    with pytest.raises(SettingsError) as raised:
        parse_slurm(table)
    assert str(raised.value) == message


def test_an_unknown_size_is_named_with_its_key():
    with pytest.raises(SettingsError, match=r"mem-default: .*'2 Gb'"):
        parse_slurm({"mem-default": "2 Gb"})


@pytest.mark.parametrize(
    ("limit", "settings", "expected"),
    [
        (1000 * MIB, RunSettings(), 1100 * MIB),
        (400 * MIB, RunSettings(), 464 * MIB),
        (10 * MIB, RunSettings(), LEAST_STEP_BYTES),
        (1000 * MIB, RunSettings(memory_cap_bytes=AUTOMATIC_CAP, declared_memory_bytes=9 * GIB), 1100 * MIB),
        (1000 * MIB, RunSettings(memory_cap_bytes=NO_LIMIT), 1100 * MIB),
        (1000 * MIB, RunSettings(memory_cap_bytes=300 * MIB), 300 * MIB),
        (1000 * MIB, RunSettings(memory_cap_bytes=100 * MIB), LEAST_STEP_BYTES),
        (None, RunSettings(declared_memory_bytes=2000 * MIB), 2200 * MIB),
        (None, RunSettings(), None),
    ],
)
def test_memory_of_a_step(limit, settings, expected):
    assert step_memory_bytes(budget(limit) if limit is not None else None, settings) == expected


def test_a_budget_without_memory_says_nothing():
    assert step_memory_bytes(LectureBudget(lecture="a.md", metrics={}), RunSettings()) is None


@given(st.integers(min_value=1, max_value=2**44))
def test_a_step_never_has_less_than_the_budget(limit):
    size = step_memory_bytes(budget(limit), RunSettings())
    assert size is not None
    assert size > limit
    assert 0 <= mebibytes(size) * MIB - size < MIB


@pytest.mark.parametrize(
    ("lecture", "name"),
    [
        ("lectures/kesten.md", "kesten.md"),
        ("a b; rm -rf.ipynb", "a_b_rm_-rf.ipynb"),
        ("--mem=1.md", "mem_1.md"),
        ("été.md", "t_.md"),
        ("日本", "lecture"),
        ("x" * 100 + ".md", "x" * 48),
    ],
)
def test_names_of_jobs(lecture, name):
    assert job_name(lecture) == name


@given(st.text(max_size=80))
def test_names_of_jobs_are_plain(lecture):
    name = job_name(lecture)
    assert name.isascii()
    assert 0 < len(name) <= 48
    assert not name.startswith("-")
    assert not set(name) & set(" \t\n;|&$`'\"\\<>(){}*?[]!#~,=/")


def test_a_line_for_sbatch():
    settings = SlurmSettings(partition="p", account="a", time="60", gres="gpu:1", cpus=2, sbatch_extra=("--qos=low",))
    line = sbatch_line(
        "it's $(x).md",
        command=["python", "-m", "pytest", "./it's $(x).md"],
        folder="/book of mine",
        memory_bytes=GIB,
        gpu=GpuNeed.REQUIRED,
        settings=settings,
    )
    words = shlex.split(line)
    assert words == [
        "sbatch",
        "--job-name=it_s_x_.md",
        "--mem=1280M",
        "--cpus-per-task=2",
        "--partition=p",
        "--account=a",
        "--time=60",
        "--gres=gpu:1",
        "--qos=low",
        "--chdir=/book of mine",
        "--wrap=python -m pytest './it'\"'\"'s $(x).md'",
    ]
    # What the job's shell makes of it.
    assert shlex.split(words[-1].removeprefix("--wrap="))[-1] == "./it's $(x).md"


def test_no_gpu_for_other_lectures():
    line = sbatch_line(
        "a.md", command=["x"], folder="/b", memory_bytes=GIB, gpu=None, settings=SlurmSettings(gres="gpu:1")
    )
    assert line == "sbatch --job-name=a.md --mem=1280M --cpus-per-task=1 --chdir=/b --wrap=x"


def test_a_name_that_no_line_can_say():
    with pytest.raises(SettingsError) as raised:
        sbatch_line("a\nb.md", command=["a\nb.md"], folder="/b", memory_bytes=GIB, gpu=None, settings=SlurmSettings())
    assert str(raised.value) == (
        "'a\\nb.md': the name contains control characters, which a shell command cannot hold; rename the file"
    )
