from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.model.device import DeviceSample
from pytest_lecturecheck.probe.gpu._gpu_timeline import MOST_DEVICE_POINTS, device_timeline

_samples = st.lists(st.tuples(st.integers(0, 50), st.none() | st.integers(0, 50)), max_size=200)


def fill(pairs, limit):
    timeline = device_timeline(limit)
    samples = [
        DeviceSample(seconds=float(number), used_bytes=used, run_bytes=run) for number, (used, run) in enumerate(pairs)
    ]
    for sample in samples:
        timeline.add(sample)
    return samples, timeline.points()


@given(_samples, st.integers(8, 30))
def test_thinning_keeps_ends_and_peaks(pairs, limit):
    samples, points = fill(pairs, limit)
    assert len(points) <= limit
    assert [point.seconds for point in points] == sorted({point.seconds for point in points})
    assert set(points) <= set(samples)
    if samples:
        assert (points[0], points[-1]) == (samples[0], samples[-1])
        assert max(point.used_bytes for point in points) == max(sample.used_bytes for sample in samples)
        runs = [sample.run_bytes for sample in samples if sample.run_bytes is not None]
        kept = [point.run_bytes for point in points if point.run_bytes is not None]
        assert max(kept, default=None) == max(runs, default=None)


def test_a_long_run_has_points_all_over():
    _, points = fill([(number % 97, None) for number in range(20_000)], MOST_DEVICE_POINTS)
    assert MOST_DEVICE_POINTS / 4 < len(points) <= MOST_DEVICE_POINTS
    steps = [second.seconds - first.seconds for first, second in pairwise(points)]
    assert max(steps) < 300


def test_a_short_run_is_kept_whole():
    samples, points = fill([(1, 1)] * 250, MOST_DEVICE_POINTS)
    assert list(points) == samples


def test_nothing():
    assert device_timeline().points() == ()
