import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def build_stub(tmp_path_factory):
    """Give a function that compiles the stand-in of the driver's library and gives the folder it lies in."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.fail("no C compiler (cc, gcc or clang): the tests of NVML need one for their stand-in of the library")

    def build(*flags):
        folder = tmp_path_factory.mktemp("nvml")
        library = folder / "libnvidia-ml.so.1"
        command = [compiler, "-shared", "-fPIC", *flags, "-o", str(library), str(HERE / "nvml_stub.c")]
        subprocess.run(command, check=True)
        return folder

    return build


@pytest.fixture(scope="session")
def stub_environ(build_stub):
    """Give the environment of a process that loads a stub, and the path of what the stub answers."""

    def make(*flags):
        folder = build_stub(*flags)
        script = folder / "script.txt"
        script.touch()
        stub = {
            "LD_LIBRARY_PATH": str(folder),
            "NVML_STUB": str(script),
            "NVML_STUB_SHUTDOWN": str(folder / "shutdowns"),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        return {**os.environ, **stub}, script

    return make
