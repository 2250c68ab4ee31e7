"""
What lies beneath a run below equal package versions: interpreter, BLAS, native libraries, allocator, memory settings.

Names and versions only: no path, no user name and no host name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass


class Fact(StrEnum):
    """The facts of a manifest that are a single text each."""

    PYTHON = "Python"
    PYTHON_BUILD = "Python build"
    PYTHON_ORIGIN = "Python from"
    PROGRAM = "interpreter of the program"
    NUMPY_BLAS = "BLAS that NumPy was built with"
    NUMPY_LAPACK = "LAPACK that NumPy was built with"
    SCIPY_BLAS = "BLAS that SciPy was built with"
    SCIPY_LAPACK = "LAPACK that SciPy was built with"
    LOADED_BLAS = "BLAS libraries loaded"
    LIBC = "C library"
    ALLOCATOR = "allocator"
    PAGE_SIZE = "page size"
    HUGE_PAGES = "transparent huge pages"
    HUGE_PAGE_DEFRAG = "huge page defragmentation"
    OVERCOMMIT = "overcommit"
    ZSWAP = "zswap"
    ZRAM = "zram"
    CPU_FLAGS = "CPU flags"
    CONTAINER = "container"


ENVIRONMENT_FACTS: Final = (
    *(Fact.PYTHON, Fact.PYTHON_BUILD, Fact.PYTHON_ORIGIN, Fact.LIBC),
    *(Fact.NUMPY_BLAS, Fact.NUMPY_LAPACK, Fact.SCIPY_BLAS, Fact.SCIPY_LAPACK),
)
"""Facts of the kernel's environment; the others are the machine's, or follow from the loaded libraries."""

_BLAS_NAMES: Final = ("blas", "mkl_", "lapack", "blis", "atlas", "accelerate", "armpl", "nvpl")
_ALLOCATORS: Final = ("jemalloc", "tcmalloc", "mimalloc", "tbbmalloc")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFacts:
    """
    What a kernel's environment consists of.

    Attributes:
        facts: those of :data:`ENVIRONMENT_FACTS` that are known.
        distributions: version and installer of each installed distribution ("2.1.0 (pip)"), by name.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    distributions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """
    What lies beneath one run. What is absent was not recorded.

    Attributes:
        facts: text of each known :class:`Fact`.
        distributions: version and installer of each distribution of the environment, by name.
        libraries: version of each native library that the kernel had loaded, and what it came with, by name.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    distributions: Mapping[str, str] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)

    def fact(self, fact: Fact) -> str:
        """Return the text of a fact, or an empty string if it was not recorded."""
        return self.facts.get(fact.value, "")


def join_manifest(
    machine: Mapping[str, str], environment: EnvironmentFacts, libraries: Mapping[str, str]
) -> Manifest | None:
    """
    Join what is known of a run's machine, environment and loaded libraries; return ``None`` if nothing is.

    Args:
        machine: facts of the machine, by name.
        environment: what the kernel's environment consists of.
        libraries: the native libraries that the kernel had loaded; empty if they could not be read.
    """
    facts = {**machine, **environment.facts}
    if libraries:
        loaded = [f"{name} {version}".strip() for name, version in sorted(libraries.items()) if _is_blas(name)]
        if loaded:
            facts[Fact.LOADED_BLAS.value] = ", ".join(loaded)
        other = next((name for name in sorted(libraries) if any(word in name.lower() for word in _ALLOCATORS)), "")
        if other or Fact.LIBC.value in facts:
            facts[Fact.ALLOCATOR.value] = other or f"{facts[Fact.LIBC.value]} malloc"
    if not (facts or environment.distributions or libraries):
        return None
    return Manifest(
        facts={fact.value: facts[fact.value] for fact in Fact if facts.get(fact.value)},
        distributions=dict(environment.distributions),
        libraries=dict(libraries),
    )


def _is_blas(name: str) -> bool:
    return any(word in name.lower() for word in _BLAS_NAMES)
