"""
One session of lectures, without pytest.

In: checked settings, paths of files, and the machine. Out: entries (a run with its verdict), recorded budgets, reports,
the kept session and the journal. Modules for collection and results are cheap to import; what reads and runs lectures
is not, and is loaded with :mod:`~pytest_lecturecheck.session.lecture_service` when the first lecture is read. Start
there, then read ``lecture_runner`` for one lecture and ``closing`` for what a session leaves.
"""
