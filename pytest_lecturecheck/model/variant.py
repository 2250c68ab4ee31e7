"""The variant: a named environment in which a lecture runs, with values for its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, TypeAlias

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.settings import RunSettings

DEFAULT_VARIANT: Final = ""
"""The unnamed variant of a lecture that has no others; it does not show in node ids or budget files."""

ParameterValue: TypeAlias = object
"""A value for a parameter: text, a number, a boolean, or a list or table of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """
    What one variant of a lecture changes.

    Attributes:
        name: the variant as node ids and budgets show it ("device=cpu,precision=f64", "small"); empty for none.
        parameters: values for the lecture's parameters; each has to be one that the lecture has.
        offered: values that the lecture gets only where it has a parameter of that name.
        environment: variables for the kernel.
        settings: the layer of settings that the variant states.
        platform: the only platform label on which it runs, or ``None`` for all.
        origins: for each parameter, what sets it ("axis size").
    """

    name: str = DEFAULT_VARIANT
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)
    offered: Mapping[str, ParameterValue] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: RunSettings = field(default_factory=RunSettings)
    platform: str | None = None
    origins: Mapping[str, str] = field(default_factory=dict)


PLAIN: Final = Variant()
"""The lecture as it is."""


def title_of(lecture: str, variant: str) -> str:
    """Name a lecture, or a variant of it (``a.md [c=2]``)."""
    return f"{lecture} [{variant}]" if variant else lecture


def axis_values(variant: str) -> dict[str, str]:
    """Return the values of the axes that a variant's name states; a part without ``=`` is no axis."""
    parts = (part.partition("=") for part in variant.split(","))
    return {name: value for name, equals, value in parts if equals}
