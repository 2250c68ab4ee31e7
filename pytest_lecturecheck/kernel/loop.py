"""
The event loop of the kernels, on a thread of its own.

nbclient and jupyter_client install signal handlers on a loop that runs in the main thread, which swallow Ctrl-C and
SIGTERM. On another thread they cannot, and the main thread stays free to be interrupted.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

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
        future = asyncio.run_coroutine_threadsafe(coroutine, self._start())
        try:
            return self._wait(future)
        except BaseException:
            if not future.done():
                future.cancel()
                # Cleanup has bounds of its own; a second Ctrl-C ends the wait.
                concurrent.futures.wait([future])
                self._settle()
            raise

    def _settle(self) -> None:
        """Wait until every task that was cancelled has ended its cleanup."""
        loop = self._start()

        async def drain() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others)

        self._wait(asyncio.run_coroutine_threadsafe(drain(), loop))

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
            self._loop = asyncio.SelectorEventLoop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="lecturecheck-kernels", daemon=True)
            self._thread.start()
        return self._loop

    def _wait(self, future: concurrent.futures.Future[T]) -> T:
        while True:
            concurrent.futures.wait([future], timeout=_POLL_SECONDS)
            # Asked for without a limit: a TimeoutError is then the coroutine's own, not one of waiting.
            if future.done():
                return future.result()
            self._on_wait()
