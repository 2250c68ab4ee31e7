"""A lecture that needs a GPU and did not use one."""

import pytest
from support.made_entries import MACHINE, replace

from pytest_lecturecheck.kernel.launchers.local_launcher import LOCAL
from pytest_lecturecheck.model.device import Device
from pytest_lecturecheck.model.finding import FindingKind
from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.settings import GpuNeed, RunSettings
from pytest_lecturecheck.session.gpu_findings import first_devices, missing_gpu, unused_gpu_finding

LIVE = Measurement(metric=Metric.GPU_LIVE, value=0, method=Method.AGENT, source="JAX on cuda:0")


def used(value, method=Method.SAMPLED, high=None):
    return Measurement(metric=Metric.GPU_USED, value=value, method=method, high=high, source="NVML")


def run(*readings, outcome=Outcome.COMPLETED):
    found = {reading.metric: reading for reading in readings}
    return Run(lecture="a.md", platform="linux-x86_64-tesla_t4", outcome=outcome, readings=found)


def test_it_may_have_run_on_the_cpu():
    finding = unused_gpu_finding(run(used(0)), GpuNeed.REQUIRED)
    assert finding.message == (
        "the lecture needs a GPU, but none of its processes held GPU memory: it may have run on the CPU"
    )
    assert (finding.kind, finding.fails_when_strict) == (FindingKind.GPU, True)
    assert "shows a GPU in its output, but" in unused_gpu_finding(run(used(0)), GpuNeed.NARRATIVE).message


@pytest.mark.parametrize(
    ("found", "gpu"),
    [
        (run(used(0)), None),
        (run(used(0)), GpuNeed.CPU),
        (run(used(1)), GpuNeed.REQUIRED),
        (run(used(0), LIVE), GpuNeed.REQUIRED),
        (run(used(0, Method.BRACKET, 4000)), GpuNeed.REQUIRED),
        (run(Unavailable(metric=Metric.GPU_USED, reason="no library")), GpuNeed.REQUIRED),
        (run(used(0), outcome=Outcome.DIED), GpuNeed.REQUIRED),
        (run(), GpuNeed.REQUIRED),
    ],
)
def test_nothing_is_said_where_that_is_not_known(found, gpu):
    assert unused_gpu_finding(found, gpu) is None


@pytest.mark.parametrize(
    ("cards", "reason"),
    [
        (0, "needs 2 GPUs (axis gpus=2), and there is none here"),
        (1, "needs 2 GPUs (axis gpus=2), and there is 1 here"),
        (2, ""),
    ],
)
def test_a_lecture_of_several_cards_is_skipped_with_fewer(cards, reason):
    settings = RunSettings(gpus=2, gpu=GpuNeed.REQUIRED, origins={"gpus": "axis gpus=2"})
    assert missing_gpu(settings, replace(MACHINE, accelerators=("Tesla T4",) * cards), LOCAL) == reason


def test_a_number_of_cards_shows_no_more_than_these():
    cards = [Device(index=index, name="Tesla T4", uuid=f"GPU-{index}") for index in range(3)]
    assert first_devices(cards, 2) == {"CUDA_VISIBLE_DEVICES": "GPU-0,GPU-1"}
    assert first_devices(cards, 3) == first_devices(cards, None) == {}
