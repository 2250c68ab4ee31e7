"""Lectures that are named and lie outside of rootdir."""

from pytest_lecturecheck.plugin.nodes import LectureItem


def test_lectures_outside_of_rootdir_keep_names_of_their_own(pytester, lecture):
    (pytester.path / "project").mkdir()
    lecture("project/in/intro.ipynb")
    lecture("a/intro.ipynb")
    lecture("b/intro.ipynb")
    items, _ = pytester.inline_genitems("--lecture-budget", "--rootdir=project", "project", "a", "b")
    names = [item.lecture_name for item in items if isinstance(item, LectureItem)]
    assert names == ["in/intro.ipynb", "../a/intro.ipynb", "../b/intro.ipynb"]
