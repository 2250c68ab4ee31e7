"""Compile the stand-in of the driver's library, and write what it answers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parent / "nvml_stub.c"


def compile_stub(folder: Path, *flags: str) -> Path:
    """Give the path of the library in ``folder``; without a compiler the test that asks for it fails."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.fail("no C compiler (cc, gcc or clang): the tests of NVML need one for their stand-in of the library")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", *flags, "-o", str(library), str(_SOURCE)], check=True)
    return library
