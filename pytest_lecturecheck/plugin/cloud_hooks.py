"""Watch for notices of interruption while a session lasts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_lecturecheck.session.cloud_notices import Cloud, NoticeWatch


class CloudHooks:
    """
    Reports the notice with which a cloud takes its machine back; the session goes on as long as the machine does.

    Args:
        cloud: the cloud of this machine.
        report: receives the notice, on a thread of its own.
    """

    def __init__(self, cloud: Cloud, report: Callable[[str], None]) -> None:
        """Ask nothing yet."""
        self._watch = NoticeWatch(cloud, report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Begin to ask."""
        self._watch.start()

    def pytest_unconfigure(self) -> None:
        """Stop asking."""
        self._watch.stop()
