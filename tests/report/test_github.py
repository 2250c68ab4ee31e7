"""What GitHub Actions is given, and text that must not speak to its runner."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.hostile import HOSTILE, hostile_entry, hostile_outputs
from support.made_entries import MACHINE, died, failed, not_started, over, session, within

from pytest_lecturecheck.report.github_summary import SUMMARY_BYTES, guard, render_annotations, render_step_summary

PIECES = st.text(
    st.one_of(
        st.sampled_from(":#[]%,\r\n\t\x1b\u200b\u2028\ufeff\xad\u3164 abe"), st.characters(exclude_categories=())
    ),
    max_size=60,
)


def commands_in(text):
    """Read what the runner would (ActionCommand.cs): two colons at the start of a line, the older form anywhere."""
    found = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        # Its comparison knows cultures, and passes over what has no width.
        seen = "".join(
            character for character in line if unicodedata.category(character) not in {"Cf", "Cc"} or character == "\t"
        )
        seen = seen.lstrip()
        if seen.startswith("::") or "##[" in seen:
            found.append(seen)
    return found


def unescaped(text):
    return text.replace("%2C", ",").replace("%3A", ":").replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")


def parsed(line):
    """Take an annotation apart as the runner does."""
    assert line.startswith("::error ")
    head, data = line[len("::error ") :].split("::", 1)
    pairs = (pair.split("=", 1) for pair in head.split(","))
    return {name: unescaped(value) for name, value in pairs}, unescaped(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::error::no", ": :error::no"),
        ("  ::set-env name=X::y", "  : :set-env name=X::y"),
        ("a\n\t::stop-commands::x\nb", "a\n\t: :stop-commands::x\nb"),
        ("\u200b:\u200b:error::no", "\u200b: \u200b:error::no"),
        ("see ##[error]no", "see # #[error]no"),
        ("###[a]##[b]", "## #[a]# #[b]"),
        ("see ##vso[task.setvariable]no", "see # #vso[task.setvariable]no"),
        ("std::vector<int> a::b", "std::vector<int> a::b"),
        ("# [x] ## y [z]", "# [x] ## y [z]"),
        ("", ""),
    ],
)
def test_command_marks_are_separated(text, expected):
    assert guard(text) == expected


@given(PIECES)
def test_no_text_holds_a_command(text):
    assert commands_in(guard(text)) == []
    assert guard(guard(text)) == guard(text)


@given(st.text(st.characters(exclude_characters=":#")))
def test_text_without_marks_is_unchanged(text):
    assert guard(text) == text


def test_parser_of_this_test_finds_real_commands():
    assert commands_in("a\n ::error::b\rx ##[warning]") == ["::error::b", "x ##[warning]"]


@pytest.mark.parametrize(
    "text", [HOSTILE, "\n::add-mask::x\n##[add-mask]x\n", ":\u200b:error::", "::", "x\r::error::y"]
)
def test_hostile_lectures_print_no_command(text):
    for output in hostile_outputs(text):
        assert commands_in(guard(output)) == []


def test_annotations_point_at_lines_of_the_lecture():
    lines = render_annotations([within(), over(), failed(), died(), not_started()], "book")
    kesten = "lectures/programming/kesten_processes_in_depth.md"
    assert lines[0] == (
        f"::error file=book/{kesten},line=88,title={kesten}%3A over::"
        "peak footprint 7.94 GiB, limit 1.39 GiB: 6.55 GiB over (+472 %25), in code cell 3, line 88"
    )
    assert lines[1] == (
        "::error file=book/lectures/bang.md,line=43,title=lectures/bang.md%3A failed::"
        "ZeroDivisionError: division by zero, in code cell 3, line 43"
    )
    assert lines[2] == (
        "::error file=book/lectures/gpu/abort.ipynb,title=lectures/gpu/abort.ipynb [gpu-f32]%3A died::"
        "kernel aborted (SIGABRT) in code cell 2"
    )
    assert lines[3] == (
        "::error file=book/lectures/dead.md,title=lectures/dead.md%3A not started::"
        "kernel 'conda-env-x-py' is not installed; installed: python3"
    )
    assert len(lines) == 4


def test_at_most_ten_lectures_are_annotated_once_each():
    again = replace(failed(), run=replace(failed().run, repeat=2))
    assert len(render_annotations([failed(), again])) == 1
    assert len(render_annotations([failed(f"{number}.md") for number in range(30)])) == 10
    assert render_annotations([within()]) == []


@pytest.mark.parametrize(
    ("folder", "lecture", "file"),
    [
        ("", "a.md", "a.md"),
        ("docs/book", "../a.md", "docs/a.md"),
        ("", "../a.md", "../a.md"),
        (".", "x/a.md", "x/a.md"),
    ],
)
def test_annotated_paths_start_at_the_repository_root(folder, lecture, file):
    (line,) = render_annotations([failed(lecture)], folder)
    assert parsed(line)[0]["file"] == file


def check_annotation(text):
    (line,) = render_annotations([hostile_entry(text)], "book")
    assert len(line.splitlines()) == 1
    assert len(commands_in(line)) == 1
    assert "##[" not in line
    properties, _ = parsed(line)
    assert set(properties) <= {"file", "line", "title"}
    assert properties["line"] == "43"
    assert len(line) < 10_000


@pytest.mark.parametrize(
    "text", [HOSTILE, "a%0A::error::b", "x,line=1,title=y::z", "\r\n::error::", ":::", "a\u2028::error::b"]
)
def test_hostile_samples_cannot_leave_their_annotation(text):
    check_annotation(text)


@settings(max_examples=examples(50))
@given(PIECES)
def test_no_text_leaves_its_annotation(text):
    check_annotation(text)


def test_small_sessions_are_summarised_in_full():
    text = render_step_summary(session(), platform="linux-x86_64-cpu", machine=MACHINE)
    assert text.startswith(
        "## Lecture check\n\n**18 lectures: 1 over, 1 failed, 1 timed out, 1 died, 1 not started, 7 within, "
    )
    assert text.count("<details>") == 5
    assert "- and" not in text


def large_session(times):
    return [
        *(within(f"lectures/{number}.md") for number in range(3 * times)),
        *(failed(f"bad/{number}.md") for number in range(9 * times)),
    ]


def test_huge_sessions_fit_the_limit_of_github():
    text = render_step_summary(large_session(75), platform="here", machine=MACHINE)
    assert 0 < len(text.encode()) <= SUMMARY_BYTES
    assert text.startswith("## Lecture check\n\n**900 lectures: 675 failed, 225 within;")
    assert "<details>" in text
    # Not all of it is there.
    assert text.count("<details>") < 675


def test_large_sessions_keep_their_failures():
    many = large_session(10)
    for room in (100_000, 15_000, 3000):
        text = render_step_summary(many, platform="here", machine=MACHINE, room_bytes=room)
        assert 0 < len(text.encode()) <= room
        assert text.startswith("## Lecture check\n\n**120 lectures: 90 failed, 30 within;")
    short = render_step_summary(many, platform="here", machine=MACHINE, room_bytes=15_000)
    assert "### Details" not in short
    assert "\n- and 40 more\n" in short
    assert short.endswith("\n- and 70 more\n")
    assert render_step_summary(many, platform="here", machine=MACHINE, room_bytes=10) == ""
