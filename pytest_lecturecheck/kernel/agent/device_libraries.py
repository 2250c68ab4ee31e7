"""
Ask GPU libraries for the memory of their allocators, and XLA for the plans of its programs, inside the kernel.

Standard library only. Libraries are looked up in ``sys.modules``; nothing here imports one or initialises a backend.
"""

from __future__ import annotations

import re
import sys
from typing import Any


def largest_plan(seen: set[Any]) -> dict[str, Any] | None:
    """
    Return XLA's plan of the compiled program that needs most memory, of those that are not in ``seen``; add them to it.

    JAX ``LoadedExecutable.get_compiled_memory_stats``; see ``jax.stages.Compiled.memory_analysis``.
    """
    backends = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None)
    best, most = None, -1
    for client in list(backends.values()) if isinstance(backends, dict) else []:
        for program in client.live_executables():
            key = getattr(program, "fingerprint", None) or id(program)
            if key in seen:
                continue
            seen.add(key)
            stats = program.get_compiled_memory_stats()
            sizes = {
                "argument_bytes": stats.argument_size_in_bytes,
                "output_bytes": stats.output_size_in_bytes,
                "alias_bytes": stats.alias_size_in_bytes,
                "temporary_bytes": stats.temp_size_in_bytes,
                "code_bytes": stats.generated_code_size_in_bytes,
            }
            total = sum(sizes.values()) - 2 * sizes["alias_bytes"]
            if total > most:
                best, most = (program, client.platform, sizes), total
    if best is None:
        return None
    program, platform, sizes = best
    modules = program.hlo_modules()
    return {"program": str(modules[0].name) if modules else "", "platform": platform, "total_bytes": most, **sizes}


def ask_jax() -> list[dict[str, Any]]:
    """Read the allocators of the backends that JAX has initialised; CPU devices have no statistics."""
    backends = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None)
    found = []
    for client in list(backends.values()) if isinstance(backends, dict) else []:
        for device in client.local_devices():
            stats = device.memory_stats()
            if not stats or "bytes_in_use" not in stats:
                continue
            live, pool = stats["bytes_in_use"], stats.get("pool_bytes")
            largest = stats.get("largest_free_block_bytes")
            if not largest and (pool is None or pool > live):
                # Backends without this statistic report 0, which is wrong while there is free memory.
                largest = None
            found.append(
                {
                    "device": _jax_name(device),
                    "live_bytes": live,
                    "peak_live_bytes": stats.get("peak_bytes_in_use"),
                    "pool_bytes": pool,
                    "peak_pool_bytes": stats.get("peak_pool_bytes"),
                    "limit_bytes": stats.get("bytes_limit"),
                    "largest_free_block_bytes": largest,
                }
            )
    return found


def _jax_name(device: Any) -> str:
    name = str(device)
    return name if re.fullmatch(r"[a-z]+:\d+", name) else f"{device.platform}:{device.id}"


def ask_torch() -> list[dict[str, Any]]:
    """Read PyTorch's caching allocator if the lecture has initialised CUDA."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return []
    found = []
    for index in range(cuda.device_count()):
        peak_pool = cuda.max_memory_reserved(index)
        if not peak_pool:
            continue
        usage = {
            "device": f"cuda:{index}",
            "live_bytes": cuda.memory_allocated(index),
            "peak_live_bytes": cuda.max_memory_allocated(index),
            "pool_bytes": cuda.memory_reserved(index),
            "peak_pool_bytes": peak_pool,
        }
        fraction = getattr(cuda, "get_per_process_memory_fraction", None)
        if fraction is not None:
            usage["limit_bytes"] = int(fraction(index) * cuda.get_device_properties(index).total_memory)
        found.append(usage)
    return found


def ask_cupy() -> list[dict[str, Any]]:
    """Read CuPy's default pool on the current device; switching devices would create a context there."""
    cupy = sys.modules.get("cupy")
    get_pool = getattr(cupy, "get_default_memory_pool", None)
    if cupy is None or get_pool is None:
        return []
    pool = get_pool()
    total = pool.total_bytes()
    if not total:
        return []
    return [
        {
            "device": f"cuda:{cupy.cuda.runtime.getDevice()}",
            "live_bytes": pool.used_bytes(),
            "pool_bytes": total,
            "limit_bytes": pool.get_limit() or None,
        }
    ]


LIBRARIES = (("JAX", ask_jax), ("PyTorch", ask_torch), ("CuPy", ask_cupy))
