"""Record what lies beneath one run: once for each environment, and for the libraries a few times in a run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.kernel.process.environment_facts import read_environment
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession
from pytest_lecturecheck.model.finding import Finding, FindingKind
from pytest_lecturecheck.model.manifest import EnvironmentFacts, Fact, Manifest, join_manifest
from pytest_lecturecheck.model.platform import Software

_FIRST_LOOK_SECONDS: Final = 2.0
_VERSION: Final = re.compile(r"(?P<minor>[0-9]+\.[0-9]+)(?:\.[0-9]+)?\S*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSources:
    """
    What a manifest is read from on this machine.

    Attributes:
        read_machine: returns facts of the machine, by name.
        read_libraries: returns the native libraries of a process with their versions; empty if they cannot be read.
    """

    read_machine: Callable[[], Mapping[str, str]] = dict
    read_libraries: Callable[[int], Mapping[str, str]] = lambda _pid: {}


class ManifestLog:
    """
    Collects the manifest of one run.

    Args:
        sources: reads the machine and its processes.
        environment: variables that are set for the kernel only.
    """

    def __init__(self, sources: ManifestSources, environment: Mapping[str, str]) -> None:
        """Read nothing yet."""
        self._sources = sources
        self._environment = environment
        self._libraries: Mapping[str, str] = {}
        self._next_look_seconds = _FIRST_LOOK_SECONDS

    def look(self, session: KernelSession | None, elapsed_seconds: float) -> None:
        """
        Read the loaded libraries of a kernel that may die before its end.

        Each look comes at twice the time of the one before, so that a long run takes a few only.
        """
        if session is not None and elapsed_seconds >= self._next_look_seconds:
            self._next_look_seconds = 2 * elapsed_seconds
            self._read_libraries(session)

    def _read_libraries(self, session: KernelSession) -> None:
        if not session.has_ended and session.kernel.location.is_here:
            self._libraries = self._sources.read_libraries(session.kernel.pid) or self._libraries

    def note_end(self, session: KernelSession) -> None:
        """Read the loaded libraries at the end of the cells; those of a dead kernel stay as they were read last."""
        self._read_libraries(session)

    async def manifest(self, session: KernelSession | None) -> Manifest | None:
        """Return the manifest; its environment is described on another thread, once in a session."""
        environment = EnvironmentFacts()
        if session is not None and session.kernel.language == "python":
            argv = list(session.kernel.provisioner.kernel_spec.argv)
            environment = await asyncio.to_thread(read_environment, argv, self._environment)
        return join_manifest(self._sources.read_machine(), environment, self._libraries)


def with_blas(software: Software, manifest: Manifest) -> Software:
    """Name the BLAS libraries of a kernel whose environment has no threadpoolctl to report them."""
    if software.blas or "numpy" not in software.packages:
        return software
    rows = ((Fact.NUMPY_BLAS, "numpy"), (Fact.SCIPY_BLAS, "scipy"))
    built = [f"{text} in {name}" for fact, name in rows if name in software.packages and (text := manifest.fact(fact))]
    loaded = manifest.fact(Fact.LOADED_BLAS)
    return replace(software, blas=(*built, *((f"loaded: {loaded}",) if loaded else ())))


def python_finding(metadata: Mapping[str, Any], manifest: Manifest | None) -> Finding | None:
    """Return a finding if a notebook was last run with another minor version of Python than the kernel's."""
    info = metadata.get("language_info")
    written = info.get("version") if isinstance(info, Mapping) and info.get("name") == "python" else None
    then = _VERSION.fullmatch(written) if isinstance(written, str) else None
    now = _VERSION.search(manifest.fact(Fact.PYTHON)) if manifest is not None else None
    if then is None or now is None or then["minor"] == now["minor"]:
        return None
    message = f"written with Python {then['minor']}, run with {now['minor']}"
    return Finding(kind=FindingKind.PYTHON, message=message)
