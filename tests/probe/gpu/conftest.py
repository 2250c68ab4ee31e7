import os
import sys

import pytest
from support.stub_library import compile_stub


@pytest.fixture(scope="session")
def build_stub(tmp_path_factory):
    """Return a function that compiles the stand-in of NVML and returns its folder."""

    def build(*flags):
        return compile_stub(tmp_path_factory.mktemp("nvml"), *flags).parent

    return build


@pytest.fixture(scope="session")
def stub_environ(build_stub):
    """Return the environment of a process that loads a stub, and the path of the stub's answers."""

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
