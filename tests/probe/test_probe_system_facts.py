import platform
import sys

import pytest

from pytest_lecturecheck.probe.system_facts import (
    PsutilMachinery,
    SystemFacts,
    read_darwin_facts,
    read_processor_name,
    read_windows_facts,
)
from pytest_lecturecheck.units import GIB, MIB


class FakeMachinery:
    def __init__(self, affinity=None):
        self.affinity = affinity

    def ram_bytes(self):
        return 16 * GIB

    def swap_bytes(self):
        return 3 * GIB

    def affinity_count(self):
        return self.affinity


def test_a_mac(mac):
    mac.say(
        "text machdep.cpu.brand_string Apple_M1_Max",
        "number hw.logicalcpu 4 10",
        f"number hw.memsize 8 {64 * GIB}",
        f"swap {3 * GIB} {2 * GIB}",
    )
    assert read_darwin_facts(mac.system, FakeMachinery()) == SystemFacts(
        cpu="Apple M1 Max", core_count=10, ram_bytes=64 * GIB, swap_bytes=None
    )


def test_a_mac_whose_library_reports_nothing(mac):
    for system in (mac.system, "it cannot be loaded"):
        facts = read_darwin_facts(system, FakeMachinery())
        assert facts.cpu == platform.processor() or facts.cpu == f"unnamed {platform.machine()} processor"
        assert facts.core_count >= 1
        assert (facts.ram_bytes, facts.swap_bytes) == (16 * GIB, None)


def test_a_machine_with_windows():
    facts = read_windows_facts(FakeMachinery(affinity=6), lambda: "AMD EPYC 7763 64-Core   Processor  ")
    assert facts == SystemFacts(
        cpu="AMD EPYC 7763 64-Core Processor", core_count=6, ram_bytes=16 * GIB, swap_bytes=3 * GIB
    )


@pytest.mark.parametrize("name", [None, "", "  "])
def test_a_machine_whose_registry_has_no_name(name):
    facts = read_windows_facts(FakeMachinery(), lambda: name)
    assert facts.cpu == platform.processor() or facts.cpu == f"unnamed {platform.machine()} processor"
    assert facts.core_count >= 1


def test_this_machine():
    machinery = PsutilMachinery()
    assert machinery.ram_bytes() > 128 * MIB
    assert machinery.swap_bytes() >= 0
    count = machinery.affinity_count()
    assert (count is None) == (sys.platform == "darwin")
    assert count is None or count >= 1
    assert bool(read_processor_name()) == (sys.platform == "win32")
