import ctypes
import sys
from pathlib import Path

import pytest
from support.stub_library import compile_stub

from pytest_lecturecheck.probe.libsystem import open_libsystem


class Mac:
    """A stand-in of macOS, whose library returns what the test has set."""

    def __init__(self, library, script):
        self.script = script
        self.resets = Path(f"{script}.resets")
        self.path = str(library)
        self.raw = ctypes.CDLL(self.path)
        self.raw.stub_size.restype = self.raw.stub_offset.restype = ctypes.c_size_t
        self.raw.stub_script(str(script).encode())
        self.system = open_libsystem(self.path)
        self.say()

    def say(self, *lines):
        self.script.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


@pytest.fixture(scope="session")
def mac_library(tmp_path_factory):
    """Return a function that compiles the stand-in of libSystem."""

    if sys.platform == "win32":
        pytest.skip("a library of macOS: on Windows its errno is not the one that Python reads")

    def build(*flags):
        folder = tmp_path_factory.mktemp("libsystem")
        return compile_stub(folder, *flags, source=Path(__file__).parent / "libsystem_stub.c", name="libsystem_stub.so")

    return build


@pytest.fixture(scope="session")
def built_mac(mac_library):
    return mac_library()


@pytest.fixture
def mac(built_mac, tmp_path):
    return Mac(built_mac, tmp_path / "script.txt")


@pytest.fixture(scope="session")
def old_mac(mac_library, tmp_path_factory):
    return Mac(mac_library("-DOLD_SYSTEM"), tmp_path_factory.mktemp("old") / "script.txt")
