"""The line of an error is that of the source, in real kernels, however IPython transforms the cell."""

from __future__ import annotations

import itertools
import sys

import pytest

from pytest_lecturecheck.model.run import Outcome

HEADS = (
    "",
    "\n\n",
    "!echo one \\\n  two\n",
    "x = !echo one \\\n  two \\\n  three\n",
    "%time \\\n  x = 1\n",
    "\n  \n!echo a\n\n!echo b \\\n c\n",
    "text = '''\n\n!a \\\n b'''\n",
    "a = 1\n\x0c\nb = 2\n",
    "import os\n%env A=\\\n b\n",
    "print?\n\n",
)
TAILS = (
    "1 / 0  # here",
    "def f():\n\n    return 1 / 0  # here\nf()",
    "if True:\n    !echo c \\\n      d\n    1 / 0  # here",
    "z = = 1  # here",
)
MAGICS = (
    "%%time\n\n\nx = 1\n1 / 0  # here",
    "\n\n%%time\n\n!echo a \\\n b\n1 / 0  # here",
    "\n%%capture\n\n1 / 0  # here",
    "%%timeit -n1 -r1\nx = 0\n1 / x  # here",
    "script = open('script.txt', 'w')\nscript.write('a = 1\\n1 / 0')\nscript.close()\n%run script.txt  # here",
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the shell lines are those of POSIX systems")


def here(source):
    """Return the number of the line that is marked in the source."""
    return next(number for number, line in enumerate(source.split("\n"), start=1) if line.endswith("# here"))


def test_the_named_line_is_the_failing_one(bench):
    # IPython finds no shell line after a form feed: the cell is a syntax error there.
    pairs = [(head, tail) for head, tail in itertools.product(HEADS, TAILS) if "\x0c" not in head or "!" not in tail]
    sources = [head + tail for head, tail in pairs] + list(MAGICS)
    run = bench.run_sources(*sources, allow_errors=True)
    assert run.outcome is Outcome.COMPLETED
    found = {source: cell.error.line_in_cell for source, cell in zip(sources, run.cells, strict=True)}
    assert found == {source: here(source) for source in sources}


def test_the_traceback_shows_the_failing_line(bench):
    sources = [head + "1 / 0  # here" for head in HEADS]
    run = bench.run_sources(*sources, allow_errors=True)
    for source, cell in zip(sources, run.cells, strict=True):
        assert f"Cell In[{cell.number}], line {here(source)}" in "\n".join(cell.error.traceback)
        assert any(line.startswith(f"----> {here(source)} 1 / 0") for line in cell.error.traceback), (
            cell.error.traceback
        )


def test_the_source_of_functions_is_found(bench):
    """``inspect`` reads it, and with it JAX and Numba."""
    source = "\n\n!echo a \\\n b\ndef f(x):\n    # note\n    return x\nimport inspect\nprint(inspect.getsource(f))"
    run = bench.run_sources(source)
    assert run.cells[0].output_extract.endswith("def f(x):\n    # note\n    return x\n\n")


def test_a_stack_names_the_line_of_the_source(bench):
    run = bench.run_sources("\n\n!echo a \\\n b\nimport time\ntime.sleep(60)", timeout_seconds=5.0)
    assert (run.outcome, run.evidence.line) == (Outcome.TIMED_OUT, 105)
    assert run.evidence.timeout.stack[-1] == "code cell 1, line 105"


@pytest.mark.skipif(sys.platform != "linux", reason="the stack comes from faulthandler")
def test_a_crash_names_the_line_of_the_source(bench):
    run = bench.run_sources("\n\n!echo a \\\n b\nimport os\nos.abort()")
    assert (run.outcome, run.evidence.line) == (Outcome.DIED, 105)
    killed = bench.run_sources("\nimport os\nos.kill(os.getpid(), 9)")
    assert (killed.outcome, killed.evidence.cell_number, killed.evidence.line) == (Outcome.DIED, 1, None)
