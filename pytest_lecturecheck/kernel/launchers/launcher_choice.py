"""Choose the launcher of a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pytest_lecturecheck.config.slurm_settings import SlurmSettings
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL, LocalLauncher
from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.model.kernel_start import KernelStart

OWN_NAMES: Final = ("local", "slurm")


def merge_launchers(offers: Iterable[Mapping[str, Launcher]]) -> Mapping[str, Launcher]:
    """
    Merge the launchers that plugins offer.

    Raises:
        SettingsError: a name is offered twice or is reserved.
    """
    merged: dict[str, Launcher] = {}
    for offer in offers:
        for name, launcher in offer.items():
            if name in merged or name in OWN_NAMES:
                msg = f"launcher {name!r} is defined more than once (hook pytest_lecturecheck_launchers); rename one"
                raise SettingsError(msg)
            merged[name] = launcher
    return merged


def open_launcher(
    name: str,
    *,
    slurm: SlurmSettings,
    folder: Path,
    others: Mapping[str, Launcher],
    kernel_start: KernelStart = KernelStart.AUTO,
) -> Launcher:
    """
    Return the launcher of this name.

    Args:
        name: value of ``--lecture-launcher``.
        slurm: the settings of Slurm.
        folder: folder under rootdir that the session shares with kernels on other nodes.
        others: launchers of plugins, by name.
        kernel_start: how processes of kernels are started on this machine.

    Raises:
        SettingsError: it is unknown, or it cannot work here.
    """
    if name in others:
        return others[name]
    if name == "local":
        return LOCAL if kernel_start is KernelStart.AUTO else LocalLauncher(kernel_start)
    if name == "slurm":
        # It imports asyncio, which a controller of workers and a mere collection do not need.
        from pytest_lecturecheck.kernel.launchers.slurm_launcher import SlurmLauncher  # noqa: PLC0415 - see above

        return SlurmLauncher(slurm, folder)
    known = ", ".join((*OWN_NAMES, *sorted(others)))
    msg = f"--lecture-launcher {name!r}: unknown launcher; expected one of {known}"
    raise SettingsError(msg)
