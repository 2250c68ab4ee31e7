"""
Environment variables that are set for kernels only: those of the settings, and named profiles. Pure.

Later sources win: the built-in part of a profile, ``[env]`` of the settings, the profile's table in the settings, and
the variables of a lecture that is pinned to the CPU.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field
from enum import StrEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.device_plan import memory_fraction
from pytest_lecturecheck.model.settings import GpuNeed


class JaxMemory(StrEnum):
    """How the profile ``jax-ci`` lets JAX take memory of a GPU."""

    SHARE = "share"
    """Take a fixed share of the card at the start: the fraction that each kernel at once can have."""
    GROW = "grow"
    """Take memory as it is needed, and keep it: a pool without preallocation."""
    PLATFORM = "platform"
    """Take and give back exactly what is needed, without a pool: slow, for measuring."""


JAX_CI: Final = "jax-ci"
BUILT_IN_PROFILES: Final = (JAX_CI,)
CACHE_VARIABLE: Final = "JAX_COMPILATION_CACHE_DIR"
_FRACTION_VARIABLE: Final = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_PREALLOCATE_VARIABLE: Final = "XLA_PYTHON_CLIENT_PREALLOCATE"
_ALLOCATOR_VARIABLE: Final = "XLA_PYTHON_CLIENT_ALLOCATOR"
_ON_CPU: Final = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROFILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OWN_PREFIX: Final = "LECTURECHECK_"
_LONGEST_VALUE: Final = 32_767
"""The limit of Windows; Linux starts no program with one of 128 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRules:
    """
    Variables that the settings file states.

    Attributes:
        base: variables of every kernel.
        profiles: further variables by profile; a table with a built-in name adds to the built-in profile.
    """

    base: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def profile_names(self) -> tuple[str, ...]:
        """Return the names of all profiles."""
        return tuple(sorted({*BUILT_IN_PROFILES, *self.profiles}))

    def check_profile(self, name: str) -> None:
        """
        Refuse a profile that does not exist.

        Raises:
            SettingsError: the profile does not exist; the message names those that do.
        """
        if name not in self.profile_names:
            msg = f"environment profile {name!r} is not known; expected one of {', '.join(self.profile_names)}"
            raise SettingsError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentContext:
    """
    Facts about the machine and the session that profiles depend on.

    Attributes:
        kernel_count: kernels that the session may run at once.
        device_bytes: memory of the smallest GPU, or ``None`` without any.
        cache_folder: folder for compiled programs that is kept between runs.
        jax_memory: how JAX takes memory of a GPU.
        inherited: names of the variables that kernels inherit; built-in profiles do not replace these.
    """

    kernel_count: int
    device_bytes: int | None
    cache_folder: str = ""
    jax_memory: JaxMemory = JaxMemory.SHARE
    inherited: AbstractSet[str] = frozenset()


def kernel_environment(
    rules: EnvironmentRules, profile: str | None, gpu: GpuNeed | None, context: EnvironmentContext
) -> dict[str, str]:
    """
    Return the variables for a lecture's kernel, by name.

    Args:
        rules: the variables of the settings.
        profile: the chosen profile, or ``None``.
        gpu: what the lecture says about GPUs.
        context: facts about the machine and the session.

    Raises:
        SettingsError: the profile is not known.
    """
    found: dict[str, str] = {}
    if profile is not None:
        rules.check_profile(profile)
        if profile == JAX_CI:
            found.update({name: text for name, text in _jax_ci(context).items() if name not in context.inherited})
    found.update(rules.base)
    found.update(rules.profiles.get(profile or "", {}))
    if gpu is GpuNeed.CPU:
        found.update(_ON_CPU)
    return dict(sorted(found.items()))


def _jax_ci(context: EnvironmentContext) -> dict[str, str]:
    found = {"JAX_TRACEBACK_FILTERING": "off"}
    if context.cache_folder:
        found[CACHE_VARIABLE] = context.cache_folder
    # A choice that the environment makes already is kept whole.
    if context.device_bytes is not None and not {_PREALLOCATE_VARIABLE, _ALLOCATOR_VARIABLE} & context.inherited:
        found.update(_jax_memory(context, context.device_bytes))
    return found


def _jax_memory(context: EnvironmentContext, device_bytes: int) -> dict[str, str]:
    """Return the variables that decide how JAX takes memory of a card; docs.jax.dev, "GPU memory allocation"."""
    if context.jax_memory is JaxMemory.PLATFORM:
        return {_ALLOCATOR_VARIABLE: "platform"}
    fraction = memory_fraction(context.kernel_count, total_bytes=device_bytes)
    # With very many kernels a share would be too small. Without preallocation, JAX ignores the fraction.
    if context.jax_memory is JaxMemory.GROW or fraction <= 0:
        return {_PREALLOCATE_VARIABLE: "false"}
    return {_FRACTION_VARIABLE: f"{fraction:.2f}"}


def parse_environment(table: object) -> dict[str, str]:
    """
    Check a table of variables from a settings file; numbers and booleans become text (``false``).

    Raises:
        SettingsError: not a table, an impossible or reserved name, or a value of another type.
    """
    if not isinstance(table, Mapping):
        msg = f'{table!r} is not a table of variables; expected for example {{ JAX_PLATFORMS = "cpu" }}'
        raise SettingsError(msg)
    return {_checked_name(name): _value_text(name, value) for name, value in table.items()}


def parse_profiles(table: object) -> dict[str, dict[str, str]]:
    """
    Check the table of profiles, which maps each name to a table of variables.

    Raises:
        SettingsError: as :func:`parse_environment`, with the profile's name; or a profile name that cannot be used.
    """
    if not isinstance(table, Mapping):
        msg = f"{table!r} is not a table of profiles"
        raise SettingsError(msg)
    found = {}
    for name, variables in table.items():
        if _PROFILE_NAME.fullmatch(name) is None:
            msg = f"profile name {name!r} cannot be used; expected letters, digits and . _ - (at most 64)"
            raise SettingsError(msg)
        try:
            found[name] = parse_environment(variables)
        except SettingsError as exc:
            msg = f"{name}: {exc}"
            raise SettingsError(msg) from exc
    return found


def _checked_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        msg = f"variable name {name!r} cannot be used; expected letters, digits and _, not beginning with a digit"
        raise SettingsError(msg)
    if name.upper().startswith(_OWN_PREFIX):
        msg = f"variable {name!r} is reserved for lecturecheck and cannot be set"
        raise SettingsError(msg)
    return name


def _value_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str) or "\0" in value:
        msg = f"variable {name} is {value!r}; expected text, a number, true or false"
        raise SettingsError(msg)
    if len(value.encode()) > _LONGEST_VALUE:
        msg = f"variable {name} has {len(value.encode())} bytes; expected at most {_LONGEST_VALUE}"
        raise SettingsError(msg)
    return value
