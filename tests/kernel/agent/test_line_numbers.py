"""Every statement stays on its line when IPython transforms a cell."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from pytest_lecturecheck.kernel.agent.line_numbers import with_kept_lines

SHELL = ["!echo one \\\n  two", "x = !echo one \\\n  two", "%time \\\n  x = 1", "%env \\\n A=\\\n b", "!ls", "print?"]
CODE = [
    "",
    "  ",
    "x = 1",
    "# note",
    "y = '''\n\n!a \\\nb'''",
    "if True:\n    !ls \\\n     -l\n    z = 2",
    "\x0c",
    "a = [1,\n\n2]",
]


def kept(raw):
    return with_kept_lines(raw, TransformerManager().transform_cell(raw), TransformerManager())


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        ("!echo one \\\n  two\nmarked", 3),
        ("x = !echo \\\n a \\\n b\nmarked", 4),
        ("%time \\\n  pass\nmarked", 3),
        ("\n\n\nmarked", 4),
        ("  \n\t\n  x = 1\n  marked", 4),
        ("x = 1\n\x0c\ny = 2\nmarked", 4),
        ("x = 1\x0c\n!a \\\n b\nmarked", 4),
        ("\n!a \\\n b\n\n\n!c \\\n d \\\n e\nmarked", 9),
        ("marked", 1),
    ],
)
def test_a_statement_keeps_its_line(raw, line):
    source = kept(raw)
    assert source.split("\n")[line - 1] == "marked"
    tree = ast.parse(source)
    assert tree.body[-1].lineno == line


def test_a_cell_magic_stands_on_its_own_line():
    source = kept("\n\n%%time\n\nx = 1")
    assert source == "\n\nget_ipython().run_cell_magic('time', '', '\\nx = 1\\n')\n"


def test_the_result_of_other_transformations_is_left_alone():
    assert with_kept_lines("\n\nx = 1\ny", "something\nelse\n", TransformerManager()) == "something\nelse\n"


@given(st.lists(st.sampled_from([*SHELL, *CODE]), max_size=6))
def test_marked_lines_of_any_cell_keep_their_numbers(parts):
    lines = [line for number, part in enumerate(parts) for line in (part, f"marked_{number}")]
    raw = "\n".join(lines)
    for number, line in enumerate(kept(raw).split("\n")):
        if line.startswith("marked_"):
            assert raw.split("\n")[number] == line
