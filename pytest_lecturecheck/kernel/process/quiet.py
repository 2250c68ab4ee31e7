"""What jupyter_client and nbclient log: nothing that is also raised, and the words of lectures harmless."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_LOGGER: Final = "traitlets"
"""Where jupyter_client logs to outside an application."""
_MODULES: Final = frozenset({"launcher", "manager"})
_LOG_CHARS: Final = 1000


@contextmanager
def quiet_failures() -> Iterator[None]:
    """
    Drop jupyter_client's log of a kernel that could not be started: a traceback, and the user's search path.

    The error itself is raised, and told in our own words. Other records pass, also those of kernels that run meanwhile.
    """
    logger = logging.getLogger(_LOGGER)
    # One of its own for each start: they overlap, and a logger takes the same one only once.
    one = _Filter()
    logger.addFilter(one)
    try:
        yield
    finally:
        logger.removeFilter(one)


class HarmlessLog(logging.LoggerAdapter[logging.Logger]):
    """
    A log on one line for each record, without control characters or commands to GitHub's runner.

    nbclient logs messages of a kind that it does not know as they come; pytest shows that of failed lectures.
    """

    def __init__(self) -> None:
        """Write to where jupyter_client does."""
        super().__init__(logging.getLogger(_LOGGER), {})

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Write one record."""
        if self.isEnabledFor(level):
            text = str(msg) % args if args else str(msg)
            # A traceback has the lecture's words in lines of its own; what is said of the error has to do.
            super().log(level, "%s", _harmless(text), stacklevel=2, **{**kwargs, "exc_info": None})


def _harmless(text: str) -> str:
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:_LOG_CHARS])
    return shown.replace("##[", "# #[")


class _Filter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the record passes."""
        return not _is_told_otherwise(record)


def _is_told_otherwise(record: logging.LogRecord) -> bool:
    return "jupyter_client" in record.pathname and record.module in _MODULES and record.levelno >= logging.ERROR
