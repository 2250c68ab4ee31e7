"""Long tracebacks are cut by frames, and the lecture's own frames stay."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pytest_lecturecheck.kernel.run.traceback_lines import bounded_traceback

CELL = "Cell In[{}], line 2\n      1 def f(x):\n----> 2     g(x)"
LIBRARY = (
    "File /opt/py/lib/python3.11/site-packages/jax/_src/api.py:{}, in wrap(*args)\n      8 a\n----> 9 b\n     10 c"
)
MODULE = "File ~/book/lectures/helpers.py:{}, in solve(x)\n---> 12 return step(x)"
BANNER = "ValueError                                Traceback (most recent call last)"
ERROR = "ValueError: no"


def lines(*parts):
    return bounded_traceback(list(parts), lambda text: text)


def test_a_short_traceback_is_whole():
    assert lines(BANNER, CELL.format(1), ERROR) == (BANNER, *CELL.format(1).split("\n"), ERROR)


def test_own_frames_in_the_middle_are_kept():
    """The lecture's function is called by a library, and calls it again: its frame stands in the middle."""
    libraries = [LIBRARY.format(number) for number in range(60)]
    found = lines(BANNER, CELL.format(1), *libraries[:30], CELL.format(7), MODULE.format(5), *libraries[30:], ERROR)
    assert len(found) <= 121
    for part in (CELL.format(1), CELL.format(7), MODULE.format(5), libraries[-1]):
        assert part.split("\n")[0] in found
    assert found[-1] == ERROR
    assert sum(line.startswith("[... ") for line in found) >= 2


def test_no_source_stands_without_its_heading():
    found = lines(BANNER, CELL.format(1), *(LIBRARY.format(number) for number in range(80)), ERROR)
    previous = ""
    for line in found:
        if re.match(r"\s+8 a", line):
            assert previous.startswith("File ")
        previous = line


def test_endless_recursion_keeps_both_ends():
    found = lines(BANNER, *(CELL.format(number) for number in range(300)), "RecursionError: too deep")
    # The banner, which is left out, is no frame.
    assert not found[0].startswith("[...")
    assert "Cell In[0], line 2" in found
    assert "Cell In[299], line 2" in found
    assert found[-1] == "RecursionError: too deep"
    assert any(re.fullmatch(r"\[\.\.\. \d+ frames cut \.\.\.\]", line) for line in found)


def test_a_long_message_is_cut_in_its_middle():
    found = lines(BANNER, CELL.format(1), "\n".join(f"row {number}" for number in range(500)))
    assert "row 0" in found
    assert "row 499" in found
    assert len(found) <= 121


def test_what_is_no_list_gives_nothing():
    assert bounded_traceback("text", str) == ()


@given(st.lists(st.sampled_from([CELL, LIBRARY, MODULE, ERROR, BANNER, "x\n" * 200, ""]), max_size=200))
def test_any_traceback_is_bounded(parts):
    assert len(lines(*parts)) <= 125
