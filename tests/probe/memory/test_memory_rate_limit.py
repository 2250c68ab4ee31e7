from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.probe.memory._rate_limit import RateLimiter


def test_the_first_reading_is_allowed_at_once():
    assert RateLimiter(5.0).allows(5.0)


def test_a_reading_must_be_earned():
    limiter = RateLimiter(0.0)
    limiter.spend(1.0, 1.5)
    assert not limiter.allows(49.0)
    assert limiter.allows(50.0)


def test_bursts_are_prevented():
    limiter = RateLimiter(0.0)
    limiter.spend(1000.0, 1000.5)
    assert not limiter.allows(1005.0)
    assert limiter.allows(1005.5)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.001, 1)), max_size=40))
def test_the_share_is_kept_but_for_one_reading(steps):
    limiter, now, spent, longest = RateLimiter(0.0), 0.0, 0.0, 0.0
    for pause, cost in steps:
        now += pause
        if limiter.allows(now):
            limiter.spend(now, now + cost)
            now, spent, longest = now + cost, spent + cost, max(longest, cost)
        assert spent <= 0.01 * now + longest + 1e-9
