"""Code-cells that name another language than that of the lecture's kernel: a builder takes the name for a colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from markdown_it.token import Token

from pytest_lecturecheck.lecture.formats.markdown_source import Fence
from pytest_lecturecheck.model.finding import Finding, FindingKind

_CODE: Final = "{code-cell}"
# Names of lexers, by the language that they colour. Others ("none", "text", "output") say nothing about it.
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
# Kernels by the beginnings of their usual names, where the kernelspec does not say its language.
_KERNELS: Final = (("python", "python"), ("ir", "r"), ("julia", "julia"), ("octave", "octave"), ("bash", "bash"))


def find_other_languages(metadata: Mapping[str, Any], tokens: list[Token]) -> Iterator[Finding]:
    """
    Tell of cells whose language is not the kernel's; those that begin with a cell magic hand their text on themselves.

    Args:
        metadata: the notebook metadata; without a kernelspec the default Python kernel is used.
        tokens: the page.
    """
    kernel = _kernel_language(metadata.get("kernelspec"))
    if not kernel:
        return
    fences = [token for token in tokens if token.type == "fence" and token.level == 0 and token.map is not None]
    cells = [token for token in fences if token.info.startswith(_CODE)]
    for number, token in enumerate(cells, start=1):
        words = token.info.removeprefix(_CODE).split()
        language = _LANGUAGES.get(words[0].lower()) if words else None
        if language in {None, kernel} or any(line.startswith("%%") for line in token.content.splitlines()):
            continue
        message = (
            f"the cell names the language {words[0]!r}, and the lecture's kernel runs {kernel!r}: it is given to that "
            "kernel as it stands, here and in a book"
        )
        line = Fence.of(token).line
        yield Finding(kind=FindingKind.FORMAT, message=message, cell_number=number, line=line)


def _kernel_language(spec: object) -> str:
    if not isinstance(spec, dict):
        return "python"
    language, name = spec.get("language"), spec.get("name")
    if isinstance(language, str) and language.strip():
        return _LANGUAGES.get(language.strip().lower(), "")
    lowered = name.strip().lower() if isinstance(name, str) else ""
    return next((language for start, language in _KERNELS if lowered.startswith(start)), "")
