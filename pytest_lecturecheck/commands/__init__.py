"""
The ``lecturecheck`` command: budgets, platforms and kept sessions without pytest.

Each module is one subcommand: it declares its arguments and returns the lines to print. Start with
:mod:`~pytest_lecturecheck.commands.main`.
"""
