"""
Note the calls of SuperLU: size, stored entries, zeros among them, ordering, fill.

``splu``, ``spilu``, ``factorized`` and ``spsolve`` of SciPy all end in two functions of one extension module. These are
wrapped, so that a name that the lecture imported before makes no difference.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any

FUNCTIONS = ("gstrf", "gssv")
_ARRAYS = 3
"""Position of the stored entries among the arguments: after the number of rows and the number of entries."""


class SparseWatch:
    """
    Wraps SuperLU's functions once its module has been imported.

    Args:
        shell: IPython's shell, whose tracebacks do not show the wrapper.
    """

    def __init__(self, shell: Any) -> None:
        """Wrap nothing yet."""
        self.shell = shell
        self.largest: dict[str, Any] = {}
        self.failed: dict[str, Any] = {}

    def wrap(self, module: Any) -> None:
        """Wrap the functions of SuperLU's module."""
        for name in FUNCTIONS:
            original = getattr(module, name, None)
            if callable(original):
                setattr(module, name, self._watched(original, name))
        self._hide_wrapper()

    def _watched(self, original: Any, name: str) -> Any:
        @functools.wraps(original)
        def superlu(*args: Any, **kwargs: Any) -> Any:
            result, error = None, ""
            try:
                result = original(*args, **kwargs)
            except BaseException as exc:
                error = type(exc).__name__
                raise
            finally:
                # The agent must never be the reason why a lecture fails.
                with contextlib.suppress(Exception):
                    self._note(name, args, kwargs, result, error)
            return result

        return superlu

    def _note(self, name: str, args: Any, kwargs: Any, result: Any, error: str) -> None:
        stored = int(args[1])
        if not error and self.largest and stored <= self.largest["stored"]:
            return
        count_nonzero = sys.modules["numpy"].count_nonzero
        note = {
            "call": "spsolve" if name == "gssv" else "spilu" if kwargs.get("ilu") else "splu",
            "size": int(args[0]),
            "stored": stored,
            "zeros": stored - int(count_nonzero(args[_ARRAYS - 1][:stored])),
            "ordering": str((kwargs.get("options") or {}).get("ColPerm") or "COLAMD"),
            "error": error,
        }
        if isinstance(fill := getattr(result, "nnz", None), int):
            note["fill"] = fill
        if error:
            self.failed = note
        else:
            self.largest = note

    def _hide_wrapper(self) -> None:
        """Take the wrapper's frame out of the tracebacks that the kernel shows."""
        original = getattr(self.shell, "_get_exc_info", None)
        if original is None:
            return

        def get_exc_info(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            with contextlib.suppress(Exception):
                _drop_frames(found[2], __name__)
            return found

        self.shell._get_exc_info = get_exc_info  # noqa: SLF001 - IPython has no public way

    def take(self) -> list[dict[str, Any]]:
        """Return the notes since the last call: the largest factorisation, and the last that failed."""
        notes = [note for note in (self.largest, self.failed) if note]
        self.largest, self.failed = {}, {}
        return notes


def _drop_frames(traceback: Any, module: str) -> None:
    while traceback is not None:
        following = traceback.tb_next
        while following is not None and following.tb_frame.f_globals.get("__name__") == module:
            following = following.tb_next
        traceback.tb_next = following
        traceback = following
