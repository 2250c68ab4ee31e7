"""Sessions of pytest in the process of the tests: they need no second start of Python, and no second import."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import io
import os
import pkgutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import pytest_lecturecheck
from pytest_lecturecheck.kernel.launchers.local_launcher import close_servers
from pytest_lecturecheck.session import program_session, workbench

_LOADED_BY_SPHINX = frozenset({"pytest_lecturecheck.page.sphinx_directive"})
"""Modules that only a build of a book loads; Sphinx is not installed for the tests."""


@functools.cache
def load_everything() -> None:
    """Load all that a session loads when it first needs it, the installed package whole."""
    for module in pkgutil.walk_packages(pytest_lecturecheck.__path__, f"{pytest_lecturecheck.__name__}."):
        if module.name not in _LOADED_BY_SPHINX:
            importlib.import_module(module.name)
    importlib.import_module("ipykernel.kernelspec")
    # It brings importlib_metadata, which puts its finder in the place of Python's own.
    importlib.import_module("jupyter_cache.cache.main")


@contextlib.contextmanager
def shared_kernel_servers() -> Iterator[None]:
    """Keep what forks kernels from one session of this process to the next: each start takes a third of a second."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (workbench, program_session):
            patch.setattr(module, "close_servers", lambda: None)
        yield
    close_servers()


class _Guest:
    """Tells whether the session took a Ctrl-C, which is meant for the session around it."""

    was_interrupted = False

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        self.was_interrupted = excinfo.errisinstance(KeyboardInterrupt)


def run_in_process(arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """
    Run a session as a process of its own would, with everything put back afterwards.

    Args:
        arguments: those of pytest.
        folder: the working folder.
        environment: all variables.

    Returns:
        The exit status, and what was printed.
    """
    guest = _Guest()
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True)
    with (
        _surroundings(folder, environment),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        code = pytest.main(list(arguments), plugins=[guest])
    if guest.was_interrupted:
        raise KeyboardInterrupt
    return int(code), printed.buffer.getvalue().decode()


@contextlib.contextmanager
def _surroundings(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    load_everything()
    variables, path, modules = dict(os.environ), list(sys.path), set(sys.modules)
    with contextlib.chdir(folder):
        os.environ.clear()
        os.environ.update(environment)
        importlib.invalidate_caches()
        # At its end a session collects garbage and fails for what was left open: its own, not that of other tests.
        gc.freeze()
        try:
            yield
        finally:
            gc.unfreeze()
            os.environ.clear()
            os.environ.update(variables)
            sys.path[:] = path
            # Test modules and conftest files of one folder must not be taken for those of the next.
            for name in set(sys.modules) - modules:
                if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(folder):
                    del sys.modules[name]
