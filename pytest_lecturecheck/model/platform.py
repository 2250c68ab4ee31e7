"""
Values that say where a run took place: the platform a budget holds for, the machine, and the software in the kernel.

Nothing here names a host or a user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.card import Card, CardLink
from pytest_lecturecheck.units import format_size

_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
# Names that Windows keeps for devices, whatever their ending.
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_MACHINE_NAMES: Final = {"amd64": "x86_64", "x64": "x86_64", "aarch64": "arm64"}


def platform_label(system: str, machine: str, accelerator: str = "cpu") -> str:
    """
    Join OS, architecture and accelerator to the default platform label (``linux-x86_64-cpu``).

    Args:
        system: as :func:`platform.system` gives it.
        machine: as :func:`platform.machine` gives it; aliases are folded (``AMD64`` and ``x86_64`` are one).
        accelerator: ``cpu``, or the accelerator's model name.
    """
    architecture = _MACHINE_NAMES.get(machine.lower(), machine)
    return f"{_word(system, 'unknown')}-{_word(architecture, 'unknown')}-{_word(accelerator, 'cpu')}"


def _word(text: str, default: str) -> str:
    return re.sub(r"[^a-z0-9.+]+", "_", text.lower()).strip("_.+")[:40] or default


def parse_platform_label(text: str) -> str:
    """
    Check a label that a user chose.

    Raises:
        SettingsError: the label could not be a file name on every system.
    """
    if _LABEL.fullmatch(text) is None or text.endswith(".") or _RESERVED.fullmatch(text):
        msg = (
            f"platform label {text!r} cannot be used: expected letters, digits and . _ + - "
            "(at most 100, starting with a letter or digit, no point at the end, no device name of Windows), "
            "for example 'g4dn.2xlarge'"
        )
        raise SettingsError(msg)
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """
    The machine as a run could use it.

    Attributes:
        system: OS name and release ("Linux 6.18").
        architecture: "x86_64", "arm64".
        cpu: model name of the processor.
        core_count: cores usable by this process (affinity and CPU quota counted).
        ram_bytes: physical memory.
        swap_bytes: swap space; ``None`` where it could not be read.
        memory_limit_bytes: the smallest limit that applies to this process (container, scheduler, ulimit), or ``None``.
        memory_limit_source: what sets that limit ("container (cgroup v2 memory.max)"), or an empty string.
        transparent_hugepages: the kernel's setting ("always", "madvise", "never"), or ``None``.
        accelerators: model names of the GPUs.
        driver: driver version of the accelerators, or ``None``.
        cuda: version of CUDA that the driver offers ("12.4"), or ``None``.
        cards: what each GPU can do.
        card_links: how the GPUs reach each other, one for each pair.
    """

    system: str
    architecture: str
    cpu: str
    core_count: int
    ram_bytes: int
    swap_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_limit_source: str = ""
    transparent_hugepages: str | None = None
    accelerators: tuple[str, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    cards: tuple[Card, ...] = ()
    card_links: tuple[CardLink, ...] = ()

    @property
    def usable_memory_bytes(self) -> int:
        """Return the memory that a run can use: RAM, or the limit if that is smaller."""
        if self.memory_limit_bytes is None:
            return self.ram_bytes
        return min(self.ram_bytes, self.memory_limit_bytes)

    @property
    def usable_memory_source(self) -> str:
        """Return what sets :attr:`usable_memory_bytes`."""
        if self.memory_limit_bytes is None or self.memory_limit_bytes > self.ram_bytes:
            return "RAM"
        return self.memory_limit_source

    @property
    def time_class(self) -> tuple[str, str, int, tuple[str, ...]]:
        """Return what must be equal before two times can be compared."""
        return (self.architecture, self.cpu, self.core_count, self.accelerators)

    @property
    def text(self) -> str:
        """Describe the machine in one line, fit for a report."""
        parts = [
            self.system,
            self.architecture,
            self.cpu,
            f"{self.core_count} core{'' if self.core_count == 1 else 's'}",
            f"{format_size(self.ram_bytes)} RAM",
        ]
        if self.swap_bytes is not None:
            parts.append(f"{format_size(self.swap_bytes)} swap" if self.swap_bytes else "no swap")
        if self.memory_limit_bytes is not None and self.memory_limit_bytes < self.ram_bytes:
            parts.append(f"limit {format_size(self.memory_limit_bytes)} by {self.memory_limit_source}")
        parts.extend(self.accelerators)
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """
    What ran inside the kernel.

    Attributes:
        python: version and implementation of the kernel's interpreter, or an empty string for other languages.
        packages: name to version, of the packages that the lecture imported, by the name that it imports.
        blas: one line for each BLAS or OpenMP library loaded, with its threads (threadpoolctl inside the kernel), or
            for each that NumPy or SciPy was built with.
        variables: environment variables of the kernel that change how much memory the same code needs, of a fixed list.
        distributions: what to install for packages that are imported by another name (``PIL``: ``pillow``).
    """

    python: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    blas: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    distributions: Mapping[str, str] = field(default_factory=dict, compare=False)

    def variable_changes(self, now: Software) -> tuple[str, ...]:
        """Return the variables that differ ("OMP_NUM_THREADS unset -> 1")."""
        names = sorted({*self.variables, *now.variables})
        pairs = ((name, self.variables.get(name, "unset"), now.variables.get(name, "unset")) for name in names)
        return tuple(f"{name} {before} -> {after}" for name, before, after in pairs if before != after)

    @property
    def interpreter(self) -> str:
        """Name the interpreter once: ``CPython 3.11.7`` as reported, and ``Python 3.11.7`` where only that is."""
        return f"Python {self.python}" if self.python[:1].isdigit() else self.python
