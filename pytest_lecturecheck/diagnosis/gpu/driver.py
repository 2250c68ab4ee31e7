"""
Failures of a GPU, its driver or its runtime, which have nothing to do with memory running out.

Errors count where class and text agree, as for memory. A kernel's last lines of stderr count only for failures that end
a process: machines without a GPU print "failed call to cuInit" at many starts, which means nothing.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_lecturecheck.diagnosis.cause import Cause, CauseKind
from pytest_lecturecheck.diagnosis.crash_places import crash_lines
from pytest_lecturecheck.diagnosis.requests import last_memory_line, means_device_not_usable, parse_request
from pytest_lecturecheck.diagnosis.wording import all_lines, error_text, in_brackets, stderr_lines, within
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.safe_text import one_line

_SIGNALS: Final = {6: "aborted (SIGABRT)", 11: "crashed (SIGSEGV)"}
_READ_LENGTH: Final = 4000
_LONGEST_TEXT: Final = 160
_CLASSES: Final = frozenset(
    {
        "JaxRuntimeError",
        "XlaRuntimeError",
        "RuntimeError",
        "AcceleratorError",
        "CUDARuntimeError",
        "CUDADriverError",
        "CudaAPIError",
        "CudaDriverError",
        "CudaSupportError",
        "InternalError",
    }
)
_LOADING: Final = frozenset({"ImportError", "OSError"})
_NOT_LOADED: Final = re.compile(r"libcuda\.so[.0-9]*: cannot open shared object file")
# Messages of the driver, of the runtime (CUDARuntimeError: cudaErrorNoDevice: ...) and of PyTorch ("CUDA error: ...").
_BROKEN: Final = re.compile(
    r"CUDA_ERROR_(?:ILLEGAL_ADDRESS|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS|INVALID_ADDRESS_SPACE|INVALID_PC"
    r"|LAUNCH_FAILED|LAUNCH_TIMEOUT|ASSERT)\b"
    r"|cudaError(?:IllegalAddress|IllegalInstruction|MisalignedAddress|LaunchFailure|LaunchTimeout|Assert)\b"
    r"|an illegal memory access was encountered|an illegal instruction was encountered|misaligned address"
    r"|unspecified launch failure|device-side assert triggered"
)
_FAULTY: Final = re.compile(
    r"CUDA_ERROR_(?:ECC_UNCORRECTABLE|HARDWARE_STACK_ERROR|NVLINK_UNCORRECTABLE|CONTAINED)\b"
    r"|cudaError(?:ECCUncorrectable|HardwareStackError)\b|uncorrectable (?:NVLink )?(?:ECC )?error"
    r"|GPU is lost|GPU has fallen off the bus|NVRM: Xid"
)
_MISSING: Final = re.compile(
    r"CUDA_ERROR_(?:NO_DEVICE|STUB_LIBRARY|SYSTEM_DRIVER_MISMATCH|COMPAT_NOT_SUPPORTED_ON_DEVICE|INVALID_DEVICE"
    r"|SYSTEM_NOT_READY)\b"
    r"|cudaError(?:NoDevice|InsufficientDriver|InvalidDevice|SystemDriverMismatch|SystemNotReady|StubLibrary)\b"
    r"|CUDA driver version is insufficient for CUDA runtime version|no CUDA-capable device is detected"
    r"|No CUDA GPUs are available|Found no NVIDIA driver on your system|NVIDIA driver on your system is too old"
    r"|Unknown backend:? '?(?:gpu|cuda|rocm)'? requested, but no platforms|Driver/library version mismatch"
    r"|NVML/RM version mismatch|NVML Shared Library Not Found|^Driver Not Loaded"
    r"|CUDA driver library cannot be found|No visible GPU devices|Unable to initialize backend 'cuda'"
    rf"|{_NOT_LOADED.pattern}"
)
_OTHER: Final = re.compile(
    r"\bCUDA_ERROR_(?!OUT_OF_MEMORY)[A-Z][A-Z_]{3,40}\b|\bcudaError(?!MemoryAllocation)[A-Z][A-Za-z]{3,40}\b"
    r"|^CUDA error: (?!out of memory|CU[A-Z]+_STATUS)|no kernel image is available for execution on the device"
)
# Anybody raises a RuntimeError: the libraries that do so begin with these texts.
_BEGINNING: Final = re.compile(
    r"CUDA error: |[A-Z_]{5,24}: |\[[0-9]+\] Call to |CUDA driver version is insufficient|No CUDA GPUs are available"
    r"|Found no NVIDIA driver on your system|The NVIDIA driver on your system is too old|Unable to initialize backend"
    r"|Unknown backend:? '?(?:gpu|cuda|rocm)'? requested|Unknown: no kernel image"
)
_ADVICE: Final = (
    (
        _BROKEN,
        (
            "GPU code of the lecture or of a library failed; CUDA_LAUNCH_BLOCKING=1 has the traceback show the call",
            "nothing more runs on the device in this kernel after it",
        ),
    ),
    (_FAULTY, ("the card or its driver is at fault: the system's log (dmesg, lines NVRM: Xid) says more",)),
    (
        _MISSING,
        (
            "nvidia-smi shows whether the machine (and the container) sees a device, and which CUDA its driver serves",
            "the library's CUDA must not be newer than that; without a device, choose the CPU (JAX_PLATFORMS=cpu)",
        ),
    ),
)
_ENDS_PROCESS: Final = re.compile(f"{_BROKEN.pattern}|{_FAULTY.pattern}")


def find_driver_error(evidence: Evidence) -> Cause | None:
    """Recognise failures of the GPU's driver or runtime, raised as an error or printed on a kernel's stderr."""
    if evidence.error is not None:
        return _raised(evidence)
    if evidence.exit.signal not in _SIGNALS:
        return None
    lines = [line[:_READ_LENGTH] for line in evidence.exit.stderr_tail]
    matches = ((number, line, _ENDS_PROCESS.search(line)) for number, line in enumerate(lines))
    found = [(number, line[match.start() :]) for number, line, match in matches if match is not None]
    # What comes last decides: allocators also speak of memory that they could do without.
    if not found or found[-1][0] <= (-1 if (said := last_memory_line(lines)) is None else said):
        return None
    text = one_line(found[-1][1], _LONGEST_TEXT)
    return Cause(
        kind=CauseKind.DRIVER_ERROR,
        headline=f"GPU driver error: kernel {_SIGNALS[evidence.exit.signal]}{within(evidence)}; {text}",
        evidence=(*crash_lines(evidence), *all_lines(evidence)),
        advice=_advice(text),
    )


def _raised(evidence: Evidence) -> Cause | None:
    error = evidence.error
    if error is None or parse_request(error.name, error.value) or means_device_not_usable(error.name, error.value):
        return None
    name, text = error.name.rsplit(".", 1)[-1], error.value[:_READ_LENGTH].strip()
    is_known = name in _CLASSES or name.startswith("NVMLError")
    patterns = (_BROKEN, _FAULTY, _MISSING, _OTHER) if is_known else (_NOT_LOADED,) if name in _LOADING else ()
    if not any(pattern.search(text) for pattern in patterns):
        return None
    if name == "RuntimeError" and not _BEGINNING.match(text):
        return None
    return Cause(
        kind=CauseKind.DRIVER_ERROR,
        headline=f"GPU driver error: {error_text(error)}{in_brackets(evidence)}",
        evidence=tuple(stderr_lines(evidence)),
        advice=_advice(text),
    )


def _advice(text: str) -> tuple[str, ...]:
    return next((advice for pattern, advice in _ADVICE if pattern.search(text)), ())
