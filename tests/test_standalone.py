"""Functions for use without pytest."""

import subprocess
import sys

import pytest

from pytest_lecturecheck.diagnosis import CauseKind
from pytest_lecturecheck.standalone import diagnose, measure
from pytest_lecturecheck.units import GIB, MIB


def test_a_process_is_measured():
    code = "input(); x = bytearray(200 << 20); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        with measure(process.pid) as found:
            process.stdin.write("\n")
            process.stdin.flush()
            process.stdout.readline()
        process.stdin.write("\n")

    assert found.value("peak_footprint_bytes") > 200 * MIB
    assert found.value("wall_seconds") > 0


def test_a_process_that_is_not_there_is_an_error():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    with pytest.raises(ProcessLookupError), measure(process.pid):
        pass


@pytest.mark.parametrize(
    ("returncode", "output", "kind", "headline"),
    [
        (-6, "", CauseKind.NATIVE_CRASH, "program aborted (SIGABRT)"),
        (3, "", CauseKind.EXITED, "program ended with exit code 3"),
        (
            1,
            "Traceback (most recent call last):\n  File 'a.py'\nKeyError: 'x'\n",
            CauseKind.CELL_ERROR,
            "KeyError: 'x'",
        ),
    ],
)
def test_ends_are_explained(returncode, output, kind, headline):
    found = diagnose(returncode, output=output)

    assert (found.kind, found.headline) == (kind, headline)


def test_a_request_is_compared_with_what_is_declared():
    output = "Error: cannot allocate vector of size 9000.0 Gb\n"

    found = diagnose(1, output=output, peak_bytes=GIB, declared_bytes=24 * 10**9)

    assert found.headline.startswith("R's error: one request of 8.79 TiB")
    assert "more than the declared 24 GB" in found.headline
