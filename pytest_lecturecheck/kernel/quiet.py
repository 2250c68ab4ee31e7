"""Keeps jupyter_client from logging what it also raises."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_LOGGER: Final = "traitlets"
"""Where jupyter_client logs to outside an application."""
_MODULES: Final = frozenset({"launcher", "manager"})


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


class _Filter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the record passes."""
        return not _is_told_otherwise(record)


def _is_told_otherwise(record: logging.LogRecord) -> bool:
    return "jupyter_client" in record.pathname and record.module in _MODULES and record.levelno >= logging.ERROR
