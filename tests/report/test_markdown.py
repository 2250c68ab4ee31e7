from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support.examples import examples
from support.hostile import HOSTILE, hostile_entry
from support.made_entries import failed, over, over_by_time, within

from pytest_lecturecheck.report.markdown_report import code, escape, fence, render_markdown
from pytest_lecturecheck.verdict import VerdictKind

ALLOWED = {
    *("h2", "h3", "p", "strong", "code", "pre", "ul", "li", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
MARKUP = st.text(
    st.one_of(st.sampled_from("`|<>[]()!*_~#&@:/\\\n-+=1. \t\"'$"), st.characters(exclude_categories=())), max_size=60
)


class Page(HTMLParser):
    """The tags and the text of a rendered page."""

    def __init__(self, markdown):
        super().__init__()
        self.tags, self.texts = [], []
        # A real reader, with raw HTML let through as GitHub does before it sanitises.
        self.feed(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown))

    def handle_starttag(self, tag, _attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x86_64, 1.21 GiB (+12 %)", "x86_64, 1.21 GiB (+12 %)"),
        ("a|b `c` <b>&amp;", "a&#124;b &#96;c&#96; &lt;b&gt;&amp;amp;"),
        ("two\nlines", "two lines"),
        ("*a* _b_ ~c~ a_b", "&#42;a&#42; &#95;b&#95; &#126;c&#126; a_b"),
        ("[x](y) ![z]", "&#91;x&#93;(y) &#33;&#91;z&#93;"),
        ("@owner fixes #12", "@&#8203;owner fixes &#35;&#8203;12"),
        ("HTTPS://evil.example www.evil.example", "HTTPS&#58;//evil.example www&#46;evil.example"),
        ("- item", "&#45; item"),
        ("-", "&#45;"),
        ("3.", "3&#46;"),
        ("3. item", "3&#46; item"),
        ("----", "&#45;---"),
        ("\x1b[31mred\x00", "red&#92;x00"),
    ],
)
def test_text_is_escaped(text, expected):
    assert escape(text) == expected


def test_a_fence_is_longer_than_any_row_of_backticks_inside():
    assert fence("a ```` b") == "`````text\na ```` b\n`````"
    assert fence("plain") == "```text\nplain\n```"


@given(MARKUP)
def test_no_text_becomes_markup(text):
    page = Page(f"| a | b |\n|---|---|\n| {code(text)} | {escape(text)} |\n\n{escape(text)}\n\n- {escape(text)}\n")
    assert set(page.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "code", "p", "ul", "li"}
    assert page.tags.count("td") == 2
    assert page.tags.count("li") == 1


@settings(max_examples=examples(30), deadline=None)
@given(MARKUP)
def test_no_hostile_lecture_changes_the_page(text):
    check_page(text)


@pytest.mark.parametrize(
    "text",
    [
        HOSTILE,
        "</code></summary></details><img src=x onerror=alert(1)>",
        "```\n</details>\n# Heading\n<script>",
        "~~~~\n````````\n| a | b |\n|---|---|",
        "a\n\n</pre>\n\n<iframe src=//evil.example>",
    ],
)
def test_hostile_samples_do_not_change_the_page(text):
    check_page(text)


def check_page(text):
    page = Page(render_markdown([hostile_entry(text), within()], title=text, platform=text))
    assert set(page.tags) <= ALLOWED
    assert page.tags.count("table") == 1
    assert page.tags.count("tr") == 3
    assert page.tags.count("details") == page.tags.count("pre") == 1
    assert page.tags.count("h2") == 1


def test_failures_come_first_and_their_text_is_whole():
    text = render_markdown([within(), failed()])
    assert text.startswith(
        "## Lecture check\n\n**2 lectures: 1 failed, 1 within; 6 cells run; highest peak 1.21 GiB; "
        "total lecture time 23.2 s**\n"
    )
    assert text.index("### Failures") < text.index("### Lectures") < text.index("### Details")
    assert text.index("<code>lectures/bang.md</code> | **failed**") < text.index("<code>lectures/jax_intro.md</code>")
    assert ">   43 | so.minimize(f, [1.0])\n" in text


def test_empty_sessions_say_so():
    assert render_markdown([]) == "## Lecture check\n\nNo lecture was run.\n"


def test_exceeded_values_are_marked_and_details_show_source():
    text = render_markdown([over(), over_by_time()])
    assert (
        "| <code>lectures/programming/kesten_processes_in_depth.md</code> | **over** | **7.94 GiB** | 1.39 GiB "
        "| **36.2 s**, limit 30 s | 3 (line 88) |\n"
        "| <code>lectures/slow.md</code> | **over** | 1.21 GiB | 1.39 GiB | **10.04 s**, limit 10 s | 3 (line 41) |\n"
    ) in text
    assert "\n    88 | a = 1\n    89 | b = np.random.standard_normal((500, 500_000))\n" in text


@pytest.mark.parametrize(
    ("headline", "shown"),
    [
        ("failed before, unchanged since today", "failed before, unchanged since today"),
        ("NameError: x", "failed before: NameError: x"),
    ],
)
def test_a_verdict_is_not_written_twice(headline, shown):
    entry = failed()
    entry = replace(entry, verdict=replace(entry.verdict, kind=VerdictKind.FAILED_BEFORE, headline=headline))
    assert f"</code>** {shown}\n" in render_markdown([entry])
