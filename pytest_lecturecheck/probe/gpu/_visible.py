"""The devices that a process may use: ``CUDA_VISIBLE_DEVICES``, as CUDA reads it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_lecturecheck.model.device import Device

VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
ORDER_VARIABLE: Final = "CUDA_DEVICE_ORDER"
_INDEX: Final = re.compile(r"[0-9]{1,9}")


def visible_positions(devices: Sequence[Device], environ: Mapping[str, str]) -> tuple[int, ...]:
    """
    Return which of ``devices`` a process with this environment may use.

    CUDA reads a list of indexes and identifiers (or unique prefixes of them) up to the first unknown one. A device that
    is named twice leaves no device at all. Indexes are NVML's only if CUDA orders by bus (``CUDA_DEVICE_ORDER`` is
    ``PCI_BUS_ID``) or all cards are alike. Otherwise CUDA puts the fastest card first, which is not known here, and all
    devices count as visible.

    Args:
        devices: the devices in NVML's order; slices of a card carry the card's index.
        environ: the environment of the process.

    Returns:
        Positions in ``devices``, ascending.
    """
    text = environ.get(VARIABLE)
    everything = tuple(range(len(devices)))
    if text is None:
        return everything
    found: list[tuple[int, ...]] = []
    for entry in (part.strip() for part in text.split(",")):
        if _INDEX.fullmatch(entry) and not _counts_by_bus(devices, environ):
            return everything
        positions = _find(devices, entry)
        if not positions:
            break
        found.append(positions)
    flat = [position for positions in found for position in positions]
    return () if len(set(flat)) < len(flat) else tuple(sorted(flat))


def _find(devices: Sequence[Device], entry: str) -> tuple[int, ...]:
    if _INDEX.fullmatch(entry):
        return tuple(position for position, device in enumerate(devices) if device.index == int(entry))
    if not entry.startswith(("GPU-", "MIG-")):
        return ()
    matches = tuple(position for position, device in enumerate(devices) if device.uuid.startswith(entry))
    return matches if len(matches) == 1 else ()


def _counts_by_bus(devices: Sequence[Device], environ: Mapping[str, str]) -> bool:
    # Slices of one card have different names and count as that card.
    alike = len({device.name.split(" MIG ", 1)[0] for device in devices}) <= 1
    return alike or environ.get(ORDER_VARIABLE) == "PCI_BUS_ID"
