"""
Call a function of the agent in a silent request and read its answer from a file.

Names, prompt numbers and outputs of the lecture do not change. The module is compiled in the kernel once, so that later
calls leave nothing behind.
"""

from __future__ import annotations

import functools
import json
import marshal
from pathlib import Path
from typing import Any, Final

from pytest_lecturecheck.files import open_plain
from pytest_lecturecheck.kernel.run.agent_source import agent_source
from pytest_lecturecheck.kernel.run.kernel_session import KernelSession

SHELL: Final = "shell"
STATE: Final = "state"
"""A dictionary that the agent's modules keep between calls."""
_ANSWER_FILE: Final = "silent-answer"
_ANSWER_BYTES: Final = 1 << 18
_ERROR_CHARS: Final = 300
_CALL: Final = """
if name not in state:
    with open(path, "rb") as file:
        code = file.read()
    if is_compiled:
        import marshal
        code = marshal.loads(code)
    else:
        code = compile(code, f"<lecturecheck {name}>", "exec", dont_inherit=True)
    state[name] = {"__name__": f"lecturecheck_{name}"}
    exec(code, state[name])
"""


async def call_silently(
    session: KernelSession, name: str, function: str, *arguments: str, seconds: float
) -> dict[str, Any]:
    """
    Call a function of a module of the agent; its first argument is the file for its answer.

    Args:
        session: the kernel, on this machine.
        name: the module.
        function: the function.
        arguments: further arguments, as Python's text; :data:`SHELL` and :data:`STATE` are given as they are.
        seconds: time for the answer.

    Returns:
        The answer: ``state``, ``text`` and what the function adds; ``state`` is empty where there is no answer, and
        ``text`` says why.
    """
    folder = Path(session.kernel.folder)
    answer = folder / _ANSWER_FILE
    answer.unlink(missing_ok=True)
    # Compiling in the kernel would raise its memory by more than a megabyte.
    is_compiled = session.has_own_interpreter
    source = folder / f"{name}.{'code' if is_compiled else 'py'}"
    source.write_bytes(_compiled(name) if is_compiled else agent_source(name).encode())
    call = f"{_CALL}state[name][{function!r}]({', '.join((repr(str(answer)), *arguments))})"
    shell = "get_ipython()"
    state = f"vars({shell}.kernel).setdefault('lecturecheck_modules', {{}})"
    given = (
        f"{{'name': {name!r}, 'path': {str(source)!r}, 'is_compiled': {is_compiled}, 'shell': {shell}, "
        f"'state': {state}}}"
    )
    reply = await session.ask(f"exec({call!r}, {given})", seconds)
    if reply is None:
        return {"state": "", "text": f"the kernel did not answer within {seconds:g} s"}
    return _read_answer(answer)


@functools.cache
def _compiled(name: str) -> bytes:
    """Return a module of the agent for kernels of this interpreter."""
    return marshal.dumps(compile(agent_source(name), f"<lecturecheck {name}>", "exec", dont_inherit=True))


def _read_answer(path: Path) -> dict[str, Any]:
    try:
        # The kernel wrote it: a link or a pipe in its place is not followed or waited for.
        with open_plain(path, most_bytes=None, follow_links=False) as file:
            answer: Any = json.loads(file.read(_ANSWER_BYTES))
        return {**answer, "state": str(answer["state"]), "text": str(answer["text"])[:_ERROR_CHARS]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {"state": "", "text": "the kernel left no answer"}
