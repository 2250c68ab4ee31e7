import asyncio
import concurrent.futures
import threading

import pytest

from pytest_lecturecheck.kernel.loop import KernelLoop


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


def test_the_wait_is_told_about():
    told = []
    is_told = threading.Event()

    def note():
        told.append(threading.current_thread())
        is_told.set()

    waiting = KernelLoop(on_wait=note)
    assert waiting.run(asyncio.to_thread(is_told.wait, 60))
    waiting.close()
    assert set(told) == {threading.main_thread()}


def test_a_result_that_comes_just_when_the_waiting_thread_looks_up_is_not_lost(monkeypatch):
    """The wait is over without a result, and the result is there a moment later."""
    late = concurrent.futures.Future()
    monkeypatch.setattr(concurrent.futures, "wait", lambda *_args, **_more: late.set_result("late"))
    assert KernelLoop()._wait(late) == "late"


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
