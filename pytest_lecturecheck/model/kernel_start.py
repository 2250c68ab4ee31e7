"""How the process of a kernel is started."""

from __future__ import annotations

from enum import StrEnum


class KernelStart(StrEnum):
    """
    How the process of a kernel is started on this machine.

    Attributes:
        AUTO: forked where that is possible and gives the same kernel, executed otherwise.
        FORK: forked; where that is not possible the lecture does not run.
        SPAWN: executed, as other tools do.
    """

    AUTO = "auto"
    FORK = "fork"
    SPAWN = "spawn"
