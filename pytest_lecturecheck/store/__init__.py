"""
Files: budgets, runs, kept sessions, remembered failures and the journal of a session in progress.

In come values of the lower rooms. Out go the same values, read back and checked. Text from a file is never trusted:
sizes are bounded, unknown keys are refused, and only plain files are opened. Start with
:mod:`~pytest_lecturecheck.store.budget_file.files` for budgets and :mod:`~pytest_lecturecheck.store.session_history`
for sessions.
"""
