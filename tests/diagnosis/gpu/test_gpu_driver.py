"""Failures of the device, its driver or its runtime."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.card_evidence import PLACE, SILENT, STDERR, TORCH, XLA_TEXT, card, check, raising, running
from support.made_records import changed

from pytest_lecturecheck.diagnosis import CauseKind, diagnose

CODE_FAILED = (
    "GPU code of the lecture or of a library failed; CUDA_LAUNCH_BLOCKING=1 has the traceback show the call",
    "nothing more runs on the device in this kernel after it",
)

FAULTY = ("the card or its driver is at fault: the system's log (dmesg, lines NVRM: Xid) says more",)

MISSING = (
    "nvidia-smi shows whether the machine (and the container) sees a device, and which CUDA its driver serves",
    "the library's CUDA must not be newer than that; without a device, choose the CPU (JAX_PLATFORMS=cpu)",
)


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        (
            "XlaRuntimeError",
            "INTERNAL: CUDA error: Failed to synchronize: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access",
            CODE_FAILED,
        ),
        ("torch.AcceleratorError", "CUDA error: device-side assert triggered", CODE_FAILED),
        ("RuntimeError", "CUDA error: an illegal memory access was encountered", CODE_FAILED),
        ("RuntimeError", "CUDA error: no kernel image is available for execution on the device", ()),
        ("JaxRuntimeError", "INTERNAL: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered", FAULTY),
        ("NVMLError", "GPU is lost", FAULTY),
        (
            "CUDARuntimeError",
            "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
            MISSING,
        ),
        ("CUDARuntimeError", "cudaErrorNoDevice: no CUDA-capable device is detected", MISSING),
        ("RuntimeError", "No CUDA GPUs are available", MISSING),
        (
            "RuntimeError",
            "Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU devices.",
            MISSING,
        ),
        ("ImportError", "libcuda.so.1: cannot open shared object file: No such file or directory", MISSING),
        ("CudaSupportError", "Error at driver init: CUDA driver library cannot be found.", MISSING),
        ("CudaAPIError", "[700] Call to cuMemcpyDtoH results in CUDA_ERROR_UNKNOWN", ()),
        (
            "RuntimeError",
            (
                "Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are present. "
                "Platforms present are: cpu"
            ),
            MISSING,
        ),
        ("NVMLError_LibRmVersionMismatch", "RM has detected an NVML/RM version mismatch.", MISSING),
        ("NVMLError_DriverNotLoaded", "Driver Not Loaded", MISSING),
        ("XlaRuntimeError", "INTERNAL: no kernel image is available for execution on the device", ()),
    ],
)
def test_failures_of_the_driver_are_not_for_want_of_memory(name, value, advice):
    check(
        raising(name, value, devices=(card(3422, running(11305)),)),
        CauseKind.DRIVER_ERROR,
        f"GPU driver error: {name}: {value}{PLACE}",
        lines=(),
        advice=advice,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ValueError", "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"),
        ("ValueError", XLA_TEXT.format(2684354560)),
        ("ValueError", TORCH.format("9.20", "3.90")),
        ("RuntimeError", "no CUDA device today, sorry: the GPU is lost on students"),
        ("AssertionError", "libcuda.so.1: cannot open shared object file"),
        ("ImportError", "libcudnn_graph.so.9: cannot open shared object file: No such file or directory"),
        ("RuntimeError", "this is how to read CUDA error: unspecified launch failure"),
        ("RuntimeError", "of CUDA_ERROR_LAUNCH_FAILED we speak next week"),
    ],
)
def test_what_a_lecture_raises_itself_is_no_claim(name, value):
    check(
        raising(name, value, devices=(card(3422, running(11305)),)),
        CauseKind.CELL_ERROR,
        f"{name}: {value}{PLACE}",
        advice=(),
    )


@pytest.mark.parametrize(
    ("signal", "ended", "text", "advice"),
    [
        (6, "aborted (SIGABRT)", "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", CODE_FAILED),
        (11, "crashed (SIGSEGV)", "NVRM: Xid (PCI:0000:00:1e): 79, GPU has fallen off the bus.", FAULTY),
        (6, "aborted (SIGABRT)", "uncorrectable ECC error encountered", FAULTY),
    ],
)
def test_stderr_about_the_driver_names_the_driver(signal, ended, text, advice):
    stderr = ("W bfc.cc:1] ran Out of memory, this is not a failure", f"F0 event.cc:19] status: {text}")
    check(
        changed(SILENT, signal=signal, stderr_tail=stderr, devices=(card(3422, running(11305)),)),
        CauseKind.DRIVER_ERROR,
        f"GPU driver error: kernel {ended} in code cell 7, line 120; {text}",
        lines=tuple(f"stderr: {line}" for line in stderr),
        advice=advice,
    )


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        (("CUDA_ERROR_LAUNCH_FAILED", STDERR), CauseKind.PREALLOCATION_RACE),
        (("failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",), None),
        (("Could not load libcuda.so.1: cannot open shared object file",), None),
    ],
)
def test_other_stderr_does_not_blame_the_driver(stderr, kind):
    evidence = changed(SILENT, stderr_tail=stderr, devices=(card(3422, running(11305)) if kind else card(0),))
    assert diagnose(evidence).kind is (kind or CauseKind.NATIVE_CRASH)


def test_a_kill_says_nothing_of_the_device():
    evidence = changed(SILENT, signal=9, devices=(card(3422, running(11305)),))
    assert diagnose(evidence) == diagnose(replace(evidence, devices=()))
