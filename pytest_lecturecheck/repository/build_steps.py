"""Find the builds of books in steps of workflows, and how their exit status can get lost. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pytest_lecturecheck.deferred_dataclass import dataclass
from pytest_lecturecheck.repository.workflow_file import Step

_BUILD: Final = re.compile(
    r"\b(?:(?P<jb>(?:jb|jupyter-book)\s+build)|(?P<sphinx>sphinx-build|make\s+html)|(?P<myst>myst\s+build)"
    r"|(?P<other>quarto\s+render|jupyter\s+(?:nbconvert|execute)|nbconvert))\b"
)
_TOJUPYTER: Final = re.compile(r"--custom-builder[= ]\s*jupyter\b|-b\s+jupyter\b|--builder[= ]\s*jupyter\b")
_STRICT: Final = re.compile(r"(?:^|\s)(?:-[a-zA-Z]*W[a-zA-Z]*|--warningiserror|--fail-on-warning)(?=\s|$)")
_GATE: Final = re.compile(r"--lecture-budget\b")
_SET: Final = re.compile(r"(?:^|[;&\s])set\s+(?P<sign>[-+])(?P<flags>[a-z]+)(?P<rest>(?:\s+-o)?\s+pipefail)?")
_SEPARATOR: Final = re.compile(r"\s*(?:[;>]|&&|\|)")
_HEREDOC: Final = re.compile(r"<<-?\s*['\"]?(?P<mark>\w+)['\"]?")
_MASK: Final = re.compile(r"\|\|\s*(?:true|:|echo|exit\s+0)\b|&\s*$")
_OTHER_SHELLS: Final = frozenset({"pwsh", "powershell", "cmd", "python"})
"""Shells whose rules are not known here."""
BUILD_ACTION: Final = "quantecon/actions/build-lectures"
GATE_ACTION: Final = "/lecture-budget@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """
    One build of a book.

    Attributes:
        line: line of the command in the workflow.
        command: the command as it stands there.
        program: ``jb``, ``sphinx``, ``myst`` or ``other``.
        is_tojupyter: it uses the builder of sphinx-tojupyter.
        lost: why its exit status cannot fail the step, with the line that mends it; or ``None``.
    """

    line: int
    command: str
    program: str
    is_tojupyter: bool
    lost: tuple[str, str] | None

    @property
    def is_strict(self) -> bool:
        """Return True if a failed notebook, which is a warning, makes the program fail."""
        if self.program == "myst":
            return "--strict" in self.command
        return self.program == "other" or _STRICT.search(self.command) is not None


def is_gate(step: Step) -> bool:
    """Return True if a step checks lectures with this package."""
    return GATE_ACTION in step.uses or _GATE.search(step.script) is not None


def find_builds(step: Step) -> Iterator[Build]:
    """Yield the builds of a step, in order."""
    if BUILD_ACTION in step.uses.lower():
        arguments = step.inputs.get("extra-args", "-W --keep-going")
        yield Build(
            line=step.lines.get("uses", step.line),
            command=arguments,
            program="jb",
            is_tojupyter=step.inputs.get("builder", "html") == "jupyter",
            lost=_ignored(step),
        )
        return
    rows = list(_logical_rows(step.script))
    for position, (offset, text) in enumerate(rows):
        found = _BUILD.search(text)
        if found is None or found.lastgroup is None:
            continue
        if found.lastgroup == "myst" and "--execute" not in text:
            continue
        if found.lastgroup == "other" and "nbconvert" in found.group() and "--execute" not in text:
            continue
        yield Build(
            line=step.script_line + offset,
            command=_SEPARATOR.split(text[found.start() :], maxsplit=1)[0],
            program=found.lastgroup,
            is_tojupyter=_TOJUPYTER.search(text) is not None,
            lost=_ignored(step) or _lost(step, rows, position, found.start()),
        )


def _ignored(step: Step) -> tuple[str, str] | None:
    if step.continues:
        return "the step has `continue-on-error: true`", "continue-on-error: false"
    return None


def _lost(step: Step, rows: list[tuple[int, str]], position: int, start: int) -> tuple[str, str] | None:
    """Return why the status of a command is not that of its step."""
    if step.shell.split(" ")[0] in _OTHER_SHELLS:
        return None
    text, before = rows[position][1], [row for _offset, row in rows[:position]]
    rest = text[start:]
    if re.match(r"\s*(?:if|while|until|!)\b", text):
        return None
    if masked := _MASK.search(rest):
        return f"`{masked.group().strip()}` after it hides that", rest[: masked.start()].strip()
    stops, pipefail = _state(step.shell, [*before, text[:start]])
    if re.search(r"(?<!\|)\|(?!\|)", rest) and not pipefail:
        return "it is piped into another command, whose status counts, because pipefail is not set", "set -eo pipefail"
    after = [row for _offset, row in rows[position + 1 :]]
    if stops or not after or any("$?" in row for row in after[:2]) or "&&" in rest:
        return None
    name = step.shell or "the shell"
    return (
        f"`{name}` goes on after a command that fails, and the last one decides (`{after[-1].strip()}`)",
        "set -eo pipefail",
    )


def _state(shell: str, rows: list[str]) -> tuple[bool, bool]:
    """Return whether the shell stops at errors, and whether pipes fail, after some rows; see GitHub's docs of shell."""
    if shell in {"", "sh"}:
        stops, pipefail = True, False
    elif shell == "bash":
        stops, pipefail = True, True
    else:
        stops = re.search(r"\s-[a-z]*e[a-z]*\b", shell) is not None
        pipefail = "pipefail" in shell
    for row in rows:
        for found in _SET.finditer(row):
            on = found["sign"] == "-"
            stops = on if "e" in found["flags"] else stops
            pipefail = on if found["rest"] else pipefail
    return stops, pipefail


def _logical_rows(script: str) -> Iterator[tuple[int, str]]:
    """Yield the rows of a script with their offset: continued ones joined, without comments and here-documents."""
    rows = script.split("\n")
    index = 0
    while index < len(rows):
        offset, text = index, rows[index]
        while text.endswith("\\") and index + 1 < len(rows):
            index += 1
            text = f"{text[:-1]} {rows[index].strip()}"
        index += 1
        plain = "" if text.lstrip().startswith("#") else re.sub(r"\s#.*$", "", text)
        if plain.strip():
            yield offset, plain
        if heredoc := _HEREDOC.search(plain):
            while index < len(rows) and rows[index].strip() != heredoc["mark"]:
                index += 1
            index += 1
