"""Describe the environments of kernels, each once in a session: this interpreter directly, another by asking it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.kernel.agent import environment_report
from pytest_lecturecheck.kernel.process.installed import is_running_interpreter, package_folders, resolve_program
from pytest_lecturecheck.model.manifest import ENVIRONMENT_FACTS, EnvironmentFacts
from pytest_lecturecheck.safe_text import one_line

_SECONDS: Final = 20.0
_MOST_DISTRIBUTIONS: Final = 3_000
_MOST_CHARS: Final = 200
_SEARCH_PATH: Final = "PYTHONPATH"
_KNOWN: Final = frozenset(fact.value for fact in ENVIRONMENT_FACTS)


def read_environment(argv: Sequence[str], environment: Mapping[str, str]) -> EnvironmentFacts:
    """
    Return what the environment of a Python kernel consists of; empty if its interpreter does not answer.

    Args:
        argv: the kernel's command, which begins with its interpreter.
        environment: variables that are set for the kernel only.
    """
    if not argv:
        return EnvironmentFacts()
    return _read(resolve_program(argv[0]), environment.get(_SEARCH_PATH, os.environ.get(_SEARCH_PATH, "")))


@functools.cache
def _read(interpreter: str, search_path: str) -> EnvironmentFacts:
    if is_running_interpreter(interpreter):
        folders = package_folders({_SEARCH_PATH: search_path})
        return clean_environment(environment_report.describe_environment(folders))
    source = Path(environment_report.__file__).read_text(encoding="utf-8")
    environ = {name: value for name, value in os.environ.items() if name != _SEARCH_PATH}
    try:
        answer = subprocess.run(  # noqa: S603 - the interpreter of an installed kernelspec, and a file of ours
            [interpreter, "-c", source],
            env={**environ, **({_SEARCH_PATH: search_path} if search_path else {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=True,
        )
        return clean_environment(json.loads(answer.stdout))
    except (OSError, ValueError, RecursionError, subprocess.SubprocessError):
        return EnvironmentFacts()


def clean_environment(sent: Any) -> EnvironmentFacts:
    """Return what has the expected shape; names and versions of packages are not trusted."""
    plain = sent if isinstance(sent, dict) else {}
    facts = {name: text for name, text in _texts(plain.get("facts")).items() if name in _KNOWN}
    return EnvironmentFacts(facts=facts, distributions=_texts(plain.get("distributions")))


def _texts(sent: Any) -> dict[str, str]:
    pairs = sent.items() if isinstance(sent, dict) else ()
    kept = (
        (one_line(name)[:_MOST_CHARS], one_line(text)[:_MOST_CHARS])
        for name, text in pairs
        if isinstance(name, str) and isinstance(text, str)
    )
    return dict(islice(kept, _MOST_DISTRIBUTIONS))
