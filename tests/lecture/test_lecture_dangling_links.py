from __future__ import annotations

import os

import pytest

from pytest_lecturecheck.lecture.dangling_links import find_dangling_links

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")


@pytest.mark.parametrize(
    ("name", "is_found"),
    [
        ("gone.ipynb", True),
        ("GONE.MD", True),
        ("part", True),
        ("sub/gone.md", True),
        ("gone.txt", False),
        (".#gone.md", False),
        (".venv/lib64", False),
        ("_build/gone.md", False),
        ("env/gone.md", False),
    ],
)
def test_dangling_links_that_could_be_lectures(tmp_path, name, is_found):
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    link = tmp_path / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to("nowhere")
    assert list(find_dangling_links(tmp_path, frozenset({".ipynb", ".md"}))) == ([link] if is_found else [])


def test_links_that_lead_somewhere_are_no_finding(tmp_path):
    (tmp_path / "a.md").touch()
    (tmp_path / "b.md").symlink_to("a.md")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "itself.md").symlink_to("itself.md")
    assert list(find_dangling_links(tmp_path, frozenset({".md"}))) == [tmp_path / "itself.md"]
    assert list(find_dangling_links(tmp_path / "gone", frozenset({".md"}))) == []
