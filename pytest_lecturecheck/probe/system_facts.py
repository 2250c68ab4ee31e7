"""
Processor and memory of machines that run macOS or Windows, each read through a port that tests can replace.

Swap space of macOS is left out: swap files are created on demand, and their present size is no limit.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from typing import Final, Protocol

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.probe.libsystem import LibSystem, open_libsystem

_PROCESSOR_KEY: Final = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFacts:
    """
    Processor and memory of a machine.

    Attributes:
        cpu: model name of the processor.
        core_count: cores that this process may use.
        ram_bytes: physical memory.
        swap_bytes: swap space of a fixed size, or ``None`` where it has no fixed size.
    """

    cpu: str
    core_count: int
    ram_bytes: int
    swap_bytes: int | None


def read_facts() -> SystemFacts:
    """Describe this machine, which runs macOS or Windows."""
    if sys.platform == "darwin":
        return read_darwin_facts(open_libsystem(), PsutilMachinery())
    else:  # noqa: RET505 - type checkers treat code after it as unreachable
        return read_windows_facts(PsutilMachinery(), read_processor_name)


class Machinery(Protocol):
    """The properties of a machine that psutil reports."""

    def ram_bytes(self) -> int:
        """Return the physical memory."""

    def swap_bytes(self) -> int:
        """Return the size of all page files."""

    def affinity_count(self) -> int | None:
        """Return the number of cores in this process's CPU affinity, or ``None`` where the OS has none."""


class PsutilMachinery:
    """This machine, through psutil."""

    def ram_bytes(self) -> int:
        """Return the physical memory."""
        import psutil  # noqa: PLC0415 - slow to import, and Linux does without

        return int(psutil.virtual_memory().total)

    def swap_bytes(self) -> int:
        """Return the size of all page files."""
        import psutil  # noqa: PLC0415 - as above

        return int(psutil.swap_memory().total)

    def affinity_count(self) -> int | None:
        """Return the number of cores in this process's CPU affinity; macOS has none."""
        import psutil  # noqa: PLC0415 - as above

        ask = getattr(psutil.Process(), "cpu_affinity", None)
        try:
            return len(ask()) if ask is not None else None
        except psutil.Error:
            return None


def read_darwin_facts(system: LibSystem | str, machinery: Machinery) -> SystemFacts:
    """
    Describe a machine with macOS, by ``sysctl``: ``platform.processor`` calls every Apple chip "arm".

    Args:
        system: the system's library, or why there is none.
        machinery: used for what the library does not report.
    """
    known = system if isinstance(system, LibSystem) else None
    return SystemFacts(
        cpu=(known.text("machdep.cpu.brand_string") if known else None) or _general_name(),
        core_count=(known.number("hw.logicalcpu") if known else None) or os.cpu_count() or 1,
        ram_bytes=(known.number("hw.memsize") if known else None) or machinery.ram_bytes(),
        swap_bytes=None,
    )


def read_windows_facts(machinery: Machinery, read_processor_name: Callable[[], str | None]) -> SystemFacts:
    """
    Describe a machine with Windows.

    Args:
        machinery: memory and cores.
        read_processor_name: returns the model name from the registry, or ``None``.
    """
    name = " ".join((read_processor_name() or "").split())
    return SystemFacts(
        cpu=name or _general_name(),
        core_count=machinery.affinity_count() or os.cpu_count() or 1,
        ram_bytes=machinery.ram_bytes(),
        swap_bytes=machinery.swap_bytes(),
    )


def read_processor_name() -> str | None:
    """Return ``ProcessorNameString`` of the first processor from the registry of Windows; ``None`` elsewhere."""
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415 - does not exist elsewhere

        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _PROCESSOR_KEY) as key:
                return str(winreg.QueryValueEx(key, "ProcessorNameString")[0])
        except OSError:
            return None
    else:
        return None


def _general_name() -> str:
    return platform.processor() or f"unnamed {platform.machine()} processor"
