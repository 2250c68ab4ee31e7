"""
The only door to pytest-xdist: what a controller tells its workers, and what they tell it while they run.

Everything here works without xdist too: then there are no workers, and nothing is sent.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

_KEY: Final = "lecturecheck"
_CHANNEL_KEY: Final = "lecturecheck_channel"


def is_worker(config: pytest.Config) -> bool:
    """Tell whether this process is an xdist worker."""
    return hasattr(config, "workerinput")


def has_workers(config: pytest.Config) -> bool:
    """Tell whether this process is a controller whose workers do the collecting."""
    return config.pluginmanager.hasplugin("dsession")


def orders_from_controller(config: pytest.Config) -> Mapping[str, Any]:
    """Give what the controller put into this worker's input; empty on a controller."""
    orders = getattr(config, "workerinput", {}).get(_KEY)
    return json.loads(orders) if isinstance(orders, str) else {}


def worker_identity(config: pytest.Config) -> tuple[str, str]:
    """Give the mark of the test run and the worker's name; both are empty on a controller."""
    given = getattr(config, "workerinput", {})
    return str(given.get("testrunuid", "")), str(given.get("workerid", ""))


def kernel_count(config: pytest.Config) -> int:
    """Give the number of kernels that the session may run at once: one for each worker."""
    given = getattr(config, "workerinput", {}).get("workercount")
    count = given if given is not None else getattr(config.option, "numprocesses", None)
    return max(1, count) if isinstance(count, int) else 1


def progress_sender(config: pytest.Config) -> Callable[[str], None] | None:
    """Give a function that sends one text to the controller at once, or ``None`` on a controller."""
    channel = getattr(config, "workerinput", {}).get(_CHANNEL_KEY)
    if channel is None:
        return None

    def send(text: str) -> None:
        # Progress is a courtesy: a controller that has gone takes nothing any more.
        try:
            channel.send(text)
        except OSError:
            return

    return send


class WorkerHooks:
    """
    Controller-side hooks of xdist.

    Args:
        orders: gives plain values for every worker; called when the first one starts.
        on_progress: takes the texts that workers send; called on a thread of execnet.
        on_crash: is told the mark of the test run and the name of a worker that went down.
    """

    def __init__(
        self,
        orders: Callable[[], Mapping[str, Any]],
        on_progress: Callable[[str], None],
        on_crash: Callable[[str, str], None],
    ) -> None:
        """Remember what to send."""
        self._orders = orders
        self._on_progress = on_progress
        self._on_crash = on_crash
        self._turn = threading.RLock()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Hand a starting worker its orders and a channel for progress."""
        channel = node.gateway.newchannel()
        channel.setcallback(self.take_progress)
        node.workerinput[_KEY] = json.dumps(dict(self._orders()))
        node.workerinput[_CHANNEL_KEY] = channel

    def take_progress(self, text: str) -> None:
        """Take what a worker says; not while pytest writes a line, which it does in pieces."""
        with self._turn:
            self._on_progress(text)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logstart(self) -> Iterator[None]:
        """Let pytest write whole lines."""
        with self._turn:
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self) -> Iterator[None]:
        """Let pytest write whole lines."""
        with self._turn:
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logfinish(self) -> Iterator[None]:
        """Let pytest write whole lines."""
        with self._turn:
            return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Tell of a worker that did not end by itself."""
        if error:
            self._on_crash(str(node.workerinput.get("testrunuid", "")), str(node.workerinput.get("workerid", "")))
