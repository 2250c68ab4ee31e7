"""Filter the logs of jupyter_client and nbclient: no errors that are also raised, and no control sequences."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_LOGGER: Final = "traitlets"
"""Name of the logger that jupyter_client uses outside an application."""
_MODULES: Final = frozenset({"launcher", "manager"})
_LOG_CHARS: Final = 1000


@contextmanager
def quiet_failures() -> Iterator[None]:
    """
    Suppress jupyter_client's log of a kernel that could not be started: a traceback and the user's search path.

    The error itself is raised and reported by us. Other records pass, also those of kernels that run meanwhile.
    """
    logger = logging.getLogger(_LOGGER)
    # A new filter for each start: starts overlap, and a logger holds the same filter only once.
    start_filter = _Filter()
    logger.addFilter(start_filter)
    try:
        yield
    finally:
        logger.removeFilter(start_filter)


class HarmlessLog(logging.LoggerAdapter[logging.Logger]):
    """
    A logger that writes each record on one line, without control characters or commands to GitHub's runner.

    nbclient logs unknown messages unchanged, and pytest shows the log of failed lectures.
    """

    def __init__(self) -> None:
        """Use the logger of jupyter_client."""
        super().__init__(logging.getLogger(_LOGGER), {})

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Write one record."""
        if self.isEnabledFor(level):
            text = str(msg) % args if args else str(msg)
            # A traceback would put text of the lecture on separate lines, so only the message is logged.
            super().log(level, "%s", _harmless(text), stacklevel=2, **{**kwargs, "exc_info": None})


def _harmless(text: str) -> str:
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:_LOG_CHARS])
    return shown.replace("##[", "# #[")


class _Filter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record passes."""
        return not _is_raised_too(record)


def _is_raised_too(record: logging.LogRecord) -> bool:
    return "jupyter_client" in record.pathname and record.module in _MODULES and record.levelno >= logging.ERROR
