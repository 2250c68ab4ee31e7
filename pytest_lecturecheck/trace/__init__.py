"""
Read what ``jax.profiler`` wrote for a cell, and summarise it.

Comes in: a folder with a trace, written by the lecture's kernel and therefore untrusted. Goes out: a ``ProfileSummary``
(:mod:`pytest_lecturecheck.model.profile`). Start reading with ``trace_reader.py`` (the file), then ``events.py`` (its
operations) and ``profile_summary.py`` (their sums and what limits the cell).
"""
