import asyncio
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

    def interrupt():
        raise KeyboardInterrupt

    loop = KernelLoop(on_wait=interrupt)

    async def work():
        try:
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
    waiting = KernelLoop(on_wait=lambda: told.append(threading.current_thread()))
    waiting.run(asyncio.sleep(1.2))
    waiting.close()
    assert set(told) == {threading.main_thread()}


def test_closing_twice_and_starting_again(loop):
    before = threading.active_count()
    loop.run(asyncio.sleep(0))
    assert threading.active_count() == before + 1
    loop.close()
    loop.close()
    assert threading.active_count() == before
    assert loop.run(asyncio.sleep(0, "again")) == "again"
