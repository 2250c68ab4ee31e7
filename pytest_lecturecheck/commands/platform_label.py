"""``lecturecheck platform``: print this machine's platform label and what a run can use of it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_lecturecheck.model.device import Device

HELP: Final = "print this machine's platform label and what a run can use of it"
DESCRIPTION: Final = """\
Print the label of this machine's budgets (the name of their file in lecture-budgets), and what a run can use of it:
system, processor, cores, memory, limits, GPUs. For each GPU: compute capability, how slow float64 is, and whether it
meets what the installed JAX needs. For each pair: peer access, and what lies between them.

  lecturecheck platform                        linux-x86_64-cpu, and a line about the machine
  pytest --lecture-platform NAME ...           use another label for a session"""


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has no arguments."""


def run(_options: argparse.Namespace) -> tuple[int, list[str]]:
    """Return the exit status and the lines to print."""
    return 0, _platform_lines()


def _platform_lines() -> list[str]:
    from pytest_lecturecheck.probe.gpu.accelerators import detect_accelerators  # noqa: PLC0415 - not for help
    from pytest_lecturecheck.probe.machine import detect_machine, detect_platform  # noqa: PLC0415 - as above

    found = detect_accelerators()
    machine = detect_machine(accelerators=found.names, driver=found.driver, cuda=found.cuda)
    fault = [f"the GPU cannot be used here: {found.reason}"] if found.is_fault else []
    links = [link.text for link in found.links]
    return [detect_platform(found.model), machine.text, *_card_lines(found.devices, found.driver), *links, *fault]


def _card_lines(devices: Sequence[Device], driver: str | None) -> list[str]:
    """Return what the installed JAX needs of each card, and whether the card has it."""
    from pytest_lecturecheck.diagnosis.gpu.preflight import installed_cuda_builds, preflight_lines  # noqa: PLC0415 - not for help

    return list(preflight_lines(devices, driver, installed_cuda_builds()))
