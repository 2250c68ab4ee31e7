"""
The only module that knows pytest-xdist: what a controller sends to its workers, and what they send while they run.

Everything here works without xdist too: then there are no workers, and nothing is sent.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

_KEY: Final = "lecturecheck"
_CHANNEL_KEY: Final = "lecturecheck_channel"


def is_worker(config: pytest.Config) -> bool:
    """Return True if this process is a worker."""
    return hasattr(config, "workerinput")


def has_workers(config: pytest.Config) -> bool:
    """Return True if this process is a controller whose workers do the collecting."""
    return config.pluginmanager.hasplugin("dsession")


def worker_of(report: pytest.TestReport) -> str:
    """Return the name of the worker that ran a report's item, or an empty string."""
    gateway = getattr(getattr(report, "node", None), "gateway", None)
    return str(getattr(gateway, "id", ""))


def configuration_from_controller(config: pytest.Config) -> Mapping[str, Any]:
    """Return the plain values that the controller put into this worker's input."""
    configuration: dict[str, Any] = json.loads(config.workerinput[_KEY])  # type: ignore[attr-defined]
    return configuration


def worker_identity(config: pytest.Config) -> tuple[str, str]:
    """Return the mark of the test run and the worker's name; both are empty on a controller."""
    given = getattr(config, "workerinput", {})
    return str(given.get("testrunuid", "")), str(given.get("workerid", ""))


def kernel_count(config: pytest.Config) -> int:
    """Return the number of kernels that the session may run at once: one for each worker."""
    given = getattr(config, "workerinput", {}).get("workercount")
    count = given if given is not None else getattr(config.option, "numprocesses", None)
    return max(1, count) if isinstance(count, int) else 1


def progress_sender(config: pytest.Config) -> Callable[[str], None]:
    """Return what sends one text from this worker to the controller at once."""
    channel = config.workerinput[_CHANNEL_KEY]  # type: ignore[attr-defined]

    def send(text: str) -> None:
        # A controller that has gone accepts nothing any more, which must not fail the lecture.
        with contextlib.suppress(OSError):
            channel.send(text)

    return send


class WorkerManager:
    """
    Hooks with which a controller configures its workers and follows them.

    Args:
        configuration: plain values for every worker.
        on_progress: receives the texts that workers send; called on a thread of execnet.
        on_crash: receives the mark of the test run and the name of a worker that went down.
    """

    def __init__(
        self,
        configuration: Mapping[str, Any],
        on_progress: Callable[[str], None],
        on_crash: Callable[[str, str], None],
    ) -> None:
        """Remember what to send."""
        self._configuration = configuration
        self._on_progress = on_progress
        self._on_crash = on_crash
        self._turn = threading.RLock()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send a starting worker its configuration, and open a channel for its progress."""
        channel = node.gateway.newchannel()
        channel.setcallback(self.take_progress)
        node.workerinput[_KEY] = json.dumps(dict(self._configuration))
        node.workerinput[_CHANNEL_KEY] = channel

    def take_progress(self, text: str) -> None:
        """Pass on a worker's progress, but not while pytest writes a line, which it does in pieces."""
        with self._turn:
            self._on_progress(text)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logstart(self) -> Iterator[None]:
        """Keep progress of workers out of the lines that pytest writes."""
        with self._turn:
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self) -> Iterator[None]:
        """Keep progress of workers out of the lines that pytest writes."""
        with self._turn:
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logfinish(self) -> Iterator[None]:
        """Keep progress of workers out of the lines that pytest writes."""
        with self._turn:
            return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Report a worker that did not end by itself."""
        if error:
            self._on_crash(str(node.workerinput.get("testrunuid", "")), str(node.workerinput.get("workerid", "")))
