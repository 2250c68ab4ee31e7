from __future__ import annotations

import pytest

from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.platform import Machine, parse_platform_label, platform_label
from pytest_lecturecheck.units import GIB


@pytest.mark.parametrize(
    ("system", "machine", "accelerator", "label"),
    [
        ("Linux", "x86_64", "cpu", "linux-x86_64-cpu"),
        ("Windows", "AMD64", "cpu", "windows-x86_64-cpu"),
        ("Darwin", "arm64", "cpu", "darwin-arm64-cpu"),
        ("Linux", "aarch64", "", "linux-arm64-cpu"),
        ("Linux", "x86_64", "Tesla T4", "linux-x86_64-tesla_t4"),
        ("Linux", "x86_64", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "linux-x86_64-nvidia_a100_sxm4_80gb_mig_1g.10gb"),
        ("", "", "", "unknown-unknown-cpu"),
        ("MINGW64_NT-10.0/x", "x64", "cpu", "mingw64_nt_10.0_x-x86_64-cpu"),
    ],
)
def test_the_default_label_joins_os_architecture_and_accelerator(system, machine, accelerator, label):
    assert platform_label(system, machine, accelerator) == label
    assert parse_platform_label(label) == label


@pytest.mark.parametrize("label", ["g4dn.2xlarge", "a", "Lab-3_x+y"])
def test_labels_that_can_be_file_names_are_taken(label):
    assert parse_platform_label(label) == label


@pytest.mark.parametrize(
    "label",
    [
        "",
        ".hidden",
        "../up",
        "a/b",
        "a b",
        "a\n",
        "end.",
        "CON",
        "nul.x",
        "x" * 101,
        "caf\N{LATIN SMALL LETTER E WITH ACUTE}",
    ],
)
def test_labels_that_could_not_be_file_names_everywhere_are_refused(label):
    with pytest.raises(SettingsError) as caught:
        parse_platform_label(label)
    assert str(caught.value) == (
        f"platform label {label!r} cannot be used: expected letters, digits and . _ + - (at most 100, starting with a "
        "letter or digit, no point at the end, no device name of Windows), for example 'g4dn.2xlarge'"
    )


def machine(**changes):
    fields = {"system": "Linux 6.18", "architecture": "x86_64", "cpu": "EPYC", "core_count": 2, "ram_bytes": 24 * GIB}
    return Machine(**(fields | changes))


def test_a_machine_is_described_in_one_line():
    found = machine(
        core_count=1,
        swap_bytes=0,
        memory_limit_bytes=4 * GIB,
        memory_limit_source="container (cgroup v2 memory.max)",
        accelerators=("Tesla T4",),
    )
    assert found.text == (
        "Linux 6.18, x86_64, EPYC, 1 core, 24 GiB RAM, no swap, "
        "limit 4 GiB by container (cgroup v2 memory.max), Tesla T4"
    )
    assert machine(swap_bytes=GIB, memory_limit_bytes=32 * GIB).text == (
        "Linux 6.18, x86_64, EPYC, 2 cores, 24 GiB RAM, 1 GiB swap"
    )


@pytest.mark.parametrize(("limit", "usable"), [(None, 24 * GIB), (4 * GIB, 4 * GIB), (99 * GIB, 24 * GIB)])
def test_usable_memory_is_the_smaller_of_ram_and_limit(limit, usable):
    assert machine(memory_limit_bytes=limit).usable_memory_bytes == usable


def test_times_compare_on_machines_with_equal_processors_only():
    assert machine().time_class == machine(ram_bytes=8 * GIB, system="Linux 6.1").time_class
    assert machine().time_class != machine(core_count=4).time_class
    assert machine().time_class != machine(cpu="Xeon").time_class
    assert machine().time_class != machine(accelerators=("Tesla T4",)).time_class
