"""Whether a cell that ran out of time was compiling: from the events of jax.monitoring and from the stack."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.model.evidence import Evidence
from pytest_lecturecheck.units import format_duration

_MOST_FRACTION: Final = 0.5
_MANY_PROGRAMS: Final = 10
_COMPILERS: Final = (
    ("JAX", re.compile(r"jax/_src/compiler\.py:\d+ in (?:_?backend_compile\w*|compile_or_get_cached)")),
    ("Numba", re.compile(r"numba/core/(?:compiler|compiler_machinery|dispatcher|codegen)\.py:\d+ in \w*comp\w*")),
    # Not eval_frame.py, whose compile_wrapper also runs what was compiled before.
    ("PyTorch", re.compile(r"torch/(?:_inductor/compile_fx|_dynamo/convert_frame)\.py:\d+ in \w*compile\w*")),
)
_ADVICE: Final = {
    "JAX": (
        "keep compiled programs from run to run: set JAX_COMPILATION_CACHE_DIR to a folder that stays",
        "compile fewer programs: each new shape or dtype of an argument compiles a function again",
    ),
    "Numba": ("keep compiled functions from run to run: @njit(cache=True)",),
    "PyTorch": ("compile fewer programs: each new shape of an argument may compile a function again",),
}
_ONE_PROGRAM_ADVICE: Final = (
    "a program this large to compile often comes of a Python loop in a jitted function: jax.lax.scan or "
    "jax.lax.fori_loop compiles its body once"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiling:
    """
    What a cell's time went into.

    Attributes:
        text: what it was doing, as a phrase.
        library: whose compiler.
        is_cause: whether compiling took most of the cell's time, or all that is known of it.
    """

    text: str
    library: str
    is_cause: bool


def find_compiling(evidence: Evidence) -> Compiling | None:
    """Return a value if a cell was compiling when it timed out, or had been for most of its time."""
    found = _compiler_on_stack(evidence)
    compilation, wall = evidence.usage.compilation, evidence.usage.wall_seconds or evidence.timeout.limit_seconds or 0.0
    is_open = found == "JAX" or (compilation is not None and compilation.unfinished_seconds > 0)
    if found and found != "JAX":
        return Compiling(text=f"it was compiling ({found}) when stopped", library=found, is_cause=True)
    if compilation is None or not wall > 0:
        return Compiling(text="it was compiling (JAX) when stopped", library="JAX", is_cause=True) if is_open else None
    if compilation.seconds < _MOST_FRACTION * wall:
        # Old versions of JAX do not say when a span begins, so that its length is not known.
        is_unknown = is_open and compilation.unfinished_seconds == 0
        if is_unknown:
            return Compiling(text="it was compiling (JAX) when stopped", library="JAX", is_cause=True)
        return Compiling(text="compiling when stopped", library="JAX", is_cause=False) if is_open else None
    count = compilation.count + is_open
    programs = f"{count} program{'' if count == 1 else 's'}"
    times = f"{format_duration(min(compilation.seconds, wall))} of {format_duration(wall)}"
    still = ", and still compiling when stopped" if is_open else ""
    return Compiling(text=f"it was compiling: {programs}, {times}{still}", library="JAX", is_cause=True)


def _compiler_on_stack(evidence: Evidence) -> str:
    for library, frame in _COMPILERS:
        if any(frame.fullmatch(text) for text in evidence.timeout.stack):
            return library
    return ""


def compiling_advice(evidence: Evidence, compiling: Compiling) -> Iterator[str]:
    """Return advice on how a lecture compiles less."""
    keep, *fewer = _ADVICE[compiling.library]
    yield keep
    compilation = evidence.usage.compilation
    if compiling.library == "JAX" and compilation is not None and compilation.count < _MANY_PROGRAMS:
        yield _ONE_PROGRAM_ADVICE
    else:
        yield from fewer
