"""Find out, without loading a library, whether this machine may have an NVIDIA GPU, and open it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pytest_lecturecheck.probe.gpu._readings import Cards, Failure

_LINUX_LIBRARY: Final = "libnvidia-ml.so.1"
_LINUX_FOLDERS: Final = (
    "usr/lib",
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/wsl/lib",
    "usr/local/nvidia/lib64",
    "usr/local/nvidia/lib",
    "run/opengl-driver/lib",
)
NO_GPU: Final = Failure(reason="no NVIDIA GPU: there is neither a device nor the driver's library")
_NONE_LISTED: Final = Failure(reason="the NVIDIA driver lists no GPU")


def has_device(root: Path, environ: Mapping[str, str]) -> bool:
    """Return True if the driver has created devices."""
    if sys.platform == "win32":
        # On Windows the library is installed with the driver, and the driver with a card.
        return _has_library(root, environ)
    else:  # noqa: RET505 - type checkers treat code after it as unreachable
        signs = ("dev/nvidiactl", "dev/nvidia0", "proc/driver/nvidia")
        return any((root / sign).exists() for sign in signs)


def _has_library(root: Path, environ: Mapping[str, str]) -> bool:
    return any(path.exists() for path in _libraries(root, environ))


def _libraries(root: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the paths that the loader would search; calling the loader would take longer than everything else."""
    if sys.platform == "win32":
        yield Path(environ.get("WINDIR", "C:/Windows"), "System32", "nvml.dll")
        yield Path(environ.get("ProgramFiles", "C:/Program Files"), "NVIDIA Corporation", "NVSMI", "nvml.dll")
    else:
        for folder in environ.get("LD_LIBRARY_PATH", "").split(":"):
            if folder:
                yield Path(folder, _LINUX_LIBRARY)
        for folder in _LINUX_FOLDERS:
            yield root / folder / _LINUX_LIBRARY


def open_present_cards(root: Path, environ: Mapping[str, str]) -> Cards | Failure:
    """Open the GPUs of this machine; pynvml is imported only where a device or the library exists."""
    if not has_device(root, environ) and not _has_library(root, environ):
        return NO_GPU
    from pytest_lecturecheck.probe.gpu._nvml import open_cards  # noqa: PLC0415 - only where there is a GPU

    cards = open_cards()
    if isinstance(cards, Failure) or cards.devices:
        return cards
    cards.close()
    return _NONE_LISTED
