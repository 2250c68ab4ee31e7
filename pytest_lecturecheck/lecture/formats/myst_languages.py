"""Find code-cells that name another language than the kernel's: builders use the name only for highlighting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_lecturecheck.lecture.formats.kernelspec import language_of_kernel
from pytest_lecturecheck.lecture.formats.markdown_source import Fence
from pytest_lecturecheck.model.finding import Finding, FindingKind

# Lexer names by the language they highlight; others ("none", "text", "output") imply no language.
_LEXERS: Final = {
    "python": ("python", "python2", "python3", "ipython", "ipython2", "ipython3", "py", "py3"),
    "julia": ("julia", "jl"),
    "r": ("r", "rlang", "splus"),
    "octave": ("octave", "matlab"),
    "bash": ("bash", "sh", "zsh", "ksh", "shell", "shell-session", "console"),
    "javascript": ("javascript", "js", "node"),
    "sql": ("sql",),
    "stata": ("stata",),
    "ruby": ("ruby", "rb"),
    "rust": ("rust", "rs"),
    "scala": ("scala",),
    "c++": ("c++", "cpp"),
}
_LANGUAGES: Final = {lexer: language for language, lexers in _LEXERS.items() for lexer in lexers}


def find_other_languages(metadata: Mapping[str, Any], fences: Sequence[Fence]) -> Iterator[Finding]:
    """
    Yield a finding for each language other than the kernel's that cells name, unless a cell magic passes their text on.

    Args:
        metadata: the notebook metadata; without a kernelspec the default Python kernel is used.
        fences: the fences of the code cells, in order.
    """
    kernel = _kernel_language(metadata.get("kernelspec"))
    if not kernel:
        return
    found: dict[str, list[tuple[int, int]]] = {}
    for number, fence in enumerate(fences, start=1):
        arguments = fence.info.partition("}")[2].split() if fence.directive == "code-cell" else []
        language = _LANGUAGES.get(arguments[0].lower()) if arguments else None
        if language in {None, kernel} or any(line.startswith("%%") for line in fence.content.splitlines()):
            continue
        found.setdefault(arguments[0], []).append((number, fence.line))
    for argument, cells in found.items():
        number, line = cells[0]
        which = "the cell is" if len(cells) == 1 else f"{len(cells)} cells (first at line {line}) are"
        verb = "runs" if len(cells) == 1 else "run"
        message = (
            f"{which} marked as {argument!r} but {verb} in the lecture's kernel, which executes {kernel!r}; "
            "book builders do the same"
        )
        yield Finding(kind=FindingKind.FORMAT, message=message, cell_number=number, line=line)


def _kernel_language(spec: object) -> str:
    if not isinstance(spec, dict):
        return "python"
    language, name = spec.get("language"), spec.get("name")
    if isinstance(language, str) and language.strip():
        return _LANGUAGES.get(language.strip().lower(), "")
    return language_of_kernel(name) if isinstance(name, str) else ""
