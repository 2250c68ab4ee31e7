"""
Render runs and verdicts as text, one module for each medium.

In comes an :class:`~pytest_lecturecheck.report.entry.Entry`: a run with its verdict and budget. Out comes text: for the
terminal (``terminal/``), as one HTML page (``html/``), as Markdown, JSON, JUnit properties, GitHub annotations and a
paragraph for a README. Nothing in here reads the machine, decides a verdict or prints.

Start with ``entry.py``, then ``terminal/summary.py`` and ``terminal/failure.py``; the other media reuse their parts.
``text.py``, ``table.py`` and ``style.py`` know widths, alignment and colours.
"""
