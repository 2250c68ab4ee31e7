import threading

from pytest_lecturecheck.probe.memory._memory_sampler import MemorySampler


class Target:
    def __init__(self, *, wants_more=False):
        self.wants_more = wants_more
        self.intervals = []
        self.sampled, self.deeply = threading.Event(), threading.Event()

    def sample(self, interval_seconds):
        self.intervals.append(interval_seconds)
        self.sampled.set()
        return self.wants_more

    def sample_deeply(self):
        self.deeply.set()


def sampler_threads():
    return [thread for thread in threading.enumerate() if thread.name == "lecturecheck-sampler"]


def test_one_thread_for_all_targets_which_ends_with_the_last():
    sampler, first, second = MemorySampler(), Target(), Target(wants_more=True)
    before = set(sampler_threads())
    sampler.add(first, 0.01)
    sampler.add(second, 0.01)
    (thread,) = set(sampler_threads()) - before
    assert thread is sampler._thread
    assert thread.daemon
    assert first.sampled.wait(20)
    assert second.deeply.wait(20)
    sampler.remove(first)
    sampler.remove(second)
    thread.join(20)
    assert not thread.is_alive()
    assert not first.deeply.is_set()
    assert min(first.intervals) >= 0.01


def test_a_long_interval_does_not_delay_the_end():
    sampler, target = MemorySampler(), Target()
    sampler.add(target, 3600.0)
    assert target.sampled.wait(20)
    thread = sampler._thread
    sampler.remove(target)
    thread.join(20)
    assert not thread.is_alive()


def test_it_starts_again():
    sampler, target = MemorySampler(), Target()
    for _ in range(3):
        sampler.add(target, 3600.0)
        assert target.sampled.wait(20)
        target.sampled.clear()
        sampler.remove(target)
        sampler.remove(target)


def test_a_new_target_does_not_wait_for_an_old_one():
    sampler, slow, new = MemorySampler(), Target(), Target()
    sampler.add(slow, 3600.0)
    assert slow.sampled.wait(20)
    sampler.add(new, 3600.0)
    assert new.sampled.wait(20)
    sampler.remove(slow)
    sampler.remove(new)
