"""Compile stand-ins of libraries of the system."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parent / "nvml_stub.c"


def compile_stub(folder: Path, *flags: str, source: Path = _SOURCE, name: str = "libnvidia-ml.so.1") -> Path:
    """Give the path of the library in ``folder``; without a compiler the test that asks for it fails."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.fail(f"no C compiler (cc, gcc or clang): the stand-in of a library, {source.name}, needs one")
    library = folder / name
    subprocess.run([compiler, "-shared", "-fPIC", *flags, "-o", str(library), str(source)], check=True)
    return library
