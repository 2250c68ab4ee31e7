"""Find code-cells that name another language than the kernel's: builders use the name only for highlighting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from markdown_it.token import Token

from pytest_lecturecheck.lecture.formats.markdown_source import Fence
from pytest_lecturecheck.model.finding import Finding, FindingKind

_CODE: Final = "{code-cell}"
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
# Prefixes of usual kernel names, for a kernelspec without a language.
_KERNELS: Final = (("python", "python"), ("ir", "r"), ("julia", "julia"), ("octave", "octave"), ("bash", "bash"))


def find_other_languages(metadata: Mapping[str, Any], tokens: list[Token]) -> Iterator[Finding]:
    """
    Yield a finding for each cell whose language is not the kernel's, unless a cell magic passes its text on.

    Args:
        metadata: the notebook metadata; without a kernelspec the default Python kernel is used.
        tokens: the blocks of the page.
    """
    kernel = _kernel_language(metadata.get("kernelspec"))
    if not kernel:
        return
    fences = [token for token in tokens if token.type == "fence" and token.level == 0 and token.map is not None]
    cells = [token for token in fences if token.info.startswith(_CODE)]
    for number, token in enumerate(cells, start=1):
        arguments = token.info.removeprefix(_CODE).split()
        language = _LANGUAGES.get(arguments[0].lower()) if arguments else None
        if language in {None, kernel} or any(line.startswith("%%") for line in token.content.splitlines()):
            continue
        message = (
            f"the cell is marked as {arguments[0]!r} but runs in the lecture's kernel, which executes {kernel!r}; "
            "book builders do the same"
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
