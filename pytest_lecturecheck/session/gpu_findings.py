"""What the session says about a lecture that is written for a GPU. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pytest_lecturecheck.kernel.launchers.port import Launcher
from pytest_lecturecheck.model.device import Device
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.metric import Method, Metric
from pytest_lecturecheck.model.platform import Machine
from pytest_lecturecheck.model.run import Outcome, Run
from pytest_lecturecheck.model.settings import GpuNeed, RunSettings

_NEEDS_GPU: Final[Mapping[GpuNeed | None, str]] = {
    GpuNeed.REQUIRED: "needs a GPU",
    GpuNeed.NARRATIVE: "shows a GPU in its output",
}
_HINT_TEXT: Final = (
    "the page says that it was built with a GPU (_admonition/gpu.md), and it runs on the CPU here. To skip it where "
    "there is no GPU, write `gpu: required` under `lecturecheck:` in its front matter; to run it on the CPU on "
    "purpose, write `gpu: cpu`"
)


def missing_gpu(settings: RunSettings, machine: Machine, launcher: Launcher) -> str:
    """Return the reason to skip a lecture that needs a GPU where there is none, or an empty string."""
    if launcher.gives_gpu:
        return ""
    count, wanted = len(machine.accelerators), settings.gpus or 1
    if wanted > 1 and count < wanted and settings.gpu is not GpuNeed.CPU:
        are = "there is none" if not count else f"there {'is' if count == 1 else 'are'} {count}"
        return f"needs {wanted} GPUs ({settings.origin('gpus')}), and {are} here"
    if count or settings.gpu not in _NEEDS_GPU:
        return ""
    return f"{_NEEDS_GPU[settings.gpu]} ({settings.origin('gpu')}), and there is none here"


def first_devices(devices: Sequence[Device], count: int | None) -> dict[str, str]:
    """Return the variables that restrict a lecture to the number of GPUs that it asks for; empty where it asks none."""
    if count is None or count >= len(devices):
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(device.uuid or str(device.index) for device in devices[:count])}


def with_gpu_hint(lecture: Lecture, settings: RunSettings, machine: Machine) -> Lecture:
    """Return the lecture with a finding where its page says that it was built with a GPU and there is none."""
    if not lecture.hints_at_gpu or settings.gpu is not None or machine.accelerators:
        return lecture
    finding = Finding(kind=FindingKind.GPU, message=_HINT_TEXT)
    return replace(lecture, findings=(*lecture.findings, finding))


def unused_gpu_finding(run: Run, gpu: GpuNeed | None) -> Finding | None:
    """Return a finding where a lecture that needs a GPU completed without one: libraries fall back to the CPU."""
    used = run.measured(Metric.GPU_USED)
    if gpu not in _NEEDS_GPU or run.outcome is not Outcome.COMPLETED:
        return None
    # A range that begins at 0 means that processes cannot be distinguished, not that there was no memory.
    if used is None or used.value > 0 or used.method is Method.BRACKET or run.measured(Metric.GPU_LIVE) is not None:
        return None
    message = f"the lecture {_NEEDS_GPU[gpu]}, but none of its processes held GPU memory: it may have run on the CPU"
    return Finding(kind=FindingKind.GPU, message=message, fails_when_strict=True)
