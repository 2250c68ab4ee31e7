from __future__ import annotations

import pytest
from support.made_entries import TRACEBACK

from pytest_lecturecheck.report.frames import condense_traceback, whole_traceback

CHAINED = (
    """\
---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
Cell In[4], line 2
      1 try:
----> 2     {}["a"]
      3 except KeyError as error:

KeyError: 'a'

The above exception was the direct cause of the following exception:

ValueError                                Traceback (most recent call last)
Cell In[4], line 4
      2     {}["a"]
      3 except KeyError as error:
----> 4     raise ValueError("first\\nsecond") from error

ValueError: first
second
""",
)
RECURSION = (
    "RecursionError                            Traceback (most recent call last)",
    "Cell In[5], line 3\n      1 def f(n):\n      2     return f(n+1)\n----> 3 f(0)\n",
    "Cell In[5], line 2, in f(n)\n      1 def f(n):\n----> 2     return f(n+1)\n",
    "    [... skipping similar frames: f at line 2 (986 times)]\n",
    "Cell In[5], line 2, in f(n)\n      1 def f(n):\n----> 2     return f(n+1)\n",
    "RecursionError: maximum recursion depth exceeded",
)


def test_own_frames_keep_their_line_and_libraries_are_headings():
    assert condense_traceback(TRACEBACK, {2: 20, 3: 41}) == [
        "Cell In[3], line 3 (line 43 of the file)",
        "  ----> 3 so.minimize(f, [1.0])",
        "File scipy/optimize/_minimize.py:779, in minimize(...)",
        "[... 2 more frames in libraries ...]",
        "File scipy/optimize/_functions.py:362, in S.update(...)",
        "File scipy/_lib/_util.py:603, in W.__call__(...)",
        "File ~/book/lectures/tools.py:7, in cost(x)",
        "  ----> 7     return inner(x)",
        "Cell In[2], line 2, in inner(x) (line 21 of the file)",
        "  ----> 2     return 1 / 0",
        "ZeroDivisionError: division by zero",
    ]


def test_the_library_frame_that_raised_shows_its_line():
    traceback = (
        "Cell In[1], line 1\n----> 1 json.loads('{')\n",
        "File /usr/lib/python3.12/json/__init__.py:346, in loads(s, cls, **kw)\n--> 346     return decode(s)\n",
        "File C:\\Python312\\Lib\\json\\decoder.py:353, in raw_decode(self, s)\n    352 try:\n--> 353     scan(s)\n",
        "JSONDecodeError: Expecting property name",
    )
    assert condense_traceback(traceback) == [
        "Cell In[1], line 1",
        "  ----> 1 json.loads('{')",
        "File json/__init__.py:346, in loads(...)",
        "File json\\decoder.py:353, in raw_decode(...)",
        "  --> 353     scan(s)",
        "JSONDecodeError: Expecting property name",
    ]


def test_chained_exceptions_keep_their_joining_sentence():
    assert condense_traceback(CHAINED) == [
        "Cell In[4], line 2",
        '  ----> 2     {}["a"]',
        "KeyError: 'a'",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Cell In[4], line 4",
        '  ----> 4     raise ValueError("first\\nsecond") from error',
        "ValueError: first",
        "second",
    ]


def test_messages_below_a_frame_do_not_belong_to_it():
    packed = (
        CHAINED[0].replace("error:\n\nKeyError", "error:\nKeyError").replace("from error\n\nValue", "from error\nValue")
    )
    assert packed.count("\n\n") == CHAINED[0].count("\n\n") - 2
    assert condense_traceback((packed,)) == condense_traceback(CHAINED)


def test_recursion_stays_short():
    assert condense_traceback(RECURSION) == [
        "Cell In[5], line 3",
        "  ----> 3 f(0)",
        "Cell In[5], line 2, in f(n)",
        "  ----> 2     return f(n+1)",
        "    [... skipping similar frames: f at line 2 (986 times)]",
        "Cell In[5], line 2, in f(n)",
        "  ----> 2     return f(n+1)",
        "RecursionError: maximum recursion depth exceeded",
    ]


def test_repeated_frames_of_a_recursion_are_joined():
    repeated = (RECURSION[2],) * 40
    assert condense_traceback((*RECURSION[:2], *repeated, RECURSION[-1])) == [
        "Cell In[5], line 3",
        "  ----> 3 f(0)",
        "Cell In[5], line 2, in f(n)",
        "  ----> 2     return f(n+1)",
        "[... the same frame repeats ...]",
        "RecursionError: maximum recursion depth exceeded",
    ]


def test_a_syntax_error_is_kept_whole():
    traceback = ("  Cell In[3], line 2\n    x = = 3\n        ^\nSyntaxError: invalid syntax\n",)
    assert condense_traceback(traceback) == [
        "Cell In[3], line 2",
        "    x = = 3",
        "        ^",
        "SyntaxError: invalid syntax",
    ]


def test_text_without_frames_is_only_cut():
    traceback = ("Error in f(1) : bad argument", "Calls: f", *(f"  {number}: g()" for number in range(100)))
    condensed = condense_traceback(traceback)
    assert condensed[:3] == ["Error in f(1) : bad argument", "Calls: f", "  0: g()"]
    assert condensed[20] == "[... 63 lines cut ...]"
    assert condensed[-1] == "  99: g()"
    assert len(condensed) == 40


def test_a_long_message_is_cut():
    traceback = (
        "Cell In[1], line 1\n----> 1 f()\n",
        "ValueError: " + "\n".join(f"row {number}" for number in range(50)),
    )
    condensed = condense_traceback(traceback)
    assert condensed[:3] == ["Cell In[1], line 1", "  ----> 1 f()", "ValueError: row 0"]
    assert condensed[10] == "[... 35 lines cut ...]"
    assert condensed[-1] == "row 49"
    assert len(condensed) == 18


@pytest.mark.parametrize("traceback", [(), ("",), ("\n\n",)])
def test_empty_tracebacks_stay_empty(traceback):
    assert condense_traceback(traceback) == []
    assert whole_traceback(traceback) == []


def test_the_whole_traceback_loses_only_its_rule_and_control_sequences():
    traceback = (
        "-" * 75,
        "\x1b[31mNameError\x1b[39m   Traceback (most recent call last)",
        "Cell In[1], line 1\n----> 1 x\n",
    )
    assert whole_traceback(traceback) == [
        "NameError   Traceback (most recent call last)",
        "Cell In[1], line 1",
        "----> 1 x",
    ]
    assert whole_traceback(traceback, {1: 30})[1] == "Cell In[1], line 1 (line 30 of the file)"


@pytest.mark.parametrize(
    "piece",
    [
        "File /python3/",
        "File a:1, in (",
        "- > ",
        "1 ",
        "Cell In[1], line 2\n\n",
        "x/site-packages/",
        " ",
        "\x1b]",
        "\x9d",
    ],
)
def test_hostile_tracebacks_are_bounded(piece):
    # 300,000 characters would take hours where a pattern backtracks; here the result's size is what is asserted.
    condensed = condense_traceback((piece * (300_000 // len(piece)),), {1: 5})
    assert len(condensed) <= 120
    assert all(len(row) <= 2000 for row in condensed)


def frame(number, folder="~/book/lectures"):
    """One frame of own code, or of a library, with its context as IPython prints it."""
    context = "\n".join(f"{'----> ' if row == 3 else '      '}{row} line_{row}()" for row in range(1, 6))
    return f"File {folder}/part{number}.py:3, in step{number}()\n{context}\n"


def test_long_tracebacks_lose_library_frames_before_own_ones():
    library = "/opt/env/lib/python3.12/site-packages/library"
    mixed = [text for number in range(30) for text in (frame(number), *(frame(number, library),) * 3)]
    condensed = condense_traceback(("Cell In[1], line 1\n----> 1 f()\n", *mixed, "ValueError: far below"))
    assert len(condensed) <= 120
    assert condensed[-1] == "ValueError: far below"
    assert [row for row in condensed if row.startswith("File ~/book")] == [
        f"File ~/book/lectures/part{number}.py:3, in step{number}()" for number in range(30)
    ]
    assert any(row.startswith("[... ") and row.endswith(" lines cut ...]") for row in condensed)


def test_source_lines_without_their_heading_are_removed():
    """A kernel's long traceback is cut in the middle, which leaves the end of some library's source."""
    cut_traceback = (
        "Cell In[1], line 1\n----> 1 f()\n",
        "File /opt/lib/python3.12/site-packages/a.py:9, in a()\n----> 9 b()\n     10 first\n[... 80 lines cut ...]",
        "    641 headless = source\n--> 642 of(some, library)\n    643     goes on\n",
        "\n",
        "File ~/book/tools.py:7, in cost(x)\n----> 7     return inner(x)\n",
        "ValueError: bad",
    )
    assert condense_traceback(cut_traceback) == [
        "Cell In[1], line 1",
        "  ----> 1 f()",
        "File a.py:9, in a()",
        "  ----> 9 b()",
        "[... 80 lines cut ...]",
        "File ~/book/tools.py:7, in cost(x)",
        "  ----> 7     return inner(x)",
        "ValueError: bad",
    ]
