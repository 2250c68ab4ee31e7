"""
Variants of the settings: tables ``[variant.NAME]``, and the axes that span variants. Pure.

A value of an axis that is the name of a variant brings that variant. Four axes are known by their name: ``device``,
``precision``, ``concurrency`` and ``gpus``. Any other value is handed to the lecture's parameter with the axis' name.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pytest_lecturecheck.config.environment import parse_environment
from pytest_lecturecheck.config.option_reading import LECTURE_OPTIONS, read_value, run_layer
from pytest_lecturecheck.errors import SettingsError, expected_instead
from pytest_lecturecheck.model.axis import Axis, value_text
from pytest_lecturecheck.model.cohort import parse_concurrency
from pytest_lecturecheck.model.platform import parse_platform_label
from pytest_lecturecheck.model.settings import GpuNeed, RunSettings
from pytest_lecturecheck.model.variant import PLAIN, Variant

MOST_VARIANTS: Final = 1000
"""More variants of one lecture are a slip of the pen."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_OWN_KEYS: Final = ("parameters", "env", "platform")
_NOT_IN_VARIANTS: Final = frozenset({"axes", "variants", "concurrency", "skip"})
_PRECISION: Final = {"f32": "0", "f64": "1"}
_DEVICE: Final = {"cpu": GpuNeed.CPU, "gpu": GpuNeed.REQUIRED}


def parse_variants(tables: object) -> tuple[Variant, ...]:
    """
    Read the tables ``[variant.NAME]``: parameters, variables, a platform, and settings that a lecture may state.

    Raises:
        SettingsError: a name, key or value that cannot be used; the message names it.
    """
    if not isinstance(tables, Mapping):
        msg = f"variant = {tables!r} is not a table; expected [variant.NAME] with parameters, env or gpu"
        raise SettingsError(msg)
    return tuple(_parse_variant(str(name), table) for name, table in tables.items())


def _parse_variant(name: str, table: object) -> Variant:
    where = f"[variant.{name}]"
    if _NAME.fullmatch(name) is None:
        msg = f"{where}: the name {name!r} cannot be used; expected letters, digits and . _ + - (at most 64)"
        raise SettingsError(msg)
    if not isinstance(table, Mapping):
        msg = f"{where}: {table!r} is not a table; expected for example parameters = {{ size = 1000 }}"
        raise SettingsError(msg)
    settings = {key: option for key, option in LECTURE_OPTIONS.items() if key not in _NOT_IN_VARIANTS}
    stated: dict[str, Any] = {}
    for key, value in table.items():
        if key in settings:
            stated[key] = read_value(settings[key], value, f"{where} {key}")
        elif key not in _OWN_KEYS:
            msg = f"{where}: unknown key {key!r}; {expected_instead(key, (*_OWN_KEYS, *settings))}"
            raise SettingsError(msg)
    parameters = _parse_parameters(table.get("parameters", {}), where)
    platform = table.get("platform")
    try:
        environment = parse_environment(table.get("env", {}))
        pinned = None if platform is None else parse_platform_label(str(platform))
    except SettingsError as exc:
        msg = f"{where}: {exc}"
        raise SettingsError(msg) from exc
    return Variant(
        name=name,
        parameters=parameters,
        environment=environment,
        settings=run_layer(stated, lambda option: f"{where} {option.name}"),
        platform=pinned,
        origins=dict.fromkeys(parameters, where),
    )


def _parse_parameters(table: object, where: str) -> dict[str, object]:
    if not isinstance(table, Mapping):
        msg = f"{where}: parameters = {table!r} is not a table; expected for example {{ size = 1000 }}"
        raise SettingsError(msg)
    for key, value in table.items():
        if _PARAMETER.fullmatch(str(key)) is None or not _is_plain(value):
            msg = (
                f"{where}: parameter {key!r} = {value!r} cannot be used; expected a name, and text, a number or a list"
            )
            raise SettingsError(msg)
    return dict(table)


def _is_plain(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int | bool)


def span_variants(axes: Sequence[Axis], named: Sequence[Variant]) -> tuple[Variant, ...]:
    """
    Return the variants of a lecture: every combination of its axes with every variant that no axis names.

    Args:
        axes: the axes of the lecture.
        named: the variants of the settings.

    Raises:
        SettingsError: a value that its axis cannot have, or too many combinations.
    """
    by_name = {variant.name: variant for variant in named}
    used = {value_text(value) for axis in axes for value in axis.values}
    alone = [variant for variant in named if variant.name not in used]
    groups = [alone] if alone else []
    groups += [[_point(axis.name, value, by_name) for value in axis.values] for axis in axes]
    if math.prod(map(len, groups)) > MOST_VARIANTS:
        sizes = ", ".join(f"{axis.name} {len(axis.values)}" for axis in axes)
        msg = f"axes ({sizes}) span more than {MOST_VARIANTS} variants; leave out values"
        raise SettingsError(msg)
    return tuple(_join(points) for points in itertools.product(*groups)) if groups else ()


def _point(axis: str, value: str | float | bool, named: Mapping[str, Variant]) -> Variant:  # noqa: FBT001 - see Axis
    """Return what one value of one axis changes, as a variant of its own."""
    text = value_text(value)
    name = f"{axis}={text}"
    if text in named:
        return replace(named[text], name=name)
    reader = _KNOWN_AXES.get(axis)
    if reader is not None:
        return replace(reader(axis, text), name=name, offered={axis: value}, origins={axis: f"axis {axis}"})
    return Variant(name=name, parameters={axis: value}, origins={axis: f"axis {axis}"})


def _device(axis: str, text: str) -> Variant:
    if text not in _DEVICE:
        raise SettingsError(_explain(axis, text, _DEVICE))
    return Variant(settings=RunSettings(gpu=_DEVICE[text], origins={"gpu": f"axis {axis}={text}"}))


def _precision(axis: str, text: str) -> Variant:
    if text not in _PRECISION:
        raise SettingsError(_explain(axis, text, _PRECISION))
    return Variant(environment={"JAX_ENABLE_X64": _PRECISION[text]})


def _concurrency(axis: str, text: str) -> Variant:
    return Variant(settings=RunSettings(concurrency=parse_concurrency(text), origins={"concurrency": f"axis {axis}"}))


def _gpus(axis: str, text: str) -> Variant:
    if not (text.isdecimal() and 1 <= int(text) <= 64):  # noqa: PLR2004 - no machine has more
        msg = f"axis {axis}: {text!r} is not a number of GPUs from 1 to 64"
        raise SettingsError(msg)
    origin = f"axis {axis}={text}"
    settings = RunSettings(gpus=int(text), gpu=GpuNeed.REQUIRED, origins={"gpus": origin, "gpu": origin})
    return Variant(settings=settings)


_KNOWN_AXES: Final[Mapping[str, Callable[[str, str], Variant]]] = {
    "device": _device,
    "precision": _precision,
    "concurrency": _concurrency,
    "gpus": _gpus,
}


def _explain(axis: str, text: str, known: Mapping[str, object]) -> str:
    return (
        f"axis {axis}: {text!r} is not known; expected {', '.join(known)}, or the name of a variant "
        f"(a table [variant.{text}])"
    )


def _join(points: Sequence[Variant]) -> Variant:
    """Return the variant that combines points of several axes; later ones win."""
    found = PLAIN
    for point in points:
        found = Variant(
            name=",".join(
                part
                for part, settings in ((found.name, RunSettings()), (point.name, point.settings))
                # The number of kernels is added to the name where the kernels are planned.
                if part and settings.concurrency is None
            ),
            parameters={**found.parameters, **point.parameters},
            offered={**found.offered, **point.offered},
            environment={**found.environment, **point.environment},
            settings=_clash(found, point).over(point.settings.over(found.settings)),
            platform=point.platform or found.platform,
            origins={**found.origins, **point.origins},
        )
    return found


def _clash(first: Variant, second: Variant) -> RunSettings:
    """Return that a combination is skipped, where no machine is what both variants are for."""
    reason = ""
    if len({variant.platform for variant in (first, second) if variant.platform is not None}) > 1:
        names = f"{first.name} is for the platform {first.platform}, and {second.name} for {second.platform}"
        reason = f"no machine is both: {names}"
    for one, other in ((first, second), (second, first)):
        if one.settings.gpu is GpuNeed.CPU and other.settings.gpus is not None:
            reason = f"{other.name} needs a GPU, and {one.name} runs on the CPU"
    return RunSettings(skip_reason=reason, origins={"skip_reason": "[variant]"}) if reason else RunSettings()


def select_variants(variants: Sequence[Variant], wanted: Sequence[str]) -> tuple[Variant, ...]:
    """
    Return the variants that were asked for, by name or by the value of an axis; of one axis any value counts.

    An empty list asks for none: the lecture then runs as it is.

    Raises:
        SettingsError: a name or value that no variant has.
    """
    if not wanted:
        return ()
    known = dict.fromkeys(part for variant in variants for part in (variant.name, *variant.name.split(",")) if part)
    by_axis: dict[str, set[str]] = {}
    for name in wanted:
        if name not in known:
            parts = sorted({part for variant in variants for part in variant.name.split(",") if part})
            known_parts = (
                expected_instead(name, parts)
                if parts
                else "the lecture has none: define [variant.NAME] or [axes] in the settings, or use --lecture-axes"
            )
            msg = f"variant {name!r} is not known; {known_parts}"
            raise SettingsError(msg)
        by_axis.setdefault(name.partition("=")[0] if "," not in name and "=" in name else "", set()).add(name)
    return tuple(
        variant
        for variant in variants
        if all(names & {variant.name, *variant.name.split(",")} for names in by_axis.values())
    )
