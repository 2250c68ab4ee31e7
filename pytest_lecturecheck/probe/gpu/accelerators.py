"""Describe the GPUs for the machine's table and for the default platform label."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.card import Card, CardLink, float64_ratio
from pytest_lecturecheck.model.device import Device
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.probe.gpu._presence import has_device, open_present_cards
from pytest_lecturecheck.probe.gpu._readings import UNNAMED, Cards, Failure
from pytest_lecturecheck.probe.gpu._visible import visible_positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerators:
    """
    The GPUs that kernels of this session may use.

    Attributes:
        names: model names in NVML's order, one for each device or slice.
        driver: the driver's version, or ``None``.
        cuda: the version of CUDA that the driver offers, or ``None``.
        reason: why there are none, or an empty string.
        devices: the devices themselves.
        is_fault: whether there is a device that could not be used; the reason is then reported.
        links: how the devices reach each other.
    """

    names: tuple[str, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    reason: str = ""
    devices: tuple[Device, ...] = ()
    is_fault: bool = False
    links: tuple[CardLink, ...] = ()

    def added_to(self, machine: Machine) -> Machine:
        """Return the machine with what its GPUs can do."""
        cards = tuple(
            Card(
                index=device.index,
                name=device.name,
                total_bytes=device.total_bytes,
                compute_capability=device.compute_capability,
                float64_ratio=float64_ratio(device.compute_capability),
            )
            for device in self.devices
        )
        return replace(machine, cards=cards, card_links=self.links)

    @property
    def smallest_bytes(self) -> int | None:
        """Return the memory of the smallest device, or ``None``."""
        return min((device.total_bytes for device in self.devices if device.total_bytes), default=None)

    @property
    def model(self) -> str:
        """Return the accelerator's part of a platform label: the first device's model, or ``cpu``."""
        return self.names[0] if self.names else "cpu"


def detect_accelerators(*, environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Accelerators:
    """
    Detect the GPUs through the driver; without one this costs a few checks of paths.

    Args:
        environ: environment that kernels start from; ``CUDA_VISIBLE_DEVICES`` decides which devices count.
        root: ``/``, or a recorded tree.
    """
    cards = open_present_cards(root, environ)
    if isinstance(cards, Failure):
        return Accelerators(reason=cards.reason, is_fault=has_device(root, environ))
    try:
        return describe_accelerators(cards, environ)
    finally:
        cards.close()


def describe_accelerators(cards: Cards | None, environ: Mapping[str, str], *, reason: str = "") -> Accelerators:
    """Describe the visible devices; those that do not report a name are left out."""
    if cards is None:
        return Accelerators(reason=reason)
    devices = [cards.devices[position] for position in visible_positions(cards.devices, environ)]
    names = tuple(device.name for device in devices if device.name != UNNAMED)
    if not names:
        reason = "no GPU can be used" if devices else "CUDA_VISIBLE_DEVICES names no GPU"
        return Accelerators(reason=reason)
    shown = {device.index for device in devices}
    links = tuple(link for link in cards.links if {link.first, link.second} <= shown)
    return Accelerators(names=names, driver=cards.driver, cuda=cards.cuda, devices=tuple(devices), links=links)
