from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.model.metric import Measurement, Method, Metric, Unavailable
from pytest_lecturecheck.probe.memory._high_watermark import HighWatermark
from pytest_lecturecheck.probe.memory._linux_window import (
    Instrument,
    LinuxLecture,
    LinuxWindow,
    footprint_reading,
    rss_reading,
    swap_reading,
)
from pytest_lecturecheck.units import MIB

INSTRUMENT = Instrument(interval_seconds=0.025, tolerance_bytes=4096, has_swap=True)


def window(*readings, complete=True, **known):
    """Make a closed window of (rss, mark, swap) readings in MiB."""
    made = LinuxWindow(is_complete=complete, **known)
    for rss, mark, swap in readings:
        made.note_memory(rss_bytes=rss * MIB, mark_bytes=mark * MIB, swap_bytes=swap * MIB)
    return made


def not_reset(mark):
    """Return a high watermark that stood at ``mark`` MiB and could not be reset."""
    return HighWatermark(at_start_bytes=mark * MIB)


def footprint(made):
    return footprint_reading(made, INSTRUMENT)


def lecture_footprint(*windows, last=None):
    lecture = LinuxLecture()
    for made in windows:
        lecture.add(made)
    if last is not None:
        lecture.add_last(last)
    return lecture.readings(INSTRUMENT)[Metric.PEAK_FOOTPRINT]


def test_one_process_without_swap_is_exact():
    assert footprint(window((50, 50, 0), (60, 640, 0))) == Measurement(
        metric=Metric.PEAK_FOOTPRINT, value=640 * MIB, method=Method.EXACT, tolerance=4096, source="VmHWM"
    )


def test_swap_gives_a_bracket():
    assert footprint(window((50, 50, 0), (203, 204, 405), (100, 204, 100))) == Measurement(
        metric=Metric.PEAK_FOOTPRINT,
        value=608 * MIB,
        high=609 * MIB,
        method=Method.BRACKET,
        tolerance=4096,
        interval_seconds=0.025,
        source="VmHWM and VmSwap",
    )


def test_a_bracket_whose_ends_meet_is_exact():
    found = footprint(window((200, 200, 400)))
    assert (found.method, found.value, found.high) == (Method.EXACT, 600 * MIB, None)


def test_the_high_watermark_is_the_lower_end_of_a_bracket():
    found = footprint(window((100, 900, 10)))
    assert (found.method, found.value, found.high) == (Method.BRACKET, 900 * MIB, 910 * MIB)


def test_children_make_it_a_lower_bound():
    made = window((400, 442, 0), had_children=True)
    made.note_pss(total_bytes=500 * MIB, swap_bytes=0, process_count=5)
    made.note_pss(total_bytes=470 * MIB, swap_bytes=0, process_count=4)
    assert footprint(made) == Measurement(
        metric=Metric.PEAK_FOOTPRINT,
        value=500 * MIB,
        method=Method.SAMPLED,
        interval_seconds=0.025,
        source="PSS of 5 processes, every 25 ms",
    )


def test_the_kernel_alone_can_exceed_its_tree():
    made = window((400, 642, 0), had_children=True)
    assert footprint(made).source == "VmHWM of the main process; children not read"
    made.note_pss(total_bytes=500 * MIB, swap_bytes=0, process_count=5)
    assert footprint(made).value == 642 * MIB
    assert footprint(made).source == "VmHWM of the main process; PSS of 5 processes is less"


def test_a_single_child_can_exceed_the_tree_reading():
    made = window((40, 50, 0), had_children=True, child_bytes=200 * MIB)
    made.note_pss(total_bytes=160 * MIB, swap_bytes=0, process_count=2)
    assert footprint(made).value == 200 * MIB
    assert footprint(made).source == "VmRSS of the largest child process, every 25 ms"


def test_a_mark_that_was_not_reset_is_no_peak():
    made = window((50, 560, 0), resident=not_reset(560))
    reason = "<= 560 MiB, the high watermark could not be reset"
    assert footprint(made) == Unavailable(metric=Metric.PEAK_FOOTPRINT, reason=reason)
    assert rss_reading(made, INSTRUMENT) == Unavailable(metric=Metric.PEAK_RSS, reason=reason)


def test_a_raised_mark_belongs_to_its_window():
    made = window((50, 561, 0), resident=not_reset(560))
    assert footprint(made).method is Method.EXACT
    assert rss_reading(made, INSTRUMENT).value == 561 * MIB


def test_a_process_that_died_leaves_its_last_mark():
    made = window((50, 50, 0), (300, 320, 0), complete=False)
    assert rss_reading(made, INSTRUMENT) == Measurement(
        metric=Metric.PEAK_RSS,
        value=320 * MIB,
        method=Method.SAMPLED,
        interval_seconds=0.025,
        source="last VmHWM before the process ended",
    )
    assert footprint(made).source == "VmHWM of the main process, last read before it ended"
    assert footprint(made).text == ">= 320 MiB"


def test_nothing_read_is_not_zero():
    made = window(complete=False)
    reason = "the process had ended before it could be read"
    assert footprint(made) == Unavailable(metric=Metric.PEAK_FOOTPRINT, reason=reason)
    assert rss_reading(made, INSTRUMENT) == Unavailable(metric=Metric.PEAK_RSS, reason=reason)
    assert swap_reading(made, INSTRUMENT) == Unavailable(metric=Metric.PEAK_SWAP, reason=reason)


def test_swap_is_exactly_zero_only_without_swap_space():
    made = window((50, 50, 0))
    assert swap_reading(made, INSTRUMENT).method is Method.SAMPLED
    without = Instrument(interval_seconds=0.025, tolerance_bytes=4096, has_swap=False)
    assert (swap_reading(made, without).method, swap_reading(made, without).value) == (Method.EXACT, 0)


def test_lecture_of_exact_windows_is_exact():
    found = lecture_footprint(window((50, 60, 0)), window((50, 640, 0)), window((50, 70, 0)))
    assert (found.method, found.value) == (Method.EXACT, 640 * MIB)


def test_lecture_with_one_window_with_children_is_a_lower_bound():
    found = lecture_footprint(window((50, 640, 0)), window((50, 60, 0), had_children=True))
    assert (found.method, found.value) == (Method.SAMPLED, 640 * MIB)


def test_lecture_without_resets_still_knows_its_peak():
    kept = window((50, 560, 0), resident=not_reset(560))
    found = lecture_footprint(window((50, 560, 0)), kept)
    assert (found.method, found.value) == (Method.EXACT, 560 * MIB)


def test_lecture_bracket_is_no_wider_than_its_windows():
    found = lecture_footprint(window((900, 900, 0)), window((100, 100, 200)))
    assert (found.method, found.value) == (Method.EXACT, 900 * MIB)


def test_shutting_down_does_not_spoil_what_was_exact():
    last = window((50, 640, 0), complete=False, had_children=True, resident=not_reset(640))
    found = lecture_footprint(window((50, 640, 0)), last=last)
    assert (found.method, found.value) == (Method.EXACT, 640 * MIB)


def test_a_new_peak_during_shutdown_is_reported():
    last = window((50, 700, 0), complete=False, resident=not_reset(640))
    found = lecture_footprint(window((50, 640, 0)), last=last)
    assert (found.method, found.value) == (Method.SAMPLED, 700 * MIB)


def test_lecture_of_a_process_that_was_never_there():
    found = lecture_footprint(window(complete=False), last=window(complete=False))
    assert isinstance(found, Unavailable)


# True histories: the mark is never below any resident size since the last reset.
moments = st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 500)), min_size=1, max_size=8)


@given(st.lists(moments, min_size=1, max_size=5), st.lists(st.booleans(), min_size=40, max_size=40))
def test_bounds_hold_for_every_history(histories, is_sampled):
    lecture, truth, draw = LinuxLecture(), 0, iter(is_sampled)
    for history in histories:
        true_peak, mark = 0, 0
        made = LinuxWindow(is_complete=True)
        for index, (rss, swap) in enumerate(history):
            mark, true_peak = max(mark, rss), max(true_peak, rss + swap)
            if index in {0, len(history) - 1} or next(draw):
                made.note_memory(rss_bytes=rss, mark_bytes=mark, swap_bytes=swap)
        found = footprint(made)
        assert found.value <= true_peak
        if made.swap_bytes == max(swap for _, swap in history):
            assert true_peak <= (found.high if found.high is not None else found.value)
        truth = max(truth, true_peak)
        lecture.add(made)
    assert lecture.readings(INSTRUMENT)[Metric.PEAK_FOOTPRINT].value <= truth
