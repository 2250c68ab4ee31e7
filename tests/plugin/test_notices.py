"""What a session has to say beside its results."""

from pytest_lecturecheck.plugin.notices import Notices


def test_each_line_is_shown_once():
    notices = Notices()
    notices.add("a", "", "b")
    assert notices.take_new() == ["a", "b"]
    notices.add("b", "c")
    assert notices.take_new(["a", "d", "d"]) == ["c", "d"]
    assert notices.take_new() == []
