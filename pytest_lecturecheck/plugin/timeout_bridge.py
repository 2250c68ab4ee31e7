"""The bridge to pytest-timeout."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_lecturecheck.model.settings import ItemLimit
from pytest_lecturecheck.plugin.nodes import LectureItem


class TimeoutBridge:
    """
    Applies the limit that pytest-timeout has for a lecture's item to the lecture.

    The timers of pytest-timeout know nothing of kernels: one leaves the kernel running, the other ends the process.
    """

    @staticmethod
    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
        """Take over the limit, so that pytest-timeout sets no timer."""
        if not isinstance(item, LectureItem):
            return None
        item.limit = ItemLimit(seconds=settings.timeout, origin="pytest-timeout")
        return True

    @staticmethod
    @pytest.hookimpl(tryfirst=True, optionalhook=True)
    def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
        """Keep pytest-timeout from cancelling a timer that it has not set."""
        return True if isinstance(item, LectureItem) else None
