from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.probe.thinned_timeline import ThinnedTimeline


def timeline_of(values, most_points):
    """Return a timeline of (second, value) samples that keeps lowest and highest values."""
    timeline = ThinnedTimeline(most_points, merge, seconds=lambda sample: sample[0])
    for second, value in enumerate(values):
        timeline.add((second, value))
    return timeline


def merge(first, second):
    def level(sample):
        return sample[1]

    return min(first[0], second[0], key=level), max(first[1], second[1], key=level)


@given(st.lists(st.integers(0, 50), max_size=300), st.integers(0, 40))
def test_ends_and_extremes_are_kept(values, most_points):
    points = timeline_of(values, most_points).points()
    samples = list(enumerate(values))
    assert len(points) <= max(6, most_points)
    assert list(points) == sorted(set(points))
    assert set(points) <= set(samples)
    if values:
        assert (points[0], points[-1]) == (samples[0], samples[-1])
        kept = [value for _, value in points]
        assert (min(kept), max(kept)) == (min(values), max(values))


def test_the_earlier_of_equal_samples_is_kept():
    points = timeline_of([5] * 100, 6).points()
    assert points[0] == (0, 5)
    assert points[-1] == (99, 5)


def test_number_of_buckets_is_bounded():
    """The cost of adding a sample must not grow with the length of the run."""
    timeline = timeline_of([], 20)
    for number in range(10_000):
        timeline.add((number, number))
        assert timeline.bucket_count <= 9


def test_last_bucket_is_filled_after_an_odd_merge():
    """With an odd number of buckets the last one is half full after a merge."""
    points = timeline_of(range(1000), 8).points()
    assert len(points) >= 4
