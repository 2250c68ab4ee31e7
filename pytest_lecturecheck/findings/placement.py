"""Where a lecture belongs: from measured runs where there are some, else from its source. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.findings.measured import Group, Measured, Sample
from pytest_lecturecheck.findings.spread import Conclusion, ratio_of, ratio_of_medians
from pytest_lecturecheck.model.cohort import safe_concurrency
from pytest_lecturecheck.model.cohort_record import cohort_of
from pytest_lecturecheck.model.fleet import ReaderTarget
from pytest_lecturecheck.model.lecture import Lecture
from pytest_lecturecheck.model.metric import Metric
from pytest_lecturecheck.model.settings import GpuNeed

_GPU_PACKAGES: Final = re.compile(
    r"^\s*(?:import|from)\s+(jax|torch|cupy|tensorflow|numpyro|numba\.cuda|keras)\b", re.MULTILINE
)
_COMMENT: Final = re.compile(r"#.*")
_PRINTS_DEVICE: Final = re.compile(r"nvidia-smi|jax\.(?:local_)?devices\(|jax\.default_backend\(|cuda\.get_device_name")
_X64: Final = re.compile(r"jax_enable_x64[\"']?\s*,\s*True|JAX_ENABLE_X64")
_NUMBER: Final = re.compile(r"(?<![\w.])([0-9][0-9_]{5,15})(?![\w.])")
_LARGE: Final = 10_000_000
_LEAST_GAIN: Final = 0.8
"""A GPU has to save a fifth of the time before it counts as a help."""


class Placement(StrEnum):
    """Where a lecture belongs."""

    CPU = "pin to the CPU"
    GPU = "a GPU helps"
    NARRATIVE = "shows a GPU"
    UNSAFE = "unsafe with several at once"
    UNDECIDED = "undecided"


_FRONT_MATTER: Final = {
    Placement.CPU: "gpu: cpu",
    Placement.GPU: "gpu: required",
    Placement.NARRATIVE: "gpu: narrative",
    Placement.UNSAFE: "exclusive: true",
    Placement.UNDECIDED: "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """
    What the source of a lecture says about devices.

    Attributes:
        gpu: what its own settings say, or ``None``.
        hints_at_gpu: its page includes the note that it was built with a GPU.
        prints_device: a cell prints which device there is.
        packages: packages that it imports and that can use a GPU.
        has_x64: it switches JAX to float64.
        largest_number: the largest number that it states.
    """

    gpu: GpuNeed | None = None
    hints_at_gpu: bool = False
    prints_device: bool = False
    packages: tuple[str, ...] = ()
    has_x64: bool = False
    largest_number: int = 0


def read_source(lecture: Lecture) -> SourceFacts:
    """Return what the source of a lecture says about devices."""
    source = "\n".join(cell.source for cell in lecture.cells)
    numbers = [int(text.replace("_", "")) for text in _NUMBER.findall(_COMMENT.sub("", source))]
    return SourceFacts(
        gpu=lecture.settings.gpu,
        hints_at_gpu=lecture.hints_at_gpu,
        prints_device=_PRINTS_DEVICE.search(source) is not None,
        packages=tuple(sorted(set(_GPU_PACKAGES.findall(source)))),
        has_x64=_X64.search(source) is not None,
        largest_number=max(numbers, default=0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """
    One lecture with its place.

    Attributes:
        lecture: its name.
        placement: where it belongs.
        why: the reason, in a few words.
        is_measured: whether runs decided, not the source.
        peak_bytes: highest peak footprint of its runs alone, or ``None`` where none was measured.
        reached_bytes: what runs that did not end well had reached, or ``None`` where there are none: a lower bound.
        targets: what readers can run it on, by name: ``True``, ``False``, or ``None`` where it was not measured.
    """

    lecture: str
    placement: Placement
    why: str
    is_measured: bool
    peak_bytes: float | None = None
    reached_bytes: float | None = None
    targets: dict[str, bool | None] = field(default_factory=dict)

    @property
    def front_matter(self) -> str:
        """Return the line that would say so below ``lecturecheck:``, or an empty string."""
        return _FRONT_MATTER[self.placement]


def place(name: str, facts: SourceFacts, measured: Measured, targets: Sequence[ReaderTarget]) -> Placed:
    """
    Return the place of one lecture.

    Args:
        name: the lecture.
        facts: what its source says.
        measured: samples of kept sessions, of any lectures and machines.
        targets: what readers have.
    """
    groups = [group for key, group in measured.groups.items() if key.lecture == name]
    found = _from_runs(groups, facts)
    placement, why = found or _from_source(facts)
    peak, reached = peak_of(groups), reached_by(groups)
    return Placed(
        lecture=name,
        placement=placement,
        why=why,
        is_measured=found is not None,
        peak_bytes=peak,
        reached_bytes=reached,
        targets={target.name: _runs_on(target, peak, reached, facts.gpu) for target in targets},
    )


def peak_of(groups: Iterable[Group]) -> float | None:
    """Return the highest peak footprint of single kernels that ran to their end, or ``None``."""
    samples = (sample for group in groups if group.conditions.kernel_count == 1 for sample in group.complete)
    return _highest(samples)


def reached_by(groups: Iterable[Group]) -> float | None:
    """Return what single kernels reached that did not run to their end, or ``None``."""
    single = (group for group in groups if group.conditions.kernel_count == 1)
    return _highest(sample for group in single for sample in group.samples if not sample.kept.is_complete)


def _highest(samples: Iterable[Sample]) -> float | None:
    peaks = [peak for sample in samples if (peak := sample.value(Metric.PEAK_FOOTPRINT)) is not None]
    return max(peaks, default=None)


def _runs_on(target: ReaderTarget, peak: float | None, reached: float | None, gpu: GpuNeed | None) -> bool | None:
    if gpu is GpuNeed.REQUIRED and not target.has_gpu:
        return False
    if reached is not None and reached > target.memory_bytes:
        return False
    if peak is not None and peak > target.memory_bytes:
        return False
    # A run that ended badly above all others would have needed more than it reached.
    return None if peak is None or (reached is not None and reached > peak) else True


def _from_runs(groups: Sequence[Group], facts: SourceFacts) -> tuple[Placement, str] | None:
    """Return the place that runs show, or ``None`` where they show none."""
    unsafe = _unsafe(groups)
    if unsafe:
        return Placement.UNSAFE, unsafe
    if facts.gpu is GpuNeed.NARRATIVE or (facts.hints_at_gpu and facts.prints_device):
        return None
    on_gpu = [group for group in groups if group.conditions.device == "gpu" and group.complete]
    compared = _compare_devices(groups)
    if compared is not None:
        return compared
    used = [value for group in on_gpu for sample in group.complete if (value := _gpu_bytes(sample)) is not None]
    if on_gpu and used and max(used) == 0:
        return Placement.CPU, "its runs on a GPU used no memory of it"
    return None


def _gpu_bytes(sample: object) -> float | None:
    live = sample.value(Metric.GPU_LIVE)  # type: ignore[attr-defined]
    used: float | None = sample.value(Metric.GPU_USED)  # type: ignore[attr-defined]
    return used if live is None else max(live, used or 0)


def _unsafe(groups: Sequence[Group]) -> str:
    several = [group for group in groups if group.conditions.kernel_count > 1]
    if not several:
        return ""
    safe = safe_concurrency([cohort_of(sample.run) for group in groups for sample in group.samples])
    most = max(group.conditions.kernel_count for group in several)
    if safe == most:
        return ""
    return f"kernels failed with {most} at once; safe: {safe or 'none of the numbers tried'}"


def _compare_devices(groups: Sequence[Group]) -> tuple[Placement, str] | None:
    """Compare CPU and GPU over all variants that ran on both; the one for which the GPU does best decides."""
    by_rest: dict[object, dict[str, list[Group]]] = {}
    for group in groups:
        key = group.conditions
        both = by_rest.setdefault((key.without("device").axes, key.kernel_count), {"cpu": [], "gpu": []})
        both[key.device].append(group)
    ratios = []
    for both in by_rest.values():
        for first, second in itertools.product(both["cpu"], both["gpu"]):
            ratio = ratio_of(first.by_round(_wall), second.by_round(_wall))
            ratio = ratio or ratio_of_medians(first.spread(_wall), second.spread(_wall))
            if ratio is not None and ratio.conclusion not in {Conclusion.FEW, Conclusion.NOISY}:
                ratios.append(ratio.spread.median)
    if not ratios:
        return None
    best = min(ratios)
    text = f"the GPU takes {best:.2f} of the CPU's time at best"
    return (Placement.GPU if best <= _LEAST_GAIN else Placement.CPU), text


def _wall(sample: object) -> float | None:
    found: float | None = sample.value(Metric.WALL)  # type: ignore[attr-defined]
    return found


def _from_source(facts: SourceFacts) -> tuple[Placement, str]:
    if facts.gpu is not None:
        places = {
            GpuNeed.CPU: Placement.CPU,
            GpuNeed.REQUIRED: Placement.GPU,
            GpuNeed.NARRATIVE: Placement.NARRATIVE,
        }
        return places[facts.gpu], f"its settings say gpu: {facts.gpu.value}"
    if facts.hints_at_gpu and facts.prints_device:
        return Placement.NARRATIVE, "its page says that it was built with a GPU, and a cell prints the device"
    if not facts.packages:
        return Placement.CPU, "it imports nothing that could use a GPU"
    if facts.has_x64 and "numpyro" in facts.packages:
        return Placement.CPU, "it samples in float64, which small cards do slowly"
    if facts.largest_number >= _LARGE and not facts.has_x64:
        return Placement.GPU, f"it states sizes up to {facts.largest_number:,} in float32"
    uses = ", ".join(facts.packages)
    return Placement.UNDECIDED, f"it uses {uses}; runs on both devices would decide"
