"""Find kernelspecs, and explain what is wrong with those that cannot be used."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import NATIVE_KERNEL_NAME, KernelSpec, KernelSpecManager, NoSuchKernel
from jupyter_core.paths import jupyter_path
from traitlets import TraitError

from pytest_lecturecheck.errors import KernelStartError


class TolerantKernelSpec(KernelSpec):
    """
    A kernelspec that ignores keys it does not know.

    ``kernel.json`` files hold more keys than jupyter_client knows (``kernel_protocol_version``). traitlets warns about
    each, and warnings must not be the lecture's.
    """

    def __init__(self, **values: Any) -> None:
        """Keep the known keys."""
        known = set(self.trait_names())
        super().__init__(**{name: value for name, value in values.items() if name in known})


class _Manager(KernelSpecManager):
    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.kernel_spec_class = TolerantKernelSpec

    def _get_kernel_spec_by_name(self, kernel_name: str, resource_dir: str) -> KernelSpec:
        # jupyter_client looks for the provisioner of every kernelspec in the metadata of all installed packages. The
        # provisioner is ours, so that this is done only for a kernelspec that asks for one.
        if Path(resource_dir, "kernel.json").is_file():
            spec: KernelSpec = self.kernel_spec_class.from_resource_dir(resource_dir)
            if "kernel_provisioner" not in spec.metadata:
                return spec
        found: KernelSpec = super()._get_kernel_spec_by_name(kernel_name, resource_dir)
        return found


def spec_manager() -> KernelSpecManager:
    """
    Return a manager that searches the same folders as jupyter_client's own.

    jupyter_client imports all of IPython to find the last of these folders, which takes a third of a kernel's start.
    """
    ipython_folder = os.environ.get("IPYTHONDIR") or Path.home() / ".ipython"
    return _Manager(kernel_dirs=[*jupyter_path("kernels"), str(Path(ipython_folder) / "kernels")])


def find_spec(spec_name: str, manager: KernelSpecManager | None = None) -> KernelSpec:
    """
    Find and read a kernelspec.

    Args:
        spec_name: its name.
        manager: what :func:`spec_manager` returns, by default a new one.

    Raises:
        KernelStartError: it is not installed, or its ``kernel.json`` cannot be used.
    """
    manager = manager or spec_manager()
    # jupyter_client's manager takes this name for the native kernel; papermill and JupyterLite write it.
    spec_name = NATIVE_KERNEL_NAME if spec_name == "python" else spec_name
    logger = logging.getLogger("traitlets")
    was_disabled, logger.disabled = logger.disabled, True  # jupyter_client logs invalid names there
    try:
        spec = manager.get_kernel_spec(spec_name)
    except NoSuchKernel as exc:
        raise KernelStartError(_not_installed(manager, spec_name)) from exc
    except (OSError, ValueError, AttributeError, TypeError, TraitError) as exc:
        raise KernelStartError(_broken(manager, spec_name, f"{type(exc).__name__}: {exc}")) from exc
    finally:
        logger.disabled = was_disabled
    if not spec.argv:
        raise KernelStartError(_broken(manager, spec_name, "it has no argv, the command that starts the kernel"))
    return spec


def _not_installed(manager: KernelSpecManager, spec_name: str) -> str:
    installed = ", ".join(sorted(manager.find_kernel_specs())) or "none"
    return (
        f"kernel {spec_name!r} is not installed; installed: {installed}. Install it, or choose another one with "
        "--lecture-kernel NAME"
    )


def _broken(manager: KernelSpecManager, spec_name: str, reason: str) -> str:
    folder = manager.find_kernel_specs().get(spec_name.lower())
    where = str(Path(folder) / "kernel.json") if folder else "its kernel.json"
    cure = "install the kernel again (python -m ipykernel install) or choose another one with --lecture-kernel NAME"
    return f"kernel {spec_name!r} is installed, but {where} cannot be used: {reason}; {cure}"
