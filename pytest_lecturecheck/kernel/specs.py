"""Where kernelspecs are looked for."""

from __future__ import annotations

import os
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_core.paths import jupyter_path


def spec_manager() -> KernelSpecManager:
    """
    Give a manager that searches the same folders as jupyter_client's own.

    That one asks IPython for the last of them, and loads all of IPython for it: a third of a kernel's start.
    """
    ipython_folder = os.environ.get("IPYTHONDIR") or Path.home() / ".ipython"
    return KernelSpecManager(kernel_dirs=[*jupyter_path("kernels"), str(Path(ipython_folder) / "kernels")])
