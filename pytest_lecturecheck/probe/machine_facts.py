"""
Read how a machine hands out memory: page size, huge pages, overcommit, compression, processor features, container.

Linux is read from ``/proc``, ``/sys`` and ``/run`` below a root folder that can be set. Of other systems only the page
size is known. The names of facts are those of :class:`~pytest_lecturecheck.model.manifest.Fact`.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import sys
from pathlib import Path
from typing import Final

from pytest_lecturecheck.model.manifest import Fact
from pytest_lecturecheck.probe.memory_limits import read_text
from pytest_lecturecheck.probe.procfs import parse_bracketed_choice
from pytest_lecturecheck.units import format_size

_ROOT: Final = Path("/")
_FLAGS: Final = (
    *("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_vnni", "amx_tile"),
    *("asimd", "asimdhp", "sve", "sve2", "bf16"),
)
"""Features that numerical libraries choose their kernels by: they change rounding, time, and sizes of buffers."""
IMAGE_VARIABLE: Final = "LECTURECHECK_IMAGE"
"""States the image of a container that cannot see it: name, tag, and digest."""
_STATED_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_IMAGE_ID: Final = re.compile(r'^imageid="(?P<id>[0-9a-f:sha]{12,80})"', re.MULTILINE)


def read_machine_facts() -> dict[str, str]:
    """Return what is known of this machine."""
    facts = {Fact.PAGE_SIZE.value: format_size(mmap.PAGESIZE)}
    if sys.platform == "linux":
        facts.update(read_linux_machine_facts(_ROOT))
    return facts


def read_linux_machine_facts(root: Path) -> dict[str, str]:
    """
    Return what is known of the Linux machine whose ``proc``, ``sys`` and ``run`` lie below ``root``.

    Args:
        root: ``/``, or a recorded tree.
    """
    huge = root / "sys" / "kernel" / "mm" / "transparent_hugepage"
    facts = {
        Fact.HUGE_PAGES: parse_bracketed_choice(read_text(huge / "enabled") or ""),
        Fact.HUGE_PAGE_DEFRAG: parse_bracketed_choice(read_text(huge / "defrag") or ""),
        Fact.OVERCOMMIT: _overcommit(root / "proc" / "sys" / "vm"),
        Fact.ZSWAP: _zswap(root / "sys" / "module" / "zswap" / "parameters"),
        Fact.ZRAM: _zram(read_text(root / "proc" / "swaps")),
        Fact.CPU_FLAGS: _cpu_flags(read_text(root / "proc" / "cpuinfo") or ""),
        Fact.CONTAINER: _container(root),
    }
    return {fact.value: text for fact, text in facts.items() if text}


def _overcommit(folder: Path) -> str:
    mode = (read_text(folder / "overcommit_memory") or "").strip()
    names = {"0": "0 (heuristic)", "1": "1 (always)", "2": "2 (never)"}
    ratio = (read_text(folder / "overcommit_ratio") or "").strip()
    return f"{names[mode]}, ratio {ratio}" if mode == "2" and ratio else names.get(mode, "")


def _zswap(folder: Path) -> str:
    enabled = (read_text(folder / "enabled") or "").strip()
    if not enabled:
        return ""
    return f"on ({(read_text(folder / 'compressor') or '').strip()})" if enabled == "Y" else "off"


def _zram(swaps: str | None) -> str:
    if swaps is None:
        return ""
    sizes = [
        int(line.split()[2]) * 1024
        for line in swaps.splitlines()[1:]
        if re.match(r"/dev/zram[0-9]+\s+\S+\s+[0-9]", line)
    ]
    return f"swap of {format_size(sum(sizes))}" if sizes else "none"


def _cpu_flags(text: str) -> str:
    match = re.search(r"^(?:flags|Features)\s*:(?P<flags>.*)$", text, re.MULTILINE)
    if match is None:
        return ""
    found = frozenset(match["flags"].split())
    return " ".join(flag for flag in _FLAGS if flag in found) or "none of those that matter"


def _container(root: Path) -> str:
    stated = os.environ.get(IMAGE_VARIABLE, "")
    image = f"image {stated} (stated)" if _STATED_IMAGE.fullmatch(stated) else ""
    podman = read_text(root / "run" / ".containerenv")
    if podman is not None:
        match = _IMAGE_ID.search(podman)
        seen = f"image {match['id'][:19]}" if match is not None else "image unknown"
        return f"Podman, {image or seen}"
    if (root / ".dockerenv").exists():
        return f"Docker, {image}" if image else "Docker; its image cannot be seen from inside"
    if (root / ".singularity.d").is_dir():
        image = image or _apptainer_image(read_text(root / ".singularity.d" / "labels.json") or "")
        return f"Apptainer, {image}" if image else "Apptainer; its image cannot be seen from inside"
    return f"not seen, {image}" if image else "none seen"


def _apptainer_image(text: str) -> str:
    """Return what an Apptainer image was built from ("built from python@sha256:..."), where its labels say so."""
    try:
        found = json.loads(text).get("org.label-schema.usage.singularity.deffile.from")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return f"built from {found}" if isinstance(found, str) and _STATED_IMAGE.fullmatch(found) else ""
