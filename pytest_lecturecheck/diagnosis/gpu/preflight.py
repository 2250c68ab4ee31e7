"""
Whether a card and its driver meet what the installed JAX needs, before anything runs. Pure.

Floors of JAX: https://docs.jax.dev/en/latest/installation.html, section "NVIDIA GPU" (read 2026-12).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.card import float64_ratio
from pytest_lecturecheck.model.device import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaFloor:
    """What one CUDA build of JAX needs at least: compute capability and major version of the driver."""

    package: str
    capability: tuple[int, int]
    driver: int


CUDA_FLOORS: Final = (
    CudaFloor(package="jax-cuda13-plugin", capability=(7, 5), driver=580),
    CudaFloor(package="jax-cuda12-plugin", capability=(5, 2), driver=525),
)


def preflight_lines(devices: Sequence[Device], driver: str | None, packages: Mapping[str, str]) -> Iterator[str]:
    """
    Yield a line for each card: its compute capability, how slow float64 is, and what the installed JAX needs.

    Args:
        devices: the cards.
        driver: version of their driver, or ``None``.
        packages: installed distributions with their versions.
    """
    floor = next((item for item in CUDA_FLOORS if item.package in packages), None)
    for device in devices:
        capability = parse_capability(device.compute_capability)
        if capability is None:
            yield f"{device.label}: its compute capability could not be read"
            continue
        ratio = float64_ratio(device.compute_capability)
        speed = f", float64 at {ratio} of the speed of float32" if ratio else ""
        needs = "" if floor is None else f"; {_compare(floor, packages[floor.package], capability, driver)}"
        yield f"{device.label}: SM {device.compute_capability}{speed}{needs}"


def _compare(floor: CudaFloor, version: str, capability: tuple[int, int], driver: str | None) -> str:
    text = f"{floor.package} {version} needs SM {floor.capability[0]}.{floor.capability[1]} and driver {floor.driver}"
    number = re.match(r"[0-9]{1,6}", driver or "")
    if number is None:
        return f"{text}; the driver's version is not known"
    here = int(number[0])
    if capability < floor.capability or here < floor.driver:
        return f"{text}: this card with driver {driver} is below it, and JAX will not use it"
    is_at = capability == floor.capability or here == floor.driver
    return f"{text}: this card with driver {driver} is {'at it' if is_at else 'above it'}"


def installed_cuda_builds() -> dict[str, str]:
    """Return the CUDA builds of JAX in this environment, with their versions."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - only where there is a card

    packages = {}
    for floor in CUDA_FLOORS:
        with contextlib.suppress(PackageNotFoundError):
            packages[floor.package] = version(floor.package)
    return packages


def parse_capability(text: str) -> tuple[int, int] | None:
    """Return major and minor number of a compute capability, or ``None``."""
    found = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", text)
    return None if found is None else (int(found[1]), int(found[2]))
