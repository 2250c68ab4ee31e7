"""Start what forks kernels while the libraries that talk to them are still being loaded."""

from __future__ import annotations

import os
from dataclasses import replace

from pytest_lecturecheck.config.environment import kernel_environment
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.kernel.launchers.local_launcher import LocalLauncher, expect_kernels
from pytest_lecturecheck.model.kernel_start import KernelStart
from pytest_lecturecheck.model.settings import RunSettings
from pytest_lecturecheck.session.runtime_context import RuntimeContext


def start_early(context: RuntimeContext) -> None:
    """
    Start the server of kernels of a lecture that states nothing of its own.

    A lecture whose kernel needs another environment gets another server, and nothing but time was spent.
    """
    if not isinstance(context.launcher, LocalLauncher) or context.launcher.start is KernelStart.SPAWN:
        return
    settings = context.settings.for_lecture(RunSettings())
    surroundings = replace(context.environment_context, inherited=frozenset(os.environ))
    try:
        variables = kernel_environment(context.settings.environment, settings.env_profile, settings.gpu, surroundings)
    except SettingsError:
        # The first lecture reports it.
        return
    expect_kernels(variables)
