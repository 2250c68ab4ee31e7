"""Variables for kernels: which statement wins, what a profile works out, and what is refused."""

from __future__ import annotations

import pytest

from pytest_lecturecheck.config.environment import (
    EnvironmentContext,
    EnvironmentRules,
    JaxMemory,
    kernel_environment,
    parse_environment,
    parse_profiles,
)
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.settings import GpuNeed
from pytest_lecturecheck.units import GIB

ON_CPU = EnvironmentContext(kernel_count=2, device_bytes=None, cache_folder="/project/.lecturecheck/jax-cache")


def on_gpu(kernel_count: int, **more) -> EnvironmentContext:
    return EnvironmentContext(kernel_count=kernel_count, device_bytes=15 * GIB, cache_folder="/cache", **more)


def test_nothing_is_set_by_default():
    assert kernel_environment(EnvironmentRules(), None, None, on_gpu(3)) == {}


def test_later_statements_win_and_names_are_sorted():
    rules = EnvironmentRules(base={"B": "base", "A": "base"}, profiles={"fast": {"B": "profile"}})
    found = kernel_environment(rules, "fast", None, ON_CPU)
    assert list(found.items()) == [("A", "base"), ("B", "profile")]


def test_the_settings_change_what_a_built_in_profile_sets():
    rules = EnvironmentRules(
        base={"JAX_TRACEBACK_FILTERING": "auto"}, profiles={"jax-ci": {"JAX_COMPILATION_CACHE_DIR": "/mine", "X": "1"}}
    )
    assert kernel_environment(rules, "jax-ci", None, ON_CPU) == {
        "JAX_COMPILATION_CACHE_DIR": "/mine",
        "JAX_TRACEBACK_FILTERING": "auto",
        "X": "1",
    }


@pytest.mark.parametrize(
    ("kernel_count", "share"),
    [
        (1, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.75"}),
        (2, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.46"}),
        (3, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.30"}),
        (30, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
    ],
)
def test_jax_ci_divides_the_card_among_concurrent_kernels(kernel_count, share):
    assert kernel_environment(EnvironmentRules(), "jax-ci", None, on_gpu(kernel_count)) == {
        "JAX_COMPILATION_CACHE_DIR": "/cache",
        "JAX_TRACEBACK_FILTERING": "off",
        **share,
    }


def test_jax_ci_sets_no_share_without_a_card():
    assert kernel_environment(EnvironmentRules(), "jax-ci", None, ON_CPU) == {
        "JAX_COMPILATION_CACHE_DIR": "/project/.lecturecheck/jax-cache",
        "JAX_TRACEBACK_FILTERING": "off",
    }


@pytest.mark.parametrize("name", ["XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE"])
def test_jax_ci_leaves_alone_what_the_user_has_set_outside(name):
    place = on_gpu(3, inherited=frozenset({name, "JAX_TRACEBACK_FILTERING"}))
    assert kernel_environment(EnvironmentRules(), "jax-ci", None, place) == {"JAX_COMPILATION_CACHE_DIR": "/cache"}


def test_a_lecture_pinned_to_the_cpu_never_sees_a_device():
    rules = EnvironmentRules(base={"JAX_PLATFORMS": "cuda"})
    assert kernel_environment(rules, None, GpuNeed.CPU, on_gpu(1)) == {
        "CUDA_VISIBLE_DEVICES": "-1",
        "JAX_PLATFORMS": "cpu",
    }


def test_an_unknown_profile_is_refused_with_the_known_ones():
    rules = EnvironmentRules(profiles={"slow": {}})
    with pytest.raises(SettingsError) as caught:
        kernel_environment(rules, "fats", None, ON_CPU)
    assert str(caught.value) == "environment profile 'fats' is not known; expected one of jax-ci, slow"


def test_numbers_and_booleans_become_text():
    assert parse_environment({"A": False, "B": True, "C": 4, "D": 0.5, "E": "text", "F": ""}) == {
        "A": "false",
        "B": "true",
        "C": "4",
        "D": "0.5",
        "E": "text",
        "F": "",
    }


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("A=1", "'A=1' is not a table of variables; expected for example { JAX_PLATFORMS = \"cpu\" }"),
        ({"1A": "x"}, "variable name '1A' cannot be used; expected letters, digits and _, not beginning with a digit"),
        (
            {"A B": "x"},
            "variable name 'A B' cannot be used; expected letters, digits and _, not beginning with a digit",
        ),
        ({"LECTURECHECK_RUN": "x"}, "variable 'LECTURECHECK_RUN' is reserved for lecturecheck and cannot be set"),
        ({"lecturecheck_run": "x"}, "variable 'lecturecheck_run' is reserved for lecturecheck and cannot be set"),
        ({"A": ["x"]}, "variable A is ['x']; expected text, a number, true or false"),
        ({"A": "x\0y"}, "variable A is 'x\\x00y'; expected text, a number, true or false"),
        ({"A": "\u00e9" * 16_384}, "variable A has 32768 bytes; expected at most 32767"),
    ],
)
def test_what_no_environment_can_hold_is_refused(table, message):
    with pytest.raises(SettingsError) as caught:
        parse_environment(table)
    assert str(caught.value) == message


def test_the_longest_value():
    assert parse_environment({"A": "x" * 32_767}) == {"A": "x" * 32_767}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], "[] is not a table of profiles"),
        (
            {"a b": {}},
            "profile name 'a b' cannot be used; expected letters, digits and . _ - (at most 64)",
        ),
        ({"gpu": {"A": None}}, "gpu: variable A is None; expected text, a number, true or false"),
    ],
)
def test_profiles_that_cannot_be_used_are_refused(table, message):
    with pytest.raises(SettingsError) as caught:
        parse_profiles(table)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (JaxMemory.SHARE, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.75"}),
        (JaxMemory.GROW, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
        (JaxMemory.PLATFORM, {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}),
    ],
)
def test_jax_ci_takes_memory_as_chosen(how, expected):
    found = kernel_environment(EnvironmentRules(), "jax-ci", None, on_gpu(1, jax_memory=how))
    assert {name: text for name, text in found.items() if name.startswith("XLA_")} == expected


def test_a_choice_of_allocator_in_the_environment_is_kept_whole():
    inherited = frozenset({"XLA_PYTHON_CLIENT_ALLOCATOR"})
    found = kernel_environment(EnvironmentRules(), "jax-ci", None, on_gpu(1, inherited=inherited))
    assert not any(name.startswith("XLA_") for name in found)
