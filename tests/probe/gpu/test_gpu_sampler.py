import threading

from pytest_lecturecheck.probe.gpu._gpu_sampler import DeviceSampler


class Counted:
    def __init__(self):
        self.count = 0
        self.reached = threading.Condition()

    def sample(self):
        with self.reached:
            self.count += 1
            self.reached.notify_all()

    def wait_for(self, count):
        with self.reached:
            assert self.reached.wait_for(lambda: self.count >= count, 30)


def test_samples_are_taken_while_a_probe_is_open():
    counted = Counted()
    sampler = DeviceSampler(counted.sample, 0.001)
    sampler.start()
    sampler.start()
    counted.wait_for(5)
    thread = sampler._thread
    sampler.stop()
    counted.wait_for(counted.count + 5)
    sampler.stop()
    thread.join(30)
    assert not thread.is_alive()
    count = counted.count
    sampler.start()
    counted.wait_for(count + 1)
    sampler.stop()


def test_a_request_does_not_wait_for_the_interval():
    counted = Counted()
    sampler = DeviceSampler(counted.sample, 10_000)
    sampler.start()
    counted.wait_for(1)
    count = counted.count
    assert sampler.look(30)
    assert counted.count > count
    sampler.stop()


def test_a_request_to_a_hanging_card_ends():
    hanging = threading.Event()
    sampler = DeviceSampler(lambda: hanging.wait(30))
    sampler.start()
    assert not sampler.look(0.01)
    sampler.stop()
    hanging.set()


def test_an_unanswered_request_times_out():
    assert not DeviceSampler(lambda: None).look(30)
