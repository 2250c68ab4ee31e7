"""
Run the event loop of the kernels on a separate thread.

On a loop in the main thread nbclient and jupyter_client install signal handlers that swallow Ctrl-C and SIGTERM. On
another thread they cannot, and the main thread remains interruptible.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
_POLL_SECONDS: Final = 0.5
"""Interval at which the waiting main thread wakes up; on Windows a blocked lock cannot be interrupted."""


class KernelLoop:
    """
    An asyncio loop on a daemon thread, started at first use.

    Args:
        on_wait: called about twice a second on the waiting thread.
    """

    def __init__(self, on_wait: Callable[[], None] = lambda: None) -> None:
        """Start nothing yet."""
        self._on_wait = on_wait
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """
        Run ``coroutine`` to its end and return its result.

        A KeyboardInterrupt, or any other exception in the waiting thread, cancels the coroutine and is raised again
        after the coroutine's cleanup.
        """
        job = _Job(coroutine, self._start())
        try:
            job.begin()
            self._wait(job)
        except BaseException:
            if not job.is_over:
                job.cancel()
                # The cleanup is bounded; a second Ctrl-C ends the wait.
                job.wait()
                self._settle()
            raise
        return job.result()

    def _settle(self) -> None:
        """Wait until every cancelled task has finished its cleanup."""

        async def drain() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others)

        job = _Job(drain(), self._start())
        job.begin()
        self._wait(job)

    def close(self) -> None:
        """Stop the loop and its thread; safe to call twice."""
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    def _start(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            # zmq does not support the proactor loop, the default on Windows.
            loop = asyncio.SelectorEventLoop()
            thread = threading.Thread(target=loop.run_forever, name="lecturecheck-kernels", daemon=True)
            thread.start()
            # Assigned last: after an interruption no later run may wait for a loop that never started.
            self._loop, self._thread = loop, thread
        return self._loop

    def _wait(self, job: _Job[Any]) -> None:
        while not job.wait(_POLL_SECONDS):
            self._on_wait()


class _Job(Generic[T]):
    """
    A coroutine on the loop, for which another thread waits that may be interrupted at any moment.

    Ctrl-C is raised between any two instructions of the main thread. Inside ``threading.Condition`` (and so in events,
    queues and ``concurrent.futures``) it can leave a lock held for ever, and the loop would block at its next use of
    the same future. A bare lock has no such moment.

    Args:
        coroutine: the coroutine.
        loop: the loop that runs it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        """Start nothing yet."""
        self._coroutine = coroutine
        self._loop = loop
        self._task: asyncio.Task[T] | None = None
        self._running = threading.Lock()
        self._running.acquire()
        self.is_over = False
        """Whether the coroutine has ended or will never start."""

    def begin(self) -> None:
        """Schedule the coroutine on the loop."""
        self._loop.call_soon_threadsafe(self._begin)

    def wait(self, seconds: float = -1) -> bool:
        """Wait for the end of the coroutine, up to ``seconds``; return True if it has ended."""
        if self._running.acquire(timeout=seconds):
            self._running.release()
        return self.is_over

    def cancel(self) -> None:
        """Cancel the coroutine; one that was not scheduled yet never starts."""
        self._loop.call_soon_threadsafe(self._cancel)

    def result(self) -> T:
        """Return the coroutine's result, or raise its exception; call this once it has ended."""
        assert self._task is not None  # noqa: S101 - called only after wait() has returned True
        return self._task.result()

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(lambda _: self._finish())

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self._coroutine.close()
            self._finish()

    def _finish(self) -> None:
        self.is_over = True
        self._running.release()
