import asyncio
import random
import signal
import threading

import pytest

from pytest_lecturecheck.kernel.run.loop import KernelLoop


@pytest.fixture
def loop():
    loop = KernelLoop()
    yield loop
    loop.close()


def test_a_result(loop):
    async def answer():
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert loop.run(answer()) == "lecturecheck-kernels"


@pytest.mark.parametrize("error", [ValueError("told"), TimeoutError("its own")])
def test_an_exception_arrives(loop, error):
    async def fail():
        raise error

    with pytest.raises(type(error), match=str(error)):
        loop.run(fail())


def test_an_interrupted_wait_cancels_and_waits_for_the_cleanup():
    steps = []
    begun = threading.Event()

    def interrupt():
        if begun.is_set():
            raise KeyboardInterrupt

    loop = KernelLoop(on_wait=interrupt)

    async def work():
        try:
            begun.set()
            await asyncio.sleep(600)
        finally:
            steps.append("cleaning")
            await asyncio.sleep(0.05)
            steps.append("clean")

    with pytest.raises(KeyboardInterrupt):
        loop.run(work())
    assert steps == ["cleaning", "clean"]
    loop.close()


def test_waiting_is_reported():
    told = []
    is_told = threading.Event()

    def note():
        told.append(threading.current_thread())
        is_told.set()

    waiting = KernelLoop(on_wait=note)
    assert waiting.run(asyncio.to_thread(is_told.wait, 60))
    waiting.close()
    assert set(told) == {threading.main_thread()}


def test_an_interruption_at_any_moment_of_waiting_keeps_no_lock(loop, monkeypatch):
    """Ctrl-C just after a lock of Python's own was taken: it is never given back, and the loop waits for ever."""
    enter = threading.Condition.__enter__

    def interrupted(condition):
        result = enter(condition)
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return result

    loop.run(asyncio.sleep(0))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Condition, "__enter__", interrupted)
        assert loop.run(asyncio.sleep(0.01, "an answer")) == "an answer"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no timers that signal")
class InterruptionError(Exception):
    """Raised by a signal at any moment."""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no timers that signal")
def test_interruptions_at_random_moments_each_end_the_wait(loop, monkeypatch):
    def interrupt(*_):
        raise InterruptionError

    async def sleep_in_pieces():
        for _ in range(100_000):
            await asyncio.sleep(0.0001)

    def run_until_interrupted(seconds):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        loop.run(sleep_in_pieces())

    monkeypatch.setattr("pytest_lecturecheck.kernel.run.loop._POLL_SECONDS", 0.0005)
    loop.run(asyncio.sleep(0))
    before = signal.signal(signal.SIGALRM, interrupt)
    draw = random.Random(1)
    try:
        for _ in range(100):
            with pytest.raises(InterruptionError):
                run_until_interrupted(draw.uniform(0.001, 0.006))
    finally:
        signal.signal(signal.SIGALRM, before)


def kernel_threads():
    return {thread for thread in threading.enumerate() if thread.name == "lecturecheck-kernels"}


def test_closing_twice_and_starting_again(loop):
    before = kernel_threads()
    loop.run(asyncio.sleep(0))
    assert len(kernel_threads() - before) == 1
    loop.close()
    loop.close()
    assert kernel_threads() == before
    assert loop.run(asyncio.sleep(0, "again")) == "again"
