"""Facts of a machine below equal package versions, from recorded trees."""

import pytest
from support.recorded_trees import write_tree

from pytest_lecturecheck.model.manifest import Fact
from pytest_lecturecheck.probe.machine_facts import read_linux_machine_facts, read_machine_facts

TREE = {
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "sys/kernel/mm/transparent_hugepage/defrag": "always defer [madvise] never\n",
    "sys/module/zswap/parameters/enabled": "Y\n",
    "sys/module/zswap/parameters/compressor": "lzo\n",
    "proc/sys/vm/overcommit_memory": "2\n",
    "proc/sys/vm/overcommit_ratio": "80\n",
    "proc/swaps": "Filename Type Size Used Priority\n/dev/zram0 partition 2097152 0 100\n/dev/sda2 partition 99 0 -2\n",
    "proc/cpuinfo": "processor : 0\nflags : fpu sse4_2 avx avx2 fma\n",
    "run/.containerenv": 'engine="podman-4.3.1"\nimage="registry.example/me/box"\nimageid="' + "ab12" * 16 + '"\n',
}


def test_facts_of_a_recorded_machine(tmp_path):
    write_tree(tmp_path, TREE)

    assert read_linux_machine_facts(tmp_path) == {
        "transparent huge pages": "madvise",
        "huge page defragmentation": "madvise",
        "overcommit": "2 (never), ratio 80",
        "zswap": "on (lzo)",
        "zram": "swap of 2 GiB",
        "CPU flags": "sse4_2 avx avx2 fma",
        "container": "Podman, image ab12ab12ab12ab12ab1",
    }


def test_what_a_machine_lacks_is_left_open(tmp_path):
    assert read_linux_machine_facts(tmp_path) == {"container": "none seen"}


@pytest.mark.parametrize(("file", "name"), [(".dockerenv", "Docker"), (".singularity.d/labels.json", "Apptainer")])
def test_containers_without_a_visible_image(tmp_path, file, name):
    write_tree(tmp_path, {file: ""})

    assert read_linux_machine_facts(tmp_path)["container"] == f"{name}; its image cannot be seen from inside"


@pytest.mark.parametrize(
    ("file", "text", "container"),
    [
        (".dockerenv", "", "Docker, image example/box@sha256:ab12 (stated)"),
        ("run/.containerenv", 'imageid="ab12ab12ab12"', "Podman, image example/box@sha256:ab12 (stated)"),
    ],
)
def test_an_image_may_be_stated(tmp_path, monkeypatch, file, text, container):
    monkeypatch.setenv("LECTURECHECK_IMAGE", "example/box@sha256:ab12")
    write_tree(tmp_path, {file: text})

    assert read_linux_machine_facts(tmp_path)["container"] == container


@pytest.mark.parametrize("stated", ["", "two words", "a" * 300, "x\ny"])
def test_what_is_no_image_is_not_taken(tmp_path, monkeypatch, stated):
    monkeypatch.setenv("LECTURECHECK_IMAGE", stated)

    assert read_linux_machine_facts(tmp_path)["container"] == "none seen"


def test_apptainer_names_what_its_image_was_built_from(tmp_path):
    labels = '{"org.label-schema.usage.singularity.deffile.from": "python@sha256:ab12"}'
    write_tree(tmp_path, {".singularity.d/labels.json": labels})

    assert read_linux_machine_facts(tmp_path)["container"] == "Apptainer, built from python@sha256:ab12"


def test_this_machine_has_a_page_size():
    assert read_machine_facts()[Fact.PAGE_SIZE].endswith("KiB")
