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
_STOP: Final = "stop"
"""The only text that a controller sends to a worker: end as after Ctrl-C."""
_ENDED: Final = "ended"
"""The last text of a worker: its kernels are gone, and all its entries are sent."""
_STOP_SECONDS: Final = 2.0
"""Time for workers to stop their kernels, before the controller writes what it has."""
_EXIT_SECONDS: Final = 1
"""Time for workers to exit after that; pytest-xdist gives them ten seconds."""


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


class WorkerStop:
    """
    Hooks of a worker that stop it when the controller is interrupted or has ended, and report its end.

    execnet interrupts a worker only five seconds after its controller has ended, which was killed then.

    Args:
        config: the worker's configuration.
        interrupt: interrupts the main thread as Ctrl-C does; called on a thread of execnet.
    """

    def __init__(self, config: pytest.Config, interrupt: Callable[[], None]) -> None:
        """Listen to nothing yet."""
        self._channel: Any = config.workerinput[_CHANNEL_KEY]  # type: ignore[attr-defined]
        self._interrupt = interrupt

    def pytest_sessionstart(self) -> None:
        """Listen to the controller."""
        # The end of the channel is that of the controller.
        self._channel.setcallback(self._take, endmarker=_STOP)

    def _take(self, text: object) -> None:
        if text == _STOP:
            self._interrupt()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Report that the kernel of this worker is gone."""
        with contextlib.suppress(OSError):
            self._channel.send(_ENDED)


class WorkerManager:
    """
    Hooks with which a controller configures its workers and follows them.

    Args:
        configuration: plain values for every worker.
        on_progress: receives the texts that workers send; called on a thread of execnet.
        on_crash: receives the mark of the test run and the name of a worker that went down.
        config: the controller's configuration.
    """

    def __init__(
        self,
        configuration: Mapping[str, Any],
        on_progress: Callable[[str], None],
        on_crash: Callable[[str, str], None],
        config: pytest.Config,
    ) -> None:
        """Remember what to send."""
        self._config = config
        self._configuration = configuration
        self._on_progress = on_progress
        self._on_crash = on_crash
        self._turn = threading.RLock()
        self._channels: dict[str, Any] = {}
        self._all_ended = threading.Event()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send a starting worker its configuration, and open a channel for its progress."""
        channel = node.gateway.newchannel()
        worker = str(node.workerinput["workerid"])
        self._channels[worker] = channel
        channel.setcallback(lambda text: self._take(worker, text))
        node.workerinput[_KEY] = json.dumps(dict(self._configuration))
        node.workerinput[_CHANNEL_KEY] = channel

    def _take(self, worker: str, text: str) -> None:
        if text != _ENDED:
            self.take_progress(text)
            return
        self._channels.pop(worker, None)
        if not self._channels:
            self._all_ended.set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Stop the workers, and wait a moment for what they were running."""
        for channel in tuple(self._channels.values()):
            with contextlib.suppress(OSError):
                channel.send(_STOP)
        if self._channels:
            self._all_ended.wait(_STOP_SECONDS)
        manager = getattr(self._config.pluginmanager.getplugin("dsession"), "nodemanager", None)
        if manager is not None:
            # Whoever sent the signal waits only so long; supervisors end the kernels of a worker that is killed.
            manager.EXIT_TIMEOUT = _EXIT_SECONDS

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
        self._channels.pop(str(node.workerinput.get("workerid", "")), None)
        if error:
            self._on_crash(str(node.workerinput.get("testrunuid", "")), str(node.workerinput.get("workerid", "")))
