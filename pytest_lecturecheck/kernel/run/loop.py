"""
The event loop of the kernels, on a thread of its own.

nbclient and jupyter_client install signal handlers on a loop that runs in the main thread, which swallow Ctrl-C and
SIGTERM. On another thread they cannot, and the main thread stays free to be interrupted.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
_POLL_SECONDS: Final = 0.5
"""How often the waiting main thread looks up; on Windows a lock cannot be interrupted otherwise."""


class KernelLoop:
    """
    An asyncio loop on a daemon thread; started at first use.

    Args:
        on_wait: called about twice a second on the thread that waits.
    """

    def __init__(self, on_wait: Callable[[], None] = lambda: None) -> None:
        """Create nothing yet."""
        self._on_wait = on_wait
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """
        Run ``coroutine`` to its end and give its result.

        A KeyboardInterrupt (or any exception raised in the waiting thread) cancels the coroutine, waits until its
        cleanup is through, and goes on.
        """
        job = _Job(coroutine, self._start())
        try:
            job.begin()
            self._wait(job)
        except BaseException:
            if not job.is_over:
                job.cancel()
                # Cleanup has bounds of its own; a second Ctrl-C ends the wait.
                job.wait()
                self._settle()
            raise
        return job.result()

    def _settle(self) -> None:
        """Wait until every task that was cancelled has ended its cleanup."""

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
            # zmq cannot use the proactor loop, which is the default on Windows.
            loop = asyncio.SelectorEventLoop()
            thread = threading.Thread(target=loop.run_forever, name="lecturecheck-kernels", daemon=True)
            thread.start()
            # Known once it runs: an interruption before leaves nothing that a later run would wait for.
            self._loop, self._thread = loop, thread
        return self._loop

    def _wait(self, job: _Job[Any]) -> None:
        while not job.wait(_POLL_SECONDS):
            self._on_wait()


class _Job(Generic[T]):
    """
    A coroutine on the loop, waited for by another thread in which an exception may be raised at any moment.

    Ctrl-C is raised between any two instructions of the main thread, also within the methods of ``threading.Condition``
    (and so of events, queues and ``concurrent.futures``), which then keep their lock for ever; the loop would stand
    still at its next look at the same future. A bare lock has no such moment.

    Args:
        coroutine: what is run.
        loop: where.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        """Begin nothing yet."""
        self._coroutine = coroutine
        self._loop = loop
        self._task: asyncio.Task[T] | None = None
        self._running = threading.Lock()
        self._running.acquire()
        self.is_over = False
        """Whether the coroutine has ended, or will not begin any more."""

    def begin(self) -> None:
        """Hand the coroutine to the loop."""
        self._loop.call_soon_threadsafe(self._begin)

    def wait(self, seconds: float = -1) -> bool:
        """Wait until the coroutine has ended, for so long at most; tell whether it has."""
        if self._running.acquire(timeout=seconds):
            self._running.release()
        return self.is_over

    def cancel(self) -> None:
        """Ask the coroutine to end; one that was not handed over yet never begins."""
        self._loop.call_soon_threadsafe(self._cancel)

    def result(self) -> T:
        """Give what the coroutine returned, or raise what it raised, once it is over."""
        assert self._task is not None  # noqa: S101 - asked for after wait() has told that it is over
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
