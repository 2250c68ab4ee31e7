import pytest
from support.fake_proc import KERNEL, FakeProc
from support.fakes import StillSampler

from pytest_lecturecheck.probe.memory._linux import LinuxProbe


@pytest.fixture
def proc(tmp_path):
    return FakeProc(tmp_path / "proc")


@pytest.fixture
def open_probe(tmp_path):
    probes = []

    def opened(**known):
        probe = LinuxProbe(KERNEL, interval_seconds=0.025, proc_root=tmp_path / "proc", sampler=StillSampler(), **known)
        probe.start()
        probes.append(probe)
        return probe

    yield opened
    for probe in probes:
        probe.close()
