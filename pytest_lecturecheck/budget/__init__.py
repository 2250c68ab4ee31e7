"""
Budgets: limits, the recorded values they are derived from, and how recording changes them. Pure.

In come runs and the budgets so far. Out go new budgets and a description of each change; :mod:`drift
<pytest_lecturecheck.budget.drift>` finds slow trends over many sessions. Start with
:mod:`~pytest_lecturecheck.budget.limits`. Reading and writing budget files is the room ``store``.
"""
