"""
Formats of other tools: one module for each.

In come a session's entries and what is known of the session. Out goes the text of one file. A lecture that did not run
to its end has no values in them; tables and metrics have its verdict. Start with ``series.py``, which the formats
share.
"""
