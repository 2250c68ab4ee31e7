"""
What kept sessions of any number of machines say together: answers with values, intervals and the runs they rest on.

Kept sessions come in, and a :class:`~pytest_lecturecheck.findings.document.Document` goes out, with its texts and
pictures. Everything is computed from recorded values; nothing is run. Start at ``answering.py``, which makes one
section for each question.
"""
