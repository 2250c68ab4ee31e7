"""
Render what pytest's terminal and the ``lecturecheck`` command show.

Every function takes values and returns lines; the caller prints them. ``failure.py`` renders one failed item,
``exceeded.py`` its comparison with the limits, ``summary.py`` the whole session, ``progress.py`` the header and the
live line, ``budget_diff.py`` what recording changed. ``lecture_history.py`` and ``session_diff_table.py`` belong to the
commands ``show`` and ``compare``. Start with ``summary.py``.
"""
