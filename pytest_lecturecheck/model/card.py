"""GPUs as part of a machine: what each can do, and how they reach each other. Nothing here says which card it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass

# Results of 64-bit and 32-bit additions per clock and multiprocessor: 4/128 for 5.x, 6.1 and 6.2, 32/64 for 6.0, 7.0
# and 8.0, 2/64 for 7.5, 2/128 for 8.6, 8.9 and 12.x, 64/128 for 9.0 and 10.0. What has no entry was not looked up.
# "Throughput of Native Arithmetic Instructions", a table of NVIDIA's CUDA C++ Programming Guide and, since CUDA 13,
# Best Practices Guide; for 8.6 and 8.9 the whitepapers of GA102 and AD102. Not measured here.
_FLOAT64_RATIOS: Final[Mapping[str, str]] = {
    "5.2": "1/32",
    "6.0": "1/2",
    "6.1": "1/32",
    "6.2": "1/32",
    "7.0": "1/2",
    "7.5": "1/32",
    "8.0": "1/2",
    "8.6": "1/64",
    "8.9": "1/64",
    "9.0": "1/2",
    "10.0": "1/2",
    "12.0": "1/64",
    "12.1": "1/64",
}


def float64_ratio(compute_capability: str) -> str:
    """Return the speed of float64 relative to float32 by its maker's table ("1/32"), or an empty string."""
    return _FLOAT64_RATIOS.get(compute_capability, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """
    One GPU of a machine, or one slice of it.

    Attributes:
        index: NVML's index.
        name: model name.
        total_bytes: its memory, or ``None``.
        compute_capability: CUDA's version of its instructions ("7.5"), or an empty string.
        float64_ratio: speed of float64 relative to float32 by its maker's table ("1/32"), or an empty string.
    """

    index: int
    name: str
    total_bytes: int | None = None
    compute_capability: str = ""
    float64_ratio: str = ""

    @property
    def text(self) -> str:
        """Describe the card in a few words."""
        parts = [f"SM {self.compute_capability}"] if self.compute_capability else []
        parts += [f"float64 at {self.float64_ratio} of float32"] if self.float64_ratio else []
        return f"GPU {self.index} {self.name}" + (f" ({', '.join(parts)})" if parts else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLink:
    """
    How two GPUs of a machine reach each other, by NVML.

    Attributes:
        first: index of one card.
        second: index of the other one, the higher.
        path: what lies between them ("NVLink", "one PCIe switch", "the CPU's interconnect"), or an empty string.
        has_peer_access: whether one can read the other's memory; ``None`` where that is not known.
    """

    first: int
    second: int
    path: str = ""
    has_peer_access: bool | None = None

    @property
    def text(self) -> str:
        """Describe the link in a few words."""
        access = {True: "peer access", False: "no peer access", None: "peer access not known"}[self.has_peer_access]
        return f"GPU {self.first} and {self.second}: {access}" + (f", through {self.path}" if self.path else "")
