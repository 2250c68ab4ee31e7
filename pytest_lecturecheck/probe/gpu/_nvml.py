"""
The only importer of pynvml (from nvidia-ml-py): devices and readings from the driver's own library, NVML.

Every error becomes a :class:`Failure` with a text here. What NVML does not report is ``None`` or a failure, never 0.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.card import CardLink
from pytest_lecturecheck.model.device import Device
from pytest_lecturecheck.probe.gpu._readings import UNNAMED, CardReading, Failure, ProcessUse

LIBRARY_NAME: Final = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
_NOT_SUPPORTED: Final = 3
_TOO_OLD: Final = 13
# By error code of NVML (nvml.h, nvmlReturn_t).
_TEXTS: Final = {
    1: "the driver's library was shut down",
    _NOT_SUPPORTED: "the card does not report it (N/A)",
    4: "no permission to read the card",
    8: "the card's power cables are not attached correctly",
    9: "the NVIDIA driver is not loaded",
    10: "the card did not answer in time",
    11: "the card's interrupts do not reach the driver",
    12: f"the driver's library {LIBRARY_NAME} cannot be loaded",
    _TOO_OLD: f"the driver's library {LIBRARY_NAME} is too old",
    15: "the GPU is lost (it has fallen off the bus)",
    16: "the GPU must be reset before it can be used again",
    17: "the operating system has blocked the request",
    18: "the driver's library and the loaded driver are of different versions; restart the machine",
}
_LASTING: Final = frozenset({1, 4, 8, 9, 12, _TOO_OLD, 15, 16, 18})
# A newer function may be missing from an older library (13), or not supported by an older driver (3, 25).
_NOT_OFFERED: Final = frozenset({_NOT_SUPPORTED, _TOO_OLD, 25})
_MOST_BYTES: Final = 2**60
"""No card has an exbibyte. NVML marks values that are not available by 2**64 - 1, 2**64 - 2 and the like."""
_MOST_LINKED: Final = 16
# nvml.h, nvmlGpuP2PCapsIndex_t and nvmlGpuP2PStatus_t; pynvml has a tuple by mistake for the first.
_P2P_READ, _P2P_NVLINK = 0, 2
_P2P_OK, _P2P_UNKNOWN = 0, 6
# nvml.h, nvmlGpuTopologyLevel_t: what a path between two cards passes.
_PATHS: Final = {
    0: "one board",
    10: "one PCIe switch",
    20: "several PCIe switches",
    30: "a PCIe host bridge",
    40: "host bridges of one NUMA node",
    50: "the interconnect between CPUs",
}
_NO_SLICE: Final = Failure(reason="the card is divided (MIG), and none of its slices can be read")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A device with NVML's handle; ``failure`` where it could not be opened."""

    device: Device
    handle: Any = None
    failure: Failure | None = None


def open_cards() -> NvmlCards | Failure:
    """Load the library and list the devices."""
    try:
        import pynvml  # noqa: PLC0415 - only where there is a GPU
    except ImportError:
        return Failure(reason="the Python package nvidia-ml-py cannot be imported")
    nvml = _Library(pynvml)
    opened = nvml.call("nvmlInit")
    if isinstance(opened, Failure):
        return opened
    count = nvml.call("nvmlDeviceGetCount")
    if isinstance(count, Failure):
        nvml.call("nvmlShutdown")
        return count
    return NvmlCards(nvml, [opened for index in range(count) for opened in _open_device(nvml, index)])


class _Library:
    """Calls functions of pynvml and converts exceptions to :class:`Failure`."""

    def __init__(self, pynvml: Any) -> None:
        self.pynvml = pynvml
        # NVMLLibraryMismatchError is raised for a function that the driver's library lacks. It has no error code.
        mismatch = getattr(pynvml, "NVMLLibraryMismatchError", pynvml.NVMLError)
        self._errors: tuple[type[Exception], ...] = (pynvml.NVMLError, mismatch)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function; return its result, or a :class:`Failure`."""
        return self._try(name, arguments)[0]

    def call_newest(self, *choices: tuple[Any, ...]) -> Any:
        """Try functions in turn, the newest first; return the first supported one's result, or the last failure."""
        answer: Any = Failure(reason=_TEXTS[_TOO_OLD])
        for name, *arguments in choices:
            if hasattr(self.pynvml, name):
                answer, code = self._try(name, arguments)
                if code not in _NOT_OFFERED:
                    break
        return answer

    def _try(self, name: str, arguments: Sequence[Any]) -> tuple[Any, int]:
        """Return the result and NVML's error code, 0 for none."""
        try:
            return getattr(self.pynvml, name)(*arguments), 0
        except self._errors as error:
            code = getattr(error, "value", _TOO_OLD)
            text = _TEXTS.get(code, f"NVML error {code}: {error}")
            return Failure(reason=text, is_lasting=code in _LASTING), code
        except (AttributeError, OSError, TypeError, ValueError) as error:
            return _unexpected(error), -1


def _unexpected(error: Exception) -> Failure:
    return Failure(reason=f"the driver's library returned an unexpected answer ({type(error).__name__}: {error})")


def _open_device(nvml: _Library, index: int) -> Iterator[_Opened]:
    handle = nvml.call("nvmlDeviceGetHandleByIndex", index)
    if isinstance(handle, Failure):
        yield _Opened(device=Device(index=index, name=UNNAMED), failure=handle)
        return
    mode = nvml.call("nvmlDeviceGetMigMode", handle)
    if isinstance(mode, Failure) or mode[0] != 1:
        yield _Opened(device=_describe(nvml, handle, index, is_slice=False), handle=handle)
        return
    slices = list(_open_slices(nvml, handle, index))
    if slices:
        yield from slices
    else:
        yield _Opened(device=_describe(nvml, handle, index, is_slice=False), failure=_NO_SLICE)


def _open_slices(nvml: _Library, card: Any, index: int) -> Iterator[_Opened]:
    count = nvml.call("nvmlDeviceGetMaxMigDeviceCount", card)
    for number in range(0 if isinstance(count, Failure) else count):
        # Numbers have gaps: a card with room for seven slices may be divided into two.
        handle = nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", card, number)
        if not isinstance(handle, Failure):
            yield _Opened(device=_describe(nvml, handle, index, is_slice=True), handle=handle)


def _describe(nvml: _Library, handle: Any, index: int, *, is_slice: bool) -> Device:
    name, uuid = nvml.call("nvmlDeviceGetName", handle), nvml.call("nvmlDeviceGetUUID", handle)
    memory = _read_memory(nvml, handle)
    return Device(
        index=index,
        name=name if isinstance(name, str) and name else UNNAMED,
        uuid=uuid if isinstance(uuid, str) else "",
        total_bytes=None if isinstance(memory, Failure) else memory[1],
        is_slice=is_slice,
        compute_capability=_capability(nvml.call("nvmlDeviceGetCudaComputeCapability", handle)),
    )


def _capability(answer: Any) -> str:
    """Return a compute capability as text, or an empty string where it could not be read."""
    try:
        major, minor = answer
        return f"{int(major)}.{int(minor)}"
    except (TypeError, ValueError):
        return ""


def _read_memory(nvml: _Library, handle: Any) -> tuple[int, int] | Failure:
    """Return used and total bytes. With the newer call "used" excludes what the driver reserves for itself."""
    version = getattr(nvml.pynvml, "nvmlMemory_v2", None)
    newer = [("nvmlDeviceGetMemoryInfo", handle, version)] if version is not None else []
    memory = nvml.call_newest(*newer, ("nvmlDeviceGetMemoryInfo", handle))
    if isinstance(memory, Failure):
        return memory
    used, total = _size(memory.used), _size(memory.total)
    if used is None or total is None or used > total:
        return Failure(reason=_TEXTS[_NOT_SUPPORTED], is_lasting=False)
    return used, total


def _size(value: Any, most_bytes: int = _MOST_BYTES) -> int | None:
    """Return a size, or ``None`` for a value that NVML marks as not available (nearly all ones, or negative)."""
    return int(value) if isinstance(value, int) and 0 <= value <= most_bytes else None


def _utilisation(rates: Any) -> float | None:
    """Return the share of time in which a kernel ran, or ``None`` where that is not available."""
    percent = _size(getattr(rates, "gpu", None), 2**16)
    return None if percent is None else min(1.0, percent / 100)


class NvmlCards:
    """The devices of this machine; see :class:`~pytest_lecturecheck.probe.gpu._readings.Cards`."""

    def __init__(self, nvml: _Library, opened: list[_Opened]) -> None:
        self._nvml = nvml
        self._opened = opened
        self._is_open = True
        self.devices = tuple(item.device for item in opened)
        driver = nvml.call("nvmlSystemGetDriverVersion")
        self.driver = driver if isinstance(driver, str) and driver else None
        number = nvml.call_newest(("nvmlSystemGetCudaDriverVersion_v2",), ("nvmlSystemGetCudaDriverVersion",))
        # 12040 is 12.4.
        is_known = isinstance(number, int) and number > 0
        self.cuda = f"{number // 1000}.{number % 1000 // 10}" if is_known else None

    @property
    def links(self) -> tuple[CardLink, ...]:
        """Return how the cards reach each other; slices of a card reach none."""
        cards = [item for item in self._opened if item.failure is None and not item.device.is_slice][:_MOST_LINKED]
        return tuple(self._link(one, other) for one, other in combinations(cards, 2))

    def _link(self, one: _Opened, other: _Opened) -> CardLink:
        pair = (one.handle, other.handle)
        peers = self._nvml.call("nvmlDeviceGetP2PStatus", *pair, _P2P_READ)
        through_nvlink = self._nvml.call("nvmlDeviceGetP2PStatus", *pair, _P2P_NVLINK)
        level = self._nvml.call("nvmlDeviceGetTopologyCommonAncestor", *pair)
        path = _PATHS.get(level, "") if isinstance(level, int) else ""
        return CardLink(
            first=one.device.index,
            second=other.device.index,
            path="NVLink" if through_nvlink == _P2P_OK else path,
            has_peer_access=None if isinstance(peers, Failure) or peers == _P2P_UNKNOWN else peers == _P2P_OK,
        )

    def read(self, position: int, seconds: float) -> CardReading | Failure:
        """Read memory, processes and utilisation of the device at ``position``."""
        item = self._opened[position]
        if item.failure is not None:
            return item.failure
        memory = _read_memory(self._nvml, item.handle)
        if isinstance(memory, Failure):
            return memory
        processes = self._processes(item.handle, total_bytes=memory[1])
        rates = self._nvml.call("nvmlDeviceGetUtilizationRates", item.handle)
        return CardReading(
            seconds=seconds,
            used_bytes=memory[0],
            processes=None if isinstance(processes, Failure) else processes,
            no_list_reason=processes.reason if isinstance(processes, Failure) else "",
            utilisation_fraction=None if isinstance(rates, Failure) else _utilisation(rates),
        )

    def _processes(self, handle: Any, *, total_bytes: int) -> tuple[ProcessUse, ...] | Failure:
        """Return the processes of the card, each once: a process that computes and draws is in both lists of NVML."""
        found: dict[int, int | None] = {}
        for kind in ("Compute", "Graphics"):
            name = f"nvmlDeviceGet{kind}RunningProcesses"
            listed = self._nvml.call_newest((f"{name}_v3", handle), (f"{name}_v2", handle))
            if isinstance(listed, Failure):
                # A card without graphics has no second list.
                if kind == "Graphics" and listed.reason == _TEXTS[_NOT_SUPPORTED]:
                    continue
                return listed
            for process in listed:
                # No process can hold more than its card.
                used = _size(process.usedGpuMemory, total_bytes)
                before = found.get(process.pid)
                found[process.pid] = before if used is None else max(used, before or 0)
        return tuple(ProcessUse(pid=pid, used_bytes=used) for pid, used in sorted(found.items()))

    def close(self) -> None:
        """Shut the library down; safe to call twice."""
        if self._is_open:
            self._is_open = False
            self._nvml.call("nvmlShutdown")
