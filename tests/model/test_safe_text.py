"""Text from lectures is harmless wherever it is shown, and bounded."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from xml.sax.saxutils import escape as xml_escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.safe_text import cut, cut_line, one_line, plain

# Any code point at all, lone surrogates included, with the interesting ones far more often than chance would have them.
CONTROLS = (
    "\x00\x07\x08\t\n\r\x0c\x1b\x7f\x85\x9b\x9c\x9d\u061c\u200b\u202e\u2028\u2066\ufeff\ufffe\ud800\udcff\U000e0041"
)
CHARACTERS = st.one_of(st.sampled_from(CONTROLS + "[]PX^_m;0 \\日e\u0301"), st.characters(exclude_categories=()))
TEXTS = st.text(CHARACTERS)
LINES = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text, ünïcode, 日本語, \N{ROCKET}", "plain text, ünïcode, 日本語, \N{ROCKET}"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("\x1b]0;new title\x07text", "text"),
        ("\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9d52;c;cGFzdGU=\x9cafter", "after"),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("\x1b(Bset\x1bc", "set"),
        ("\x1b]0;never ended", r"\x1b]0;never ended"),
        ("\x1b[31", r"\x1b[31"),
        ("cut\x1b", r"cut\x1b"),
        ("nul\x00bell\x07back\x08del\x7f", r"nul\x00bell\x07back\x08del\x7f"),
        ("next\x85line\x0cfeed", r"next\x85line\x0cfeed"),
        ("user\u202egnp.exe\u2066", r"user\u202egnp.exe\u2066"),
        ("line\u2028paragraph\u2029", r"line\u2028paragraph\u2029"),
        ("lone \udc80 and \ud83d", r"lone \udc80 and \ud83d"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("ten\r\nlines\rof\n\rbars", "ten\nlines\nof\n\nbars"),
        ("a\tb\n\tc", "a   b\n    c"),
    ],
)
def test_plain_text_holds_nothing_that_acts(text, expected):
    assert plain(text) == expected


@given(TEXTS)
def test_plain_text_is_safe_for_terminals_files_and_xml(text):
    result = plain(text)
    assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", result) is None
    assert result.encode("utf-8").decode("utf-8") == result
    assert ET.fromstring(f"<t>{xml_escape(result)}</t>").text == (result or None)
    assert plain(result) == result


@given(TEXTS)
def test_one_line_is_one_line(text):
    assert one_line(text).splitlines() in ([], [one_line(text)])


def test_cut_marks_how_much_is_missing():
    text = "\n".join(str(number) for number in range(100))
    assert cut(text, 5, 80) == "0\n1\n[... 96 lines cut ...]\n98\n99"
    assert cut("one\ntwo", 2, 80) == "one\ntwo"
    assert cut("a" * 60 + "b" * 60, 1, 60) == f"{'a' * 22}[... 88 characters cut ...]{'b' * 10}"
    assert cut("a" * 60, 1, 12) == "aaa...aaaaaa"


@given(LINES, st.integers(1, 60))
def test_a_cut_line_is_never_longer_than_asked(text, chars):
    result = cut_line(text, chars)
    assert len(result) <= chars
    assert (result == text) == (len(text) <= chars)


@given(st.lists(LINES, max_size=30), st.integers(1, 10))
def test_cut_text_is_never_longer_than_asked(rows, lines):
    assert len(cut("\n".join(rows), lines, 1000).split("\n")) <= lines


@pytest.mark.parametrize("filling", ["x", " "])
def test_a_very_long_text_says_how_much_was_cut(filling):
    line = one_line("begin " + filling * 1_000_000 + " end", 60)
    assert line.startswith("begin ")
    assert line.endswith("end")
    assert "characters cut ...]" in line
    assert len(line) <= 60


def test_long_messages_are_cut_between_words():
    text = " ".join(["alpha", "beta", "gamma", "delta"] * 20)
    line = cut_line(text, 80)
    head, mark, tail = line.partition("[... ")
    words = {"alpha", "beta", "gamma", "delta"}
    assert set(head.split()) <= words
    assert set(tail.partition("]")[2].split()) <= words
    assert mark
    count = int(tail.split()[0])
    assert count == len(text) - len(head) - len(tail.partition("]")[2])
