"""``--lecture-target``: lectures run with what a reader has."""

import pytest

from pytest_lecturecheck.config.options import resolve
from pytest_lecturecheck.errors import SettingsError
from pytest_lecturecheck.model.settings import GpuNeed, RunSettings


def test_a_target_caps_memory_and_hides_the_gpu(tmp_path):
    found = resolve({"target": "binder"}, tmp_path, tmp_path).for_lecture(RunSettings(memory_cap_bytes=10.0**12))
    assert (found.memory_cap_bytes, found.gpu) == (2e9, GpuNeed.CPU)
    assert found.origin("memory_cap_bytes") == "--lecture-target binder"


def test_a_target_with_a_gpu_leaves_it(tmp_path):
    assert resolve({"target": "colab-free"}, tmp_path, tmp_path).for_lecture(RunSettings()).gpu is None


def test_targets_of_the_settings_are_known(tmp_path):
    (tmp_path / "lecturecheck.toml").write_text('[targets.lab]\nmemory = "64 GB"\n', encoding="utf-8")
    found = resolve({"target": "lab"}, tmp_path, tmp_path).for_lecture(RunSettings())
    assert found.memory_cap_bytes == 64e9


def test_an_unknown_target_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(SettingsError, match=r"^--lecture-target 'bindr' is not known; did you mean binder[?] "):
        resolve({"target": "bindr"}, tmp_path, tmp_path)
