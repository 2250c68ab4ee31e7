"""What the out-of-memory errors of libraries are reported as."""

from __future__ import annotations

import pytest
from support.roomy_evidence import ROOMY_LINES, check, raised

from pytest_lecturecheck.diagnosis import CauseKind

HOST = "; the limit is 24 GiB, RAM; 20 GiB available; the process itself had only 63 MiB (code cell 2, line 9)"

PLACE = " (code cell 2, line 9)"

DEVICE = " on the device (code cell 2, line 9)"


@pytest.mark.parametrize(
    ("name", "value", "kind", "headline"),
    [
        (
            "JaxRuntimeError",
            "INTERNAL: Error dispatching computation: Out of memory allocating 98765432100 bytes.",
            CauseKind.HOST_OUT_OF_MEMORY,
            "XLA out of memory: asked 98.8 GB (92 GiB) on the host" + HOST,
        ),
        (
            "jaxlib.xla_extension.XlaRuntimeError",
            "RESOURCE_EXHAUSTED: Out of memory allocating 33433655952 bytes.",
            CauseKind.HOST_OUT_OF_MEMORY,
            "XLA out of memory: asked 33.4 GB (31.1 GiB) on the host" + HOST,
        ),
        (
            "JaxRuntimeError",
            "INTERNAL: YNNPACK operation failed",
            CauseKind.HOST_OUT_OF_MEMORY,
            "XLA out of memory on the host" + HOST,
        ),
        (
            "XlaRuntimeError",
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3221225472 bytes.",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 3.22 GB (3 GiB)" + DEVICE,
        ),
        (
            "XlaRuntimeError",
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7.45GiB.\nBufferAssignment OOM Debugging.",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 8 GB (7.45 GiB)" + DEVICE,
        ),
        (
            "RuntimeError",
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 14285187448 bytes.",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 14.3 GB (13.3 GiB)" + DEVICE,
        ),
        (
            "JaxRuntimeError",
            "RESOURCE_EXHAUSTED: Failed to allocate request for 12.58GiB (13512998912B) on device ordinal 0",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 13.5 GB (12.6 GiB)" + DEVICE,
        ),
        (
            "XlaRuntimeError",
            (
                "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 7.50G. That was not "
                "possible. There are 5.83G free.; (0x0x0_HBM0)"
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 8.05 GB (7.5 GiB)" + DEVICE,
        ),
        (
            "XlaRuntimeError",
            "INTERNAL: Failed to allocate 2147483648 bytes for new constant",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 2.15 GB (2 GiB)" + DEVICE,
        ),
        (
            "RuntimeError",
            "Resource exhausted: Out of memory allocating 80000000000 bytes.",
            CauseKind.HOST_OUT_OF_MEMORY,
            "XLA out of memory: asked 80 GB (74.5 GiB) on the host" + HOST,
        ),
        (
            "XlaRuntimeError",
            (
                "INTERNAL: CpuCallback error: XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating "
                "80000000000 bytes."
            ),
            CauseKind.HOST_OUT_OF_MEMORY,
            "XLA out of memory: asked 80 GB (74.5 GiB) on the host" + HOST,
        ),
        (
            "OutOfMemoryError",
            (
                "Allocation on device 0 would exceed allowed memory. (out of memory)\n"
                "Currently allocated     : 21.14 GiB\nRequested               : 25.00 MiB"
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "PyTorch out of memory: asked 26.2 MB (25 MiB)" + DEVICE,
        ),
        (
            "RuntimeError",
            "cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/THCGeneral.cpp:50",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "PyTorch out of memory" + DEVICE,
        ),
        (
            "DistBackendError",
            "NCCL error in: ProcessGroupNCCL.cpp:20, unhandled cuda error\nLast error:\nCuda failure 2 'out of memory'",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "PyTorch out of memory" + DEVICE,
        ),
        (
            "CUDADriverError",
            "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "CuPy out of memory" + DEVICE,
        ),
        (
            "CudaSupportError",
            "Error at driver init: \n[2] Call to cuInit results in CUDA_ERROR_OUT_OF_MEMORY",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "Numba out of memory" + DEVICE,
        ),
        (
            "ResourceExhaustedError",
            "{{function_node __wrapped__Mul_device_/job:localhost/task:0/device:GPU:0}} failed to allocate memory",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "TensorFlow out of memory" + DEVICE,
        ),
        (
            "XlaRuntimeError",
            "RESOURCE_EXHAUSTED: XLA compile error. Ran out of memory in memory space hbm.",
            CauseKind.LIBRARY_OUT_OF_MEMORY,
            "XLA out of memory (code cell 2, line 9)",
        ),
        (
            "OutOfMemoryError",
            (
                "Out of memory allocating 805,306,368 bytes "
                "(allocated so far: 536,870,912 bytes, limit set to: 1,073,741,824 bytes)."
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "CuPy out of memory: asked 805 MB (768 MiB) on the device; 512 MiB in use; it has 1 GiB in all" + PLACE,
        ),
        (
            "CUDARuntimeError",
            "cudaErrorMemoryAllocation: out of memory",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "CuPy out of memory" + DEVICE,
        ),
        (
            "OutOfMemoryError",
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 14.58 GiB, 1 GiB is free.",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "PyTorch out of memory: asked 2.68 GB (2.5 GiB) on the device; it has 14.6 GiB in all" + PLACE,
        ),
        (
            "OutOfMemoryError",
            (
                "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 14.58 GiB of which 1.00 "
                "GiB is free. Including non-PyTorch memory, this process has 13.50 GiB memory in use."
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            (
                "PyTorch out of memory: asked 2.68 GB (2.5 GiB) on the device; 13.5 GiB in use; it has 14.6 GiB in all"
                + PLACE
            ),
        ),
        (
            "RuntimeError",
            (
                "CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 14.76 GiB total capacity; 13.20 GiB already "
                "allocated; 1.00 GiB free)"
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            (
                "PyTorch out of memory: asked 2.68 GB (2.5 GiB) on the device; 13.2 GiB in use; it has 14.8 GiB in all"
                + PLACE
            ),
        ),
        (
            "RuntimeError",
            (
                "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
                "to allocate 80000000000000 bytes. Error code 12 (Cannot allocate memory)"
            ),
            CauseKind.HOST_OUT_OF_MEMORY,
            "PyTorch out of memory: asked 80 TB (72.8 TiB) on the host" + HOST,
        ),
        (
            "CudaAPIError",
            "[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "Numba out of memory" + DEVICE,
        ),
        (
            "XlaRuntimeError",
            "INTERNAL: Failed to instantiate CUDA graph: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory" + DEVICE,
        ),
        (
            "JaxRuntimeError",
            (
                "INTERNAL: failed to allocate 2.00GiB (2147483648 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of "
                "memory"
            ),
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "XLA out of memory: asked 2.15 GB (2 GiB)" + DEVICE,
        ),
        (
            "MemoryError",
            "std::bad_alloc: out_of_memory: CUDA error at: /rmm/mr/device/cuda_memory_resource.hpp:60: out of memory",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "RMM out of memory" + DEVICE,
        ),
        (
            "ResourceExhaustedError",
            "OOM when allocating tensor with shape[9,9] and type float on /job:localhost/device:GPU:0 by allocator bfc",
            CauseKind.DEVICE_OUT_OF_MEMORY,
            "TensorFlow out of memory" + DEVICE,
        ),
        (
            "ResourceExhaustedError",
            "OOM when allocating tensor with shape[9,9] and type float on /job:localhost/device:CPU:0 by allocator cpu",
            CauseKind.HOST_OUT_OF_MEMORY,
            "TensorFlow out of memory on the host" + HOST,
        ),
    ],
)
def test_libraries_out_of_memory_on_host_and_device(name, value, kind, headline):
    cause = check(raised(name, value), kind, headline)
    assert cause.evidence == (" ".join(f"{name}: {value}".split()), *ROOMY_LINES)
    gpu_advice = ("another process may hold the GPU's memory; nvidia-smi shows which",)
    assert cause.advice == (gpu_advice if kind is CauseKind.DEVICE_OUT_OF_MEMORY else ())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("XlaRuntimeError", "FAILED_PRECONDITION: DNN library initialization failed"),
        ("RuntimeError", "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
        ("RuntimeError", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"),
        ("cupy.cuda.cusolver.CUSOLVERError", "CUSOLVER_STATUS_INTERNAL_ERROR"),
        ("CuFFTError", "CUFFT_ALLOC_FAILED"),
        ("_LinAlgError", "cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR, when calling `cusolverDnCreate(handle)`"),
        (
            "XlaRuntimeError",
            "INTERNAL: jaxlib/gpu/solver_kernels.cc:45: operation gpusolverDnCreate(&handle) failed: cuSolver internal",
        ),
    ],
)
def test_a_gpu_that_cannot_be_set_up_is_a_hint_and_no_claim(name, value):
    cause = check(raised(name, value), CauseKind.DEVICE_NOT_USABLE, f"{name}: {value} (code cell 2, line 9)")
    assert cause.evidence == ()
    assert cause.advice == (
        "another process may hold the GPU's memory; nvidia-smi shows which",
        "the versions of driver, CUDA and cuDNN may not fit together",
    )


@pytest.mark.parametrize("count", [0, 1, 2, 10])
@pytest.mark.parametrize("status", ["INTERNAL", "RESOURCE_EXHAUSTED"])
def test_jax_repeats_a_prefix_for_each_dependent_computation(status, count):
    value = f"{status}: {'Error dispatching computation: ' * count}Out of memory allocating 98765432100 bytes."
    check(
        raised("JaxRuntimeError", value),
        CauseKind.HOST_OUT_OF_MEMORY,
        "XLA out of memory: asked 98.8 GB (92 GiB) on the host" + HOST,
    )
