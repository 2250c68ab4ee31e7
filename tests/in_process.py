"""What sessions of pytest in the process of the tests need."""

from __future__ import annotations

import importlib
import pkgutil

import pytest_lecturecheck


def load_everything() -> None:
    """Load all that a session loads when it first needs it, the installed package whole."""
    for module in pkgutil.walk_packages(pytest_lecturecheck.__path__, f"{pytest_lecturecheck.__name__}."):
        importlib.import_module(module.name)
    importlib.import_module("ipykernel.kernelspec")
